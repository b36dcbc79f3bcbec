//! A round of copying ahead of a version: how far it has come, and its next piece.

use heliostat_abi::snapshot::memory::Shape;

use super::alive::{newest, shown, AliveByPlace};
use super::copied::{Copied, Portion};
use super::ledger::PoolSlot;
use super::source::SourceError;

/// A round that is under way.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) number: u64,
    /// Who began it: a forked child must not go on into its parent's pool.
    pub(super) pid: u32,
    /// All chunks before are copied, and of this one the stale bytes before `at`.
    pub(super) chunk: usize,
    pub(super) at: usize,
    /// Of this chunk; of all of them where a version has one colour.
    pub(super) colour: Option<usize>,
}

/// Bytes found written, and copied, by all calls of a round.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct DoneAhead {
    pub(super) dirty_bytes: usize,
    pub(super) copied_bytes: usize,
}

impl Copied {
    /// Copies on, until the budget is spent or all chunks are done; bytes copied.
    pub(super) fn walk(
        &mut self,
        walk: &mut Walk,
        alive: &AliveByPlace,
        shape: Shape,
        budget: usize,
    ) -> Result<usize, SourceError> {
        let (chunks, since) = (shape.chunks as usize, newest(alive).map_or(0, |it| it.number));
        let is_changed = |it: &Self, chunk| it.ledger.is_changed_since(chunk, since);
        if self.is_slab && !(0..chunks).any(|chunk| is_changed(self, chunk)) {
            walk.chunk = chunks;
        }
        let mut copied = 0;
        while walk.chunk < chunks && copied < budget {
            let chunk = walk.chunk;
            if self.is_slab || is_changed(self, chunk) {
                let first = if self.is_slab { 0 } else { chunk };
                let choose = || self.ledger.choose(first, shown(alive, first)).unwrap_or(0);
                // Kept, since what consumers let go meanwhile would change the choice.
                let colour = *walk.colour.get_or_insert_with(choose);
                let portion = Portion { at: walk.at, budget: budget - copied };
                let (bytes, next) =
                    self.fill(PoolSlot { chunk, colour }, walk.number, shape, portion)?;
                copied += bytes;
                if let Some(next) = next {
                    walk.at = next;
                    break;
                }
            }
            walk.chunk += 1;
            walk.colour = walk.colour.filter(|_| self.is_slab);
        }
        Ok(copied)
    }
}

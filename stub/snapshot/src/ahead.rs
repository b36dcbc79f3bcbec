//! Copying ahead of a version, piece by piece, while the program goes on.
//!
//! A round asks the engine once what was written, under a number of its own, and copies that over
//! as many calls as the budget makes of it. What is written after the asking is known to the
//! engine, whether it came before or after the copy of its page, whole or torn: the next asking
//! notes it under a greater number than the one that the slots filled by this round hold, so it is
//! copied again. No asking falls into a round, for a publishing ends it.

use super::door::Host;
use super::outcome::PublishError;
use super::region::Region;
use super::walk::Walk;

/// What one call of `Region::copy_ahead` did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ahead {
    /// Bytes that it copied.
    pub bytes: usize,
    /// All is copied that was written when the round began; the next call begins another one.
    pub is_done: bool,
}

impl Region {
    /// Copies what was written so far into slots that nobody sees, while the program goes on
    /// writing: the next version has to copy only what was written since, and its pause is shorter.
    /// To be called between operations until `is_done`, and then once or twice more while that
    /// copies less each time.
    ///
    /// Copies `budget` bytes and less than a page more, a page at least, or what is left. The first call of a round
    /// also asks the kernel for all that was written, a few ms for each GiB. Other threads may
    /// write meanwhile. Pages written during or after it are copied again; each costs its writer
    /// one more first write, and chunks that were hot are watched again. With *declared*, what is
    /// written after a call must be declared after it. Does nothing, and is done, where it is in
    /// vain: with *whole*, and for memory of `Region::allocate`.
    ///
    /// # Errors
    /// As `publish`, blocking for the policy's patience where there is no place. Nothing is lost.
    pub fn copy_ahead(&mut self, budget: usize) -> Result<Ahead, PublishError> {
        if !self.content.gains_ahead() {
            return Ok(Ahead { bytes: 0, is_done: true });
        }
        self.attend_door();
        self.make_room()?;
        let mut walk = match self.walk.take().filter(|walk| walk.pid == std::process::id()) {
            Some(walk) => walk,
            None => self.begin_walk()?,
        };
        let shape = self.table.shape;
        let bytes = self.content.walk(&mut walk, &self.alive, shape, budget.max(1))?;
        self.ahead.copied_bytes += bytes;
        let is_done = walk.chunk == shape.chunks as usize;
        self.walk = (!is_done).then_some(walk);
        Ok(Ahead { bytes, is_done })
    }

    /// As a publishing that fails at its end: slots hold a number that no version has.
    fn begin_walk(&mut self) -> Result<Walk, PublishError> {
        self.next += 1;
        self.ahead.dirty_bytes += self.content.note_ahead(self.next, &self.alive)?;
        let (number, pid) = (self.next, std::process::id());
        Ok(Walk { number, pid, chunk: 0, at: 0, colour: None })
    }
}

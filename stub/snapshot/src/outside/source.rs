//! Bytes of another program, hole by hole: what cannot be read is zeros.

use std::sync::Arc;

use heliostat_backend_pages::tracee::Copied;
use heliostat_backend_pages::track::Pages;
use heliostat_base::mapping::{OutOfRange, SharedMapping};

use super::pieces::{overlap, without};
use super::Target;
use crate::ledger::PAGE_BYTES;
use crate::source::{Source, SourceError};

/// Reads a range of another program's memory.
pub(super) struct Reader {
    target: Arc<Target>,
    start: usize,
    len: usize,
}

impl Reader {
    /// For the `len` bytes at `start`.
    pub(super) fn new(target: Arc<Target>, start: usize, len: usize) -> Self {
        Self { target, start, len }
    }

    /// Copies a range that was mapped when it was looked at; pages that are not there after all
    /// (behind the end of a file, or unmapped while the program runs) become zeros.
    fn read(&self, range: Pages, pool: &SharedMapping, at: usize) -> Result<(), SourceError> {
        let mut next = range.start;
        while next < range.end {
            let into = at + next - range.start;
            match self.target.tracee.copy_to(next, pool, into, range.end - next)? {
                Copied::All => return Ok(()),
                Copied::Gone => return Err(SourceError::Gone),
                Copied::Until(done) => {
                    let bad = next + done;
                    let end = (bad / PAGE_BYTES + 1).saturating_mul(PAGE_BYTES).min(range.end);
                    pool.zero(into + done, end - bad)?;
                    next = end;
                }
            }
        }
        Ok(())
    }
}

impl Source for Reader {
    fn start(&self) -> usize {
        self.start
    }

    fn len(&self) -> usize {
        self.len
    }

    fn copy_to(
        &self,
        offset: usize,
        pool: &SharedMapping,
        at: usize,
        len: usize,
    ) -> Result<(), SourceError> {
        OutOfRange::check(offset, len, self.len)?;
        let from = self.start + offset;
        let all = from..from + len;
        let mapped = self.target.mapped_in(&all);
        let all = std::slice::from_ref(&all);
        for hole in without(all, &mapped) {
            pool.zero(at + hole.start - from, hole.len())?;
        }
        for piece in overlap(all, &mapped) {
            let into = at + piece.start - from;
            self.read(piece, pool, into)?;
        }
        Ok(())
    }
}

//! Reads and writes that complete later: one submission for each part that they meet.

use super::{SpreadError, SpreadRegion};
use crate::{Submission, Work};

impl SpreadRegion {
    /// Returns the reads that together read these bytes, in order, for `Operations::submit_batch`: what
    /// their completions bring, one after the other, are the bytes.
    ///
    /// # Errors
    /// As `read`; nothing is read before they are submitted.
    pub fn reads(&self, offset: u64, bytes: u64) -> Result<Vec<Submission>, SpreadError> {
        let segments = self.segments(offset, bytes)?.into_iter();
        let read = segments.map(|it| {
            let into = vec![0; it.bytes as usize];
            Submission::new(it.region, Work::Read { offset: it.at, into })
        });
        Ok(read.collect())
    }

    /// Returns the writes that together write these bytes.
    ///
    /// # Errors
    /// As `write`; nothing is written before they are submitted.
    pub fn writes(&self, offset: u64, from: &[u8]) -> Result<Vec<Submission>, SpreadError> {
        let (mut rest, mut writes) = (from, Vec::new());
        for it in self.segments(offset, from.len() as u64)? {
            let (these, behind) = rest.split_at(it.bytes as usize);
            rest = behind;
            let work = Work::Write { offset: it.at, from: these.to_vec() };
            writes.push(Submission::new(it.region, work));
        }
        Ok(writes)
    }

    /// Returns an operation on the word at an offset, which `work` makes from its place in the part.
    ///
    /// # Errors
    /// As `fetch_add`.
    pub fn word(
        &self,
        offset: u64,
        work: impl FnOnce(u64) -> Work,
    ) -> Result<Submission, SpreadError> {
        let one = self.in_one(offset, heliostat_ring::area::WORD_BYTES)?;
        let one = one.ok_or(SpreadError::Misaligned { offset })?;
        Ok(Submission::new(one.region, work(one.at)))
    }
}

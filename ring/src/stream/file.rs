//! A file's bytes straight into the ring: sendfile without a copy between.

use heliostat_base::sys::Errno;

use super::{Corrupt, HeldBack, Lane, WriteCache};

impl Lane {
    /// Reads at most `limit` bytes of a file straight into the ring (sendfile without a copy
    /// between), from `offset` or the file's own position. The inner error is the file's.
    pub fn fill_from(
        &self,
        file: i32,
        offset: Option<u64>,
        limit: u64,
        cache: &mut WriteCache,
    ) -> Result<Result<usize, Errno>, Corrupt> {
        let (tail, room, origin) = self.prepare(limit, cache)?;
        let answer = self.fill(file, offset, room.min(limit), tail.wrapping_sub(origin));
        self.publish(tail, answer.unwrap_or(0) as u64);
        Ok(answer)
    }

    /// Reads a file into at most `limit` free bytes of the ring at `to`.
    fn fill(&self, file: i32, offset: Option<u64>, limit: u64, to: u64) -> Result<usize, Errno> {
        let at = to & (self.capacity() - 1);
        let span = limit.min(self.capacity() - at) as usize;
        if span == 0 {
            return Ok(0);
        }
        // SAFETY: at + span <= capacity, all inside the ring, and the room says that nobody reads
        // these bytes before they are published.
        let answer = unsafe {
            heliostat_base::call::pread_raw(file, self.place.byte(at as usize), span, offset)
        };
        answer.map(|bytes| bytes.min(span))
    }

    /// As `hold`, of at most `limit` bytes of a file: see `fill_from`.
    pub fn hold_from(
        &self,
        file: i32,
        offset: Option<u64>,
        limit: u64,
        until: u64,
        cache: &mut WriteCache,
    ) -> Result<Result<HeldBack, Errno>, Corrupt> {
        let (from, room, origin) = self.prepare_held(cache)?;
        let answer = self.fill(file, offset, room.min(limit), from.wrapping_sub(origin));
        Ok(answer.map(|bytes| self.held_on(from, bytes as u64, until)))
    }
}

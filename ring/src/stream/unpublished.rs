//! Bytes that the writer has put behind `tail` and told nobody of.
//!
//! ```text
//! head .. tail .. tail + unpublished
//!  unread   known to this writer alone
//! ```
//! Unlike what is held back (`held`), no word of the lane names them: the reader cannot take them when
//! a time has come, and with a writer that dies they are gone. That is what a writer needs that may
//! let nothing out before something else is durable. How many they are stands in the writer's own
//! `WriteCache`, under its lock; only one process may write such a lane meanwhile.
//!
//! Until they are published nothing else of this lane may be called that moves `tail` (`write`,
//! `hold`, `push`, `raise`).

use std::io::IoSlice;

use heliostat_abi::stream::channel::direction as at;

use super::{Lane, MoveError, Place, WriteCache};
use crate::sync::fence_after_locked;
use crate::sync::Ordering::{Acquire, Relaxed, SeqCst};

impl WriteCache {
    /// Bytes behind `tail` that only this writer knows.
    #[inline(always)]
    pub const fn unpublished(&self) -> u64 {
        self.unpublished
    }

    /// They reach nobody: the connection is reset.
    pub fn drop_unpublished(&mut self) {
        self.unpublished = 0;
    }
}

impl<P: Place> Lane<P> {
    /// Copies as much of `buffers` as there is room for behind what is not published yet.
    ///
    /// # Errors
    /// As `write`: nothing is added then.
    pub fn write_unpublished(
        &self,
        buffers: &[IoSlice<'_>],
        cache: &mut WriteCache,
    ) -> Result<usize, MoveError> {
        let (tail, room, origin) = match cache.unpublished {
            // As before any write, so that a drained ring starts over at its front.
            0 => self.prepare(self.capacity(), cache)?,
            behind => {
                let tail = self.place.u64(at::TAIL).load(Relaxed);
                cache.head = self.place.u64(at::HEAD).load(Acquire); // L2
                let used = self.checked(tail.wrapping_sub(cache.head).wrapping_add(behind))?;
                (tail, self.capacity() - used, self.place.u64(at::ORIGIN).load(Relaxed))
            }
        };
        let from = tail.wrapping_add(cache.unpublished);
        let mut done = 0u64;
        for buffer in buffers {
            let part = (room - done).min(buffer.len() as u64);
            self.copy_in(from.wrapping_add(done).wrapping_sub(origin), &buffer[..part as usize])?;
            done += part;
        }
        cache.unpublished += done;
        Ok(done as usize)
    }

    /// Publishes the first `limit` of these bytes at most; says how many they were.
    pub fn publish_unpublished(&self, limit: u64, cache: &mut WriteCache) -> u64 {
        let bytes = cache.unpublished.min(limit);
        if bytes > 0 {
            self.stamp();
            let tail = self.place.u64(at::TAIL).load(Relaxed);
            self.place.u64(at::TAIL).swap(tail.wrapping_add(bytes), SeqCst); // L1, D1
            fence_after_locked();
            cache.unpublished -= bytes;
        }
        bytes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::io::IoSliceMut;
    use std::sync::Arc;

    use heliostat_base::mapping::SharedMapping;

    fn lane() -> Lane {
        let (_fd, memory) = SharedMapping::create(c"unpublished", 8192).expect("memory");
        let lane = Lane::new(&Arc::new(memory), 0, 4096, 64).expect("within it");
        lane.reset(20);
        lane
    }

    fn read(lane: &Lane) -> Vec<u8> {
        let mut room = [0u8; 128];
        let done = lane.read(&mut [IoSliceMut::new(&mut room)], false).expect("a sound lane");
        room[..done.bytes].to_vec()
    }

    #[test]
    fn what_is_not_published_is_not_read_and_comes_in_order_afterwards() {
        let (lane, mut cache) = (lane(), WriteCache::new());
        for round in 0..200u8 {
            assert_eq!(lane.write(&[IoSlice::new(&[round; 5])], &mut cache), Ok(5));
            for part in [&[1, round][..], &[2, 2, round], &[3]] {
                let put = lane.write_unpublished(&[IoSlice::new(part)], &mut cache);
                assert_eq!(put, Ok(part.len()));
            }
            assert_eq!((read(&lane), lane.unread()), (vec![round; 5], Ok(0)));
            assert_eq!(lane.publish_unpublished(2, &mut cache), 2);
            assert_eq!(read(&lane), [1, round]);
            assert_eq!((cache.unpublished(), lane.unread()), (4, Ok(0)));
            assert_eq!(lane.publish_unpublished(u64::MAX, &mut cache), 4);
            assert_eq!((read(&lane), cache.unpublished()), (vec![2, 2, round, 3], 0));
        }
    }

    #[test]
    fn it_takes_room_and_a_dead_writer_s_is_never_seen() {
        let (lane, mut cache) = (lane(), WriteCache::new());
        assert_eq!(lane.write_unpublished(&[IoSlice::new(&[7; 100])], &mut cache), Ok(64));
        assert_eq!(lane.write_unpublished(&[IoSlice::new(&[7; 100])], &mut cache), Ok(0));
        // What a reader does for a writer that is gone.
        assert_eq!((lane.release_held(), read(&lane)), (0, vec![]));
        cache.drop_unpublished();
        assert_eq!(lane.publish_unpublished(u64::MAX, &mut cache), 0);
        assert_eq!(lane.unread(), Ok(0));
    }
}

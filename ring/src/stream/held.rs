//! Bytes that the writer holds back (MSG_MORE, TCP_CORK): they lie in the ring behind `tail`.
//!
//! ```text
//! head .. tail .. held
//!  unread   held back, until the writer pushes or the time has come
//! ```
//! The writer pushes by moving `tail` to its position. It may be asleep, computing or dead when the
//! time comes, so it is the reader that moves `tail` to `held` then, by compare-and-swap: both only
//! ever move it forward, and to a position whose bytes are there (`H1`). The reader looks at these
//! words only when it finds nothing to read, and sleeps no longer than until that time.
//!
//! A writer that begins to hold back looks for a sleeping reader, which must learn of the time. One
//! that goes on holding does so only if `tail` has moved: otherwise the reader knows it.

use std::io::IoSlice;

#[cfg(not(loom))]
use heliostat_abi::limits::HELD_BACK_NS;
use heliostat_abi::stream::channel::direction as at;

use super::{Corrupt, Lane, MoveError, Place, WriteCache};
use crate::sync::fence_after_locked;
use crate::sync::Ordering::{Acquire, Relaxed, SeqCst};

/// What came of holding bytes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldBack {
    /// Bytes that there was room for.
    pub bytes: usize,
    /// A sleeping reader does not know the time until which they are held.
    pub is_news: bool,
}

impl<P: Place> Lane<P> {
    /// Position behind the last byte that the writer has put into the ring.
    fn position(&self) -> u64 {
        let tail = self.place.u64(at::TAIL).load(Relaxed);
        tail.wrapping_add(self.held_behind(tail))
    }

    /// Bytes held back behind `tail`; 0 for a foreign number that cannot be.
    #[inline(always)]
    fn held_behind(&self, tail: u64) -> u64 {
        let held = self.place.u64(at::HELD).load(Acquire).wrapping_sub(tail); // H1
        match held > self.capacity() {
            true => 0,
            false => held,
        }
    }

    /// Bytes held back now.
    #[inline]
    pub fn held(&self) -> u64 {
        self.held_behind(self.place.u64(at::TAIL).load(Acquire))
    }

    /// Bytes that the reader has not read, with those held back, as the writer sees them.
    pub fn unsent(&self) -> Result<u64, Corrupt> {
        self.checked(self.position().wrapping_sub(self.head()))
    }

    /// Copies what there is room for behind what is held back already, for no reader to see before
    /// it is pushed, or before the monotonic time `until`.
    pub fn hold(
        &self,
        buffers: &[IoSlice<'_>],
        until: u64,
        cache: &mut WriteCache,
    ) -> Result<HeldBack, MoveError> {
        let (from, room, origin) = self.prepare_held(cache)?;
        let mut done = 0u64;
        for buffer in buffers {
            let part = (room - done).min(buffer.len() as u64);
            self.copy_in(from.wrapping_add(done).wrapping_sub(origin), &buffer[..part as usize])?;
            done += part;
        }
        Ok(self.held_on(from, done, until))
    }

    /// `done` bytes lie behind `from` now.
    pub(super) fn held_on(&self, from: u64, done: u64, until: u64) -> HeldBack {
        if done == 0 {
            return HeldBack { bytes: 0, is_news: false };
        }
        let tail = self.place.u64(at::TAIL).load(Relaxed);
        let until_word = self.place.u64(at::HELD_UNTIL);
        if tail == from {
            until_word.store(until, Relaxed);
        }
        self.place.u64(at::HELD).swap(from.wrapping_add(done), SeqCst); // H1, D1
        fence_after_locked();
        // The reader may have taken what was held before, and gone to sleep with nothing held.
        let is_news = tail == from || self.place.u64(at::TAIL).load(SeqCst) != tail;
        if is_news {
            until_word.store(until, Relaxed);
        }
        HeldBack { bytes: done as usize, is_news }
    }

    /// As `prepare`, behind what is held back.
    pub(super) fn prepare_held(&self, cache: &mut WriteCache) -> Result<(u64, u64, u64), Corrupt> {
        if self.held() == 0 {
            return self.prepare(self.capacity(), cache);
        }
        let from = self.position();
        cache.head = self.head();
        let used = self.checked(from.wrapping_sub(cache.head))?;
        Ok((from, self.capacity() - used, self.place.u64(at::ORIGIN).load(Relaxed)))
    }

    /// The writer lets the reader see all that is held back; says how much that was.
    pub fn push(&self) -> u64 {
        self.push_only(u64::MAX)
    }

    /// As `push`, of the first `limit` bytes at most.
    pub fn push_only(&self, limit: u64) -> u64 {
        self.stamp();
        // The reader may be moving it too, to all that is held: then nothing is left the second time.
        for _ in 0..2 {
            let tail = self.place.u64(at::TAIL).load(Relaxed);
            let bytes = self.held_behind(tail).min(limit);
            if bytes == 0 {
                break;
            }
            let next = tail.wrapping_add(bytes);
            let moved = self.place.u64(at::TAIL).compare_exchange(tail, next, SeqCst, SeqCst); // L1, D1
            fence_after_locked();
            if moved.is_ok() {
                return bytes;
            }
        }
        0
    }

    /// The connection is reset: what is held back reaches nobody.
    pub(super) fn drop_held(&self) {
        let tail = self.place.u64(at::TAIL).load(Relaxed);
        if self.held_behind(tail) > 0 {
            self.place.u64(at::HELD).store(tail, SeqCst);
        }
    }

    /// The reader takes what is held back: its time has come, or the writer is gone.
    pub fn release_held(&self) -> u64 {
        let tail = self.place.u64(at::TAIL).load(Acquire);
        self.release_behind(tail)
    }

    fn release_behind(&self, tail: u64) -> u64 {
        let head = self.place.u64(at::HEAD).load(Relaxed);
        let held = tail.wrapping_add(self.held_behind(tail));
        let unread = held.wrapping_sub(head);
        if held == tail || unread > self.capacity() {
            return 0;
        }
        // L1: what the writer publishes after this begins with these bytes.
        match self.place.u64(at::TAIL).compare_exchange(tail, held, SeqCst, SeqCst) {
            Ok(_) => unread,
            Err(now) => self.checked(now.wrapping_sub(head)).unwrap_or(0),
        }
    }
}

#[cfg(not(loom))]
impl<P: Place> Lane<P> {
    /// What an empty lane, as far as `tail`, has for its reader after all.
    #[inline(always)]
    pub(super) fn due(&self, tail: u64) -> u64 {
        match self.held_behind(tail) {
            0 => 0,
            _ => self.release_due(tail),
        }
    }

    #[cold]
    fn release_due(&self, tail: u64) -> u64 {
        match self.held_left() {
            0 => self.release_behind(tail),
            _ => 0,
        }
    }

    /// For how many ns a reader that is about to sleep may do so, if more is held back. What is due
    /// is taken, also behind unread bytes, and said to be due once: so no sleeper is kept awake.
    #[inline]
    pub fn held_for(&self) -> Option<u64> {
        match self.held() {
            0 => None,
            _ => self.held_or_released(),
        }
    }

    #[cold]
    fn held_or_released(&self) -> Option<u64> {
        match self.held_left() {
            0 => (self.release_held() > 0).then_some(0),
            left => Some(left),
        }
    }

    /// No more than the kernel holds back, whatever the word says.
    fn held_left(&self) -> u64 {
        let until = self.place.u64(at::HELD_UNTIL).load(Relaxed);
        until.saturating_sub(heliostat_base::clock::monotonic_ns()).min(HELD_BACK_NS)
    }
}

/// Loom has no clock: its time has come when a model says so.
#[cfg(loom)]
impl<P: Place> Lane<P> {
    pub(super) fn due(&self, _tail: u64) -> u64 {
        0
    }
}

#[cfg(all(test, not(loom)))]
#[path = "held_tests.rs"]
mod tests;

//! One direction of a byte stream in shared memory: a lane.
//!
//! Holds bytes and order, not meaning: positions and room here, flags and sleep words in
//! `words`, bytes that went before the ring in `prefix`, bytes that are held back in `held` or not
//! published at all in `unpublished`, the memory itself in `place`. Waiting, bells and the shadow connection belong to the stub. A lane is used under its side's lock; the other side is foreign, and so is every word
//! read from it.
//!
//! Orders (labels stand beside each release and its acquire; `models` shows them under loom):
//! - `L1` bytes before `tail`: the writer publishes, the reader acquires;
//! - `L2` reading done before `head`: the reader publishes, the writer acquires before reuse;
//! - `L3` `tail` before FIN/SWITCHED: who sees the flag sees the last byte;
//! - `H1` bytes before `held`: the writer holds them back, the reader acquires before it moves `tail`;
//! - `S1` `prefix` before the slot is Started: who sees the state sees the number;
//! - `D1`, `D2` sleep words: set, full fence, look again, sleep; against publish, full fence, look
//!   at the sleep word. One of both sees the other (Dekker), so no wake-up is lost;
//! - `D3` the silent wish: made, full fence, look at what was published and rung; against publish or
//!   count a bell, full fence, look at the wish. So the reader knows that nothing is under way;
//! - `T1` all that a loop has moved before its turn's end: who takes the turns sees it in the lanes.

mod file;
mod held;
mod place;
mod prefix;
mod socket;
mod stamps;
mod turns;
mod unpublished;
mod words;

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use heliostat_abi::stream::channel::direction as at;
use heliostat_base::guarded::Fault;
use heliostat_base::mapping::{OutOfRange, SharedMapping};

use crate::sync::fence_after_locked;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};

pub use held::HeldBack;
pub use place::{Mapped, Place};
pub use words::Wish;

/// A drained ring starts over at its front after this many bytes, so that a stream of small
/// messages keeps to a few warm cache lines instead of walking through the whole ring.
/// Loom's rings hold four bytes.
const REWIND_BYTES: u64 = if cfg!(loom) { 2 } else { 4096 };

/// The other side's positions contradict the ring's size; the stream cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt {
    /// Bytes said to be unread.
    pub unread: u64,
    /// Bytes the ring can hold.
    pub capacity: u64,
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "peer claims {} unread bytes in a ring of {}", self.unread, self.capacity)
    }
}
impl std::error::Error for Corrupt {}

/// Why bytes were not moved; nothing is published or consumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveError {
    /// The other side's positions contradict the ring's size.
    Corrupt(Corrupt),
    /// A buffer of the caller is not there; part of what was to be read may be in the others.
    Fault,
}

impl From<Corrupt> for MoveError {
    fn from(error: Corrupt) -> Self {
        Self::Corrupt(error)
    }
}

impl From<Fault> for MoveError {
    fn from(_: Fault) -> Self {
        Self::Fault
    }
}

/// What a writer remembers of the other side between writes; a wrong copy costs a reload only.
#[derive(Clone, Copy, Default, Debug)]
pub struct WriteCache {
    head: u64,
    rewind_at: u64,
    unpublished: u64,
}

impl WriteCache {
    /// Nothing remembered yet.
    pub const fn new() -> Self {
        Self { head: 0, rewind_at: 0, unpublished: 0 }
    }

    /// The reader's head as last seen.
    #[inline]
    pub const fn head(&self) -> u64 {
        self.head
    }
}

/// What a read did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadDone {
    /// Bytes copied out.
    pub bytes: usize,
    /// True when this read made a full ring roomy: a sleeping writer must be looked for.
    pub made_room: bool,
}

/// One direction of a stream; cheap to clone, keeps its memory mapped.
#[derive(Clone)]
pub struct Lane<P: Place = Mapped> {
    place: P,
}

impl Lane {
    /// A view of the direction header at `words` and the ring of `capacity` bytes at `data`.
    ///
    /// `capacity` must be a power of two; everything must lie inside the mapping.
    pub fn new(
        memory: &Arc<SharedMapping>,
        words: usize,
        data: usize,
        capacity: u32,
    ) -> Result<Self, OutOfRange> {
        Ok(Self { place: Mapped::new(memory, words, data, capacity)? })
    }
}

impl<P: Place> Lane<P> {
    /// A lane over memory of the caller's own kind, such as a test's that changes under every look.
    pub fn over(place: P) -> Self {
        Self { place }
    }

    /// Bytes the ring holds at most.
    #[inline(always)]
    pub fn capacity(&self) -> u64 {
        self.place.capacity()
    }

    /// Starts the direction anew, empty. Only for its owner before anybody else knows it.
    ///
    /// `stagger` spreads the first bytes of different lanes over cache sets.
    pub fn reset(&self, stagger: u64) {
        for word in [at::FLAGS, at::BELLS, at::READER_ASLEEP, at::WANT_NATIVE] {
            self.place.u32(word).store(0, Relaxed);
        }
        for word in [at::WRITER_ASLEEP, at::DRAINED, at::TURNS] {
            self.place.u32(word).store(0, Relaxed);
        }
        self.forget_stamps();
        for word in [at::HEAD, at::PREFIX, at::TAKEN, at::HELD, at::HELD_UNTIL] {
            self.place.u64(word).store(0, Relaxed);
        }
        self.place
            .u64(at::ORIGIN)
            .store(0u64.wrapping_sub(stagger & (self.capacity() - 1)), Relaxed);
        self.place.u64(at::TAIL).store(0, Release);
    }

    /// Unread bytes, as the reader sees them.
    #[inline]
    pub fn unread(&self) -> Result<u64, Corrupt> {
        let tail = self.place.u64(at::TAIL).load(Acquire); // L1
        match self.checked(tail.wrapping_sub(self.place.u64(at::HEAD).load(Relaxed)))? {
            0 => Ok(self.due(tail)),
            unread => Ok(unread),
        }
    }

    /// Free bytes, as the writer sees them now.
    #[inline]
    pub fn room(&self) -> Result<u64, Corrupt> {
        let head = self.place.u64(at::HEAD).load(Acquire); // L2
        let used = self.checked(self.place.u64(at::TAIL).load(Relaxed).wrapping_sub(head))?;
        Ok(self.capacity() - used)
    }

    /// Free bytes at least, as far as a head seen earlier tells: no look at the reader's line. `None`
    /// when that head is too old to tell anything.
    #[inline]
    pub fn room_since(&self, head: u64) -> Option<u64> {
        let used = self.place.u64(at::TAIL).load(Relaxed).wrapping_sub(head);
        self.capacity().checked_sub(used)
    }

    /// Asks for the writer's line, so that looking at many lanes waits for one miss, not for each.
    #[inline]
    pub fn prefetch(&self) {
        self.place.fetch_words();
    }

    /// Asks for the next bytes to be read, once `unread` said that there are some.
    #[inline]
    pub fn prefetch_bytes(&self) {
        let head = self.place.u64(at::HEAD).load(Relaxed);
        let from = head.wrapping_sub(self.place.u64(at::ORIGIN).load(Relaxed));
        self.place.fetch_line((from & (self.capacity() - 1)) as usize);
    }

    /// True when the kernel would call such a socket writable: a third of the ring is free.
    #[inline]
    pub fn is_roomy(&self, room: u64) -> bool {
        room >= self.capacity() / 3
    }

    #[inline(always)]
    fn checked(&self, unread: u64) -> Result<u64, Corrupt> {
        if unread > self.capacity() {
            return Err(Corrupt { unread, capacity: self.capacity() });
        }
        Ok(unread)
    }

    /// Position of the last byte written; changes exactly when there is more to read.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.place.u64(at::TAIL).load(Acquire) // L1
    }

    /// Position of the next byte to read.
    pub fn head(&self) -> u64 {
        self.place.u64(at::HEAD).load(Acquire) // L2
    }

    /// Copies unread bytes into `buffers`; `peek` leaves them unread. Never blocks.
    #[inline]
    pub fn read(&self, buffers: &mut [IoSliceMut<'_>], peek: bool) -> Result<ReadDone, MoveError> {
        let unread = self.unread()?;
        let head = self.place.u64(at::HEAD).load(Relaxed);
        let origin = self.place.u64(at::ORIGIN).load(Relaxed);
        let mut done = 0u64;
        for buffer in buffers.iter_mut() {
            let part = (unread - done).min(buffer.len() as u64);
            let from = head.wrapping_add(done).wrapping_sub(origin);
            self.copy_out(from, &mut buffer[..part as usize])?;
            done += part;
            if done == unread {
                break;
            }
        }
        if peek || done == 0 {
            return Ok(ReadDone { bytes: done as usize, made_room: false });
        }
        Ok(self.advance(head, done))
    }

    /// Throws away up to `limit` unread bytes (MSG_TRUNC).
    pub fn discard(&self, limit: usize) -> Result<ReadDone, Corrupt> {
        let unread = self.unread()?;
        let done = unread.min(limit as u64);
        Ok(self.advance(self.place.u64(at::HEAD).load(Relaxed), done))
    }

    #[inline(always)]
    fn advance(&self, head: u64, done: u64) -> ReadDone {
        let next = head.wrapping_add(done);
        self.place.u64(at::HEAD).swap(next, SeqCst); // L2, D2
        fence_after_locked();
        // The word lies beside `head`; as long as nobody sleeps the writer's line stays his.
        let sleeps = self.place.u32(at::WRITER_ASLEEP).load(Relaxed) != 0;
        ReadDone { bytes: done as usize, made_room: sleeps && self.passes_mark(head, next) }
    }

    /// True when a writer that saw `head` may have found too little room, and now has enough.
    ///
    /// The tail is looked at again, after the fence: the one that was read before copying may be
    /// older than the bytes that filled the ring and put the writer to sleep, and then neither
    /// this read nor any later one would seem to pass the mark.
    #[cold]
    fn passes_mark(&self, head: u64, next: u64) -> bool {
        let tail = self.tail();
        let full = self.capacity() - self.capacity() / 3;
        tail.wrapping_sub(head) > full && tail.wrapping_sub(next) <= full
    }

    /// Copies as much of `buffers` as there is room for and publishes it. Never blocks.
    #[inline]
    pub fn write(
        &self,
        buffers: &[IoSlice<'_>],
        cache: &mut WriteCache,
    ) -> Result<usize, MoveError> {
        let wanted = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let (tail, room, origin) = self.prepare(wanted, cache)?;
        let mut done = 0u64;
        for buffer in buffers {
            let part = (room - done).min(buffer.len() as u64);
            let to = tail.wrapping_add(done).wrapping_sub(origin);
            self.copy_in(to, &buffer[..part as usize])?;
            done += part;
            if done == room {
                break;
            }
        }
        self.publish(tail, done);
        self.claim_next(tail, done, origin);
        Ok(done as usize)
    }

    /// Tail, room and the position at ring offset zero, refreshing what is stale.
    #[inline(always)]
    fn prepare(&self, wanted: u64, cache: &mut WriteCache) -> Result<(u64, u64, u64), Corrupt> {
        let tail = self.place.u64(at::TAIL).load(Relaxed);
        let mut used = tail.wrapping_sub(cache.head);
        let mut origin = self.place.u64(at::ORIGIN).load(Relaxed);
        let rewind = tail.wrapping_sub(origin) >= cache.rewind_at.max(REWIND_BYTES);
        if used > self.capacity() || self.capacity() - used < wanted || rewind {
            cache.head = self.place.u64(at::HEAD).load(Acquire); // L2
            used = self.checked(tail.wrapping_sub(cache.head))?;
        }
        if rewind {
            if used == 0 {
                // The reader looks at `origin` only after it saw a new tail (L1).
                origin = tail;
                self.place.u64(at::ORIGIN).store(origin, Relaxed);
                cache.rewind_at = REWIND_BYTES;
            } else {
                cache.rewind_at = tail.wrapping_sub(origin).wrapping_add(REWIND_BYTES);
            }
        }
        Ok((tail, self.capacity() - used, origin))
    }

    /// Makes `done` bytes after `tail` visible, with a full fence after it (D1).
    #[inline(always)]
    fn publish(&self, tail: u64, done: u64) {
        if done > 0 {
            self.stamp();
            self.place.u64(at::TAIL).swap(tail.wrapping_add(done), SeqCst); // L1, D1
            fence_after_locked();
        }
    }

    /// The line that the next message begins on comes here while the peer works on this one.
    #[inline(always)]
    fn claim_next(&self, tail: u64, done: u64, origin: u64) {
        let next = tail.wrapping_add(done).wrapping_sub(origin).wrapping_add(63);
        self.place.claim_line((next & (self.capacity() - 1)) as usize);
    }

    #[inline(always)]
    fn copy_out(&self, from: u64, to: &mut [u8]) -> Result<(), Fault> {
        let at = (from & (self.capacity() - 1)) as usize;
        let first = to.len().min(self.capacity() as usize - at);
        // The rest, if any, is shorter than the ring: no read is longer than its unread bytes.
        let (first, rest) = to.split_at_mut(first);
        self.place.copy_out(at, first)?;
        if !rest.is_empty() {
            self.place.copy_out(0, rest)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn copy_in(&self, to: u64, from: &[u8]) -> Result<(), Fault> {
        let at = (to & (self.capacity() - 1)) as usize;
        // As in `copy_out`; the room was checked, so no unread byte is overwritten.
        let (first, rest) = from.split_at(from.len().min(self.capacity() as usize - at));
        self.place.copy_in(at, first)?;
        if !rest.is_empty() {
            self.place.copy_in(0, rest)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;

#[cfg(all(test, not(loom)))]
mod exhaustive;

#[cfg(all(test, loom))]
mod models;

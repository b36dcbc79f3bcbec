//! One direction of a byte stream in shared memory: a lane.
//!
//! Holds bytes and order, not meaning: positions, room, flags and the sleep words of
//! `abi::channel`. Waiting, bells and the shadow connection belong to the stub. A lane is used
//! under its side's lock; the other side is foreign, and so is every word read from it.
//!
//! Orders (labels stand beside each release and its acquire):
//! - `L1` bytes before `tail`: the writer publishes, the reader acquires;
//! - `L2` reading done before `head`: the reader publishes, the writer acquires before reuse;
//! - `L3` `tail` before FIN/SWITCHED: who sees the flag sees the last byte;
//! - `D1`, `D2` sleep words: set, full fence, look again, sleep; against publish, full fence, look
//!   at the sleep word. One of both sees the other (Dekker), so no wake-up is lost.

use std::io::{IoSlice, IoSliceMut};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{fence, AtomicU32, AtomicU64};
use std::sync::Arc;

use heliostat_abi::channel::direction as at;
use heliostat_base::mapping::{OutOfRange, SharedMapping};
use heliostat_base::sys::Errno;

/// A drained ring starts over at its front after this many bytes, so that a stream of small
/// messages keeps to a few warm cache lines instead of walking through the whole ring.
const REWIND_BYTES: u64 = 4096;

/// Values of the wish for the kernel's path.
const WANTED: u32 = 1;
const FULFILLED: u32 = 2;

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

/// What a writer remembers of the other side between writes; a wrong copy costs a reload only.
#[derive(Clone, Copy, Default, Debug)]
pub struct WriteCache {
    head: u64,
    rewind_at: u64,
}

impl WriteCache {
    /// Nothing remembered yet.
    pub const fn new() -> Self {
        Self { head: 0, rewind_at: 0 }
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
pub struct Lane {
    words: NonNull<u8>,
    data: NonNull<u8>,
    capacity: u64,
    _memory: Arc<SharedMapping>,
}

// SAFETY: the pointers stay valid while `_memory` lives, words are only used as atomics, and
// payload bytes are only copied.
unsafe impl Send for Lane {}
// SAFETY: as above; concurrent copies may tear bytes of a misbehaving peer, never our memory.
unsafe impl Sync for Lane {}

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
        let misfit = OutOfRange { offset: words, len: capacity as usize, limit: memory.len() };
        if words % 64 != 0 || !capacity.is_power_of_two() {
            return Err(misfit);
        }
        let words = NonNull::new(memory.bytes_at(words, 256)?).ok_or(misfit)?;
        let data = NonNull::new(memory.bytes_at(data, capacity as usize)?).ok_or(misfit)?;
        Ok(Self { words, data, capacity: u64::from(capacity), _memory: memory.clone() })
    }

    /// Bytes the ring holds at most.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    #[inline(always)]
    fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: offsets are this file's constants below 256, inside the header checked in
        // `new`, aligned because the header is; the memory lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.words.as_ptr().add(offset).cast()) }
    }

    #[inline(always)]
    fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `u32`, and the offsets of 64-bit words are multiples of eight.
        unsafe { AtomicU64::from_ptr(self.words.as_ptr().add(offset).cast()) }
    }

    /// Starts the direction anew, empty. Only for its owner before anybody else knows it.
    ///
    /// `stagger` spreads the first bytes of different lanes over cache sets.
    pub fn reset(&self, stagger: u64) {
        for word in [at::FLAGS, at::BELLS, at::READER_ASLEEP, at::WANT_NATIVE, at::WRITE_LOCK] {
            self.u32(word).store(0, Relaxed);
        }
        for word in [at::WRITER_ASLEEP, at::READ_LOCK, at::DRAINED] {
            self.u32(word).store(0, Relaxed);
        }
        self.u64(at::HEAD).store(0, Relaxed);
        self.u64(at::ORIGIN).store(0u64.wrapping_sub(stagger & (self.capacity - 1)), Relaxed);
        self.u64(at::TAIL).store(0, Release);
    }

    /// Unread bytes, as the reader sees them.
    #[inline]
    pub fn unread(&self) -> Result<u64, Corrupt> {
        let tail = self.u64(at::TAIL).load(Acquire); // L1
        self.checked(tail.wrapping_sub(self.u64(at::HEAD).load(Relaxed)))
    }

    /// Free bytes, as the writer sees them now.
    #[inline]
    pub fn room(&self) -> Result<u64, Corrupt> {
        let head = self.u64(at::HEAD).load(Acquire); // L2
        let used = self.checked(self.u64(at::TAIL).load(Relaxed).wrapping_sub(head))?;
        Ok(self.capacity - used)
    }

    /// True when the kernel would call such a socket writable: a third of the ring is free.
    #[inline]
    pub fn is_roomy(&self, room: u64) -> bool {
        room >= self.capacity / 3
    }

    #[inline(always)]
    fn checked(&self, unread: u64) -> Result<u64, Corrupt> {
        if unread > self.capacity {
            return Err(Corrupt { unread, capacity: self.capacity });
        }
        Ok(unread)
    }

    /// Position of the last byte written; changes exactly when there is more to read.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.u64(at::TAIL).load(Acquire) // L1
    }

    /// Position of the next byte to read.
    pub fn head(&self) -> u64 {
        self.u64(at::HEAD).load(Acquire) // L2
    }

    /// Copies unread bytes into `buffers`; `peek` leaves them unread. Never blocks.
    #[inline]
    pub fn read(&self, buffers: &mut [IoSliceMut<'_>], peek: bool) -> Result<ReadDone, Corrupt> {
        let unread = self.unread()?;
        let head = self.u64(at::HEAD).load(Relaxed);
        let origin = self.u64(at::ORIGIN).load(Relaxed);
        let mut done = 0u64;
        for buffer in buffers.iter_mut() {
            let part = (unread - done).min(buffer.len() as u64);
            let from = head.wrapping_add(done).wrapping_sub(origin);
            self.copy_out(from, &mut buffer[..part as usize]);
            done += part;
            if done == unread {
                break;
            }
        }
        if peek || done == 0 {
            return Ok(ReadDone { bytes: done as usize, made_room: false });
        }
        Ok(self.advance(head, unread, done))
    }

    /// Throws away up to `limit` unread bytes (MSG_TRUNC).
    pub fn discard(&self, limit: usize) -> Result<ReadDone, Corrupt> {
        let unread = self.unread()?;
        let done = unread.min(limit as u64);
        Ok(self.advance(self.u64(at::HEAD).load(Relaxed), unread, done))
    }

    #[inline(always)]
    fn advance(&self, head: u64, unread: u64, done: u64) -> ReadDone {
        self.u64(at::HEAD).store(head.wrapping_add(done), Release); // L2
        let full = self.capacity - self.capacity / 3;
        // A writer sleeps only when less than a third is free, so only the read that passes that
        // mark has to look for one.
        ReadDone { bytes: done as usize, made_room: unread > full && unread - done <= full }
    }

    /// Copies as much of `buffers` as there is room for and publishes it. Never blocks.
    #[inline]
    pub fn write(&self, buffers: &[IoSlice<'_>], cache: &mut WriteCache) -> Result<usize, Corrupt> {
        let wanted = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let (tail, room, origin) = self.prepare(wanted, cache)?;
        let mut done = 0u64;
        for buffer in buffers {
            let part = (room - done).min(buffer.len() as u64);
            let to = tail.wrapping_add(done).wrapping_sub(origin);
            self.copy_in(to, &buffer[..part as usize]);
            done += part;
            if done == room {
                break;
            }
        }
        self.publish(tail, done);
        Ok(done as usize)
    }

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
        let at = tail.wrapping_sub(origin) & (self.capacity - 1);
        let span = room.min(limit).min(self.capacity - at) as usize;
        if span == 0 {
            return Ok(Ok(0));
        }
        // SAFETY: at + span <= capacity, all inside the ring checked in `new`, and the room says
        // that nobody reads these bytes before they are published.
        let answer = unsafe {
            heliostat_base::call::pread_raw(file, self.data.as_ptr().add(at as usize), span, offset)
        };
        if let Ok(bytes) = answer {
            self.publish(tail, bytes.min(span) as u64);
        }
        Ok(answer)
    }

    /// Tail, room and the position at ring offset zero, refreshing what is stale.
    #[inline(always)]
    fn prepare(&self, wanted: u64, cache: &mut WriteCache) -> Result<(u64, u64, u64), Corrupt> {
        let tail = self.u64(at::TAIL).load(Relaxed);
        let mut used = tail.wrapping_sub(cache.head);
        let mut origin = self.u64(at::ORIGIN).load(Relaxed);
        let rewind = tail.wrapping_sub(origin) >= cache.rewind_at.max(REWIND_BYTES);
        if used > self.capacity || self.capacity - used < wanted || rewind {
            cache.head = self.u64(at::HEAD).load(Acquire); // L2
            used = self.checked(tail.wrapping_sub(cache.head))?;
        }
        if rewind {
            if used == 0 {
                // The reader looks at `origin` only after it saw a new tail (L1).
                origin = tail;
                self.u64(at::ORIGIN).store(origin, Relaxed);
                cache.rewind_at = REWIND_BYTES;
            } else {
                cache.rewind_at = tail.wrapping_sub(origin).wrapping_add(REWIND_BYTES);
            }
        }
        Ok((tail, self.capacity - used, origin))
    }

    /// Makes `done` bytes after `tail` visible, with a full fence after it (D1).
    #[inline(always)]
    fn publish(&self, tail: u64, done: u64) {
        if done > 0 {
            self.u64(at::TAIL).swap(tail.wrapping_add(done), SeqCst); // L1, D1
        }
    }

    #[inline(always)]
    fn copy_out(&self, from: u64, to: &mut [u8]) {
        let at = (from & (self.capacity - 1)) as usize;
        let first = to.len().min(self.capacity as usize - at);
        // SAFETY: at < capacity and first <= capacity - at; the rest, if any, is shorter than the
        // ring because no read is longer than its unread bytes. `to` is ours alone.
        unsafe {
            std::ptr::copy_nonoverlapping(self.data.as_ptr().add(at), to.as_mut_ptr(), first);
            if first < to.len() {
                let rest = to.as_mut_ptr().add(first);
                std::ptr::copy_nonoverlapping(self.data.as_ptr(), rest, to.len() - first);
            }
        }
    }

    #[inline(always)]
    fn copy_in(&self, to: u64, from: &[u8]) {
        let at = (to & (self.capacity - 1)) as usize;
        let first = from.len().min(self.capacity as usize - at);
        // SAFETY: as in `copy_out`; the room was checked, so no unread byte is overwritten.
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr(), self.data.as_ptr().add(at), first);
            if first < from.len() {
                let rest = from.as_ptr().add(first);
                std::ptr::copy_nonoverlapping(rest, self.data.as_ptr(), from.len() - first);
            }
        }
    }

    /// The writer's flags. Read `unread` again after a flag was seen (L3).
    #[inline]
    pub fn flags(&self) -> u32 {
        self.u32(at::FLAGS).load(Acquire) // L3
    }

    /// Adds flags, after the last byte was published, and fences before looking for a sleeper.
    pub fn raise(&self, flags: u32) {
        self.u32(at::FLAGS).fetch_or(flags, SeqCst); // L3, D1
    }

    /// True when the reader said it sleeps; who takes the word must ring.
    #[inline]
    pub fn take_sleeping_reader(&self) -> bool {
        let word = self.u32(at::READER_ASLEEP);
        word.load(Relaxed) != 0 && word.swap(0, SeqCst) != 0 // D1
    }

    /// The reader is about to sleep; it must look at the lane again after this (D1).
    #[inline]
    pub fn reader_sleeps(&self) {
        self.u32(at::READER_ASLEEP).store(1, Relaxed);
        fence(SeqCst);
    }

    /// The reader is awake again and needs no bell.
    #[inline]
    pub fn reader_awake(&self) {
        let word = self.u32(at::READER_ASLEEP);
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    }

    /// True when the writer said it sleeps for room; who takes the word must ring.
    pub fn take_sleeping_writer(&self) -> bool {
        fence(SeqCst); // D2
        let word = self.u32(at::WRITER_ASLEEP);
        word.load(Relaxed) != 0 && word.swap(0, SeqCst) != 0
    }

    /// The writer is about to sleep; it must look at the room again after this (D2).
    pub fn writer_sleeps(&self) {
        self.u32(at::WRITER_ASLEEP).store(1, Relaxed);
        fence(SeqCst);
    }

    /// The writer is awake again.
    pub fn writer_awake(&self) {
        let word = self.u32(at::WRITER_ASLEEP);
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    }

    /// The reader asks the writer to switch to the shadow and take unread bytes back.
    pub fn want_native(&self) {
        self.u32(at::WANT_NATIVE).swap(WANTED, SeqCst); // D1
    }

    /// True when the reader asked for that and nobody has answered yet.
    #[inline]
    pub fn is_native_wanted(&self) -> bool {
        self.u32(at::WANT_NATIVE).load(Acquire) == WANTED
    }

    /// The reader takes its wish back; false when the writer has begun to fulfil it.
    pub fn retract_want(&self) -> bool {
        self.u32(at::WANT_NATIVE).compare_exchange(WANTED, 0, SeqCst, SeqCst).is_ok()
    }

    /// The writer begins to fulfil the wish: from here on the reader leaves the ring alone. False
    /// when there is none, or it was taken back.
    pub fn accept_want(&self) -> bool {
        self.u32(at::WANT_NATIVE).compare_exchange(WANTED, FULFILLED, SeqCst, SeqCst).is_ok()
    }

    /// Counts one bell byte before it is sent in this direction.
    pub fn count_bell(&self) {
        self.u32(at::BELLS).fetch_add(1, SeqCst);
    }

    /// Takes a counted bell byte back that the shadow refused.
    pub fn uncount_bell(&self) {
        self.u32(at::BELLS).fetch_sub(1, SeqCst);
    }

    /// Bell bytes sent and not yet taken off the shadow by the reading side.
    pub fn bells_pending(&self) -> u32 {
        let sent = self.u32(at::BELLS).load(Acquire);
        sent.wrapping_sub(self.u32(at::DRAINED).load(Relaxed))
    }

    /// Notes that the reading side took `count` bell bytes off the shadow.
    pub fn bells_drained(&self, count: u32) {
        self.u32(at::DRAINED).fetch_add(count, SeqCst);
    }

    /// Lock word of the writing side's processes.
    pub fn write_lock(&self) -> &AtomicU32 {
        self.u32(at::WRITE_LOCK)
    }

    /// Lock word of the reading side's processes.
    pub fn read_lock(&self) -> &AtomicU32 {
        self.u32(at::READ_LOCK)
    }

    /// Unread bytes as a copy, for the writer that takes them back.
    pub fn take_back(&self) -> Result<Vec<u8>, Corrupt> {
        let head = self.head();
        let unread = self.checked(self.u64(at::TAIL).load(Relaxed).wrapping_sub(head))?;
        let origin = self.u64(at::ORIGIN).load(Relaxed);
        let mut bytes = vec![0; unread as usize];
        self.copy_out(head.wrapping_sub(origin), &mut bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;

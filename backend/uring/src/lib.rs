//! One io_uring whose operations own what the kernel touches: files, memory and the list of pieces.
//!
//! The kernel writes into memory at times of its own. So an operation takes a share of the mapping
//! and of the descriptor, and gives them back with its completion: a window stays mapped, and a file
//! open, until the device is done with it, whoever has died meanwhile. A ring that is dropped with
//! operations under way keeps their memory for ever instead of waiting.
//!
//! ```text
//! read, write, ..., readable ---> prepared --submit--> under way --reap--> (token, result)
//! ```
//!
//! Where the kernel gives no io_uring a few threads make the same requests ([`ThreadRing`]); a server
//! loop holds one or the other ([`Requests`]).
//!
//! For the control plane's server loop, for programs that read by themselves through the native
//! interface, and for logs. Beneath a program's own libc it is used with care: its three calls are made
//! here, but its memory is mapped and its descriptor closed through libc, where both are caught.
#![warn(missing_docs)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::{cqueue, opcode, squeue, types, IoUring, Probe};

use heliostat_base::mapping::{OutOfRange, SharedMapping};

mod accept;
mod beside;
mod device;
mod pinned;
mod request;
mod requests;
mod threads;

pub use accept::Acceptor;
pub use device::{transfer, Allocation, Direction};
pub use request::{Flight, Manner, NotPrepared, Range};
pub use requests::{By, Requests};
pub use threads::{ThreadRing, WATCHED_MAX};

/// Completions that may wait while nobody reaps, for each operation that may be prepared at once.
const COMPLETIONS_PER_ENTRY: u32 = 8;
/// FUTEX2_SIZE_U32: a shared word of 32 bits.
const WORD_OF_32_BITS: u32 = 2;
/// FUTEX_BITSET_MATCH_ANY.
const ANY_WAKER: u64 = 0xffff_ffff;
/// User data of operations whose completion nobody waits for.
const NOBODY: u64 = u64::MAX;

type Prepared = Result<Flight, NotPrepared>;

/// What an operation holds until it completes.
struct InFlight<T> {
    token: T,
    _file: Option<Arc<OwnedFd>>,
    _memory: Option<Arc<SharedMapping>>,
    _pieces: Box<[libc::iovec]>,
    /// Where a thread puts the result of what the kernel's ring only waits for.
    outcome: Option<beside::Outcome>,
}

// SAFETY: the pointers in `_pieces` are for the kernel alone, and point into `_memory`, which may
// be used from every thread.
unsafe impl<T: Send> Send for InFlight<T> {}

/// A ring of operations that come back with a `token`, which says what they were for.
pub struct Uring<T> {
    ring: IoUring,
    held: Vec<Option<InFlight<T>>>,
    free: Vec<u32>,
    prepared: bool,
    pinned: pinned::Pinned,
    /// Whether the kernel's ring makes files shorter and longer (Linux 6.9).
    truncates: bool,
}

impl<T> Uring<T> {
    /// A ring for `most` operations at once, of which `entries` go to the kernel in one call. For
    /// one thread, which is the one that calls this.
    ///
    /// # Errors
    /// What io_uring_setup(2) answers: ENOSYS or EPERM where it is switched off. Unsupported before
    /// Linux 6.7, where a wait for a word would end at once, each time.
    pub fn create(entries: u32, most: u32) -> io::Result<Uring<T>> {
        let mut builder = with_room(entries, most);
        // Completions are posted when the thread enters the kernel, and cost no interruption.
        builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag();
        let ring = builder.build(entries)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        has_all(|code| probe.is_supported(code))?;
        let mut ring = Self::around(ring, most);
        ring.truncates = probe.is_supported(opcode::Ftruncate::CODE);
        Ok(ring)
    }

    /// The same for transfers only, and for any thread, one at a time: completions are posted by
    /// whichever thread has submitted, wherever that is by then.
    ///
    /// # Errors
    /// What io_uring_setup(2) answers.
    pub fn create_for_transfers(entries: u32, most: u32) -> io::Result<Uring<T>> {
        Ok(Self::around(with_room(entries, most).build(entries)?, most))
    }

    fn around(ring: IoUring, most: u32) -> Uring<T> {
        let held = (0..most).map(|_| None).collect();
        let pinned = pinned::Pinned::new(&ring);
        let free = (0..most).rev().collect();
        Uring { ring, held, free, prepared: false, pinned, truncates: false }
    }

    /// A descriptor that is readable while there is a completion to take, for whoever sleeps elsewhere.
    ///
    /// # Errors
    /// The system has no descriptor.
    pub fn event(&self) -> io::Result<OwnedFd> {
        // SAFETY: the ring is open as long as this has it, and nobody closes it meanwhile.
        let ring = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        ring.try_clone_to_owned()
    }

    /// Readable when something has completed that nobody has reaped.
    pub fn descriptor(&self) -> i32 {
        self.ring.as_raw_fd()
    }

    /// Operations under way or prepared.
    pub fn under_way(&self) -> usize {
        self.held.len() - self.free.len()
    }

    /// Whether another operation can be prepared.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Reads from `offset` of a file into ranges of a mapping, in order.
    pub fn read(
        &mut self,
        token: T,
        file: &Arc<OwnedFd>,
        offset: u64,
        into: (&Arc<SharedMapping>, &[Range]),
        manner: Manner,
    ) -> Result<Flight, NotPrepared> {
        let fd = types::Fd(file.as_raw_fd());
        let (entry, pieces) = match into.1 {
            // No list is made: half of what a small transfer costs here would be the allocator's.
            [one] => (self.read_one(fd, offset, into.0, *one, manner)?, Box::default()),
            all => {
                let pieces = pieces_of(into.0, all, SharedMapping::writable_at)?;
                let entry = opcode::Readv::new(fd, pieces.as_ptr(), pieces.len() as u32);
                (entry.offset(offset).rw_flags(flags_of(manner)).build(), pieces)
            }
        };
        let (_file, _memory) = (Some(file.clone()), Some(into.0.clone()));
        self.prepare(entry, InFlight { token, _file, _memory, _pieces: pieces, outcome: None })
    }

    fn read_one(
        &mut self,
        fd: types::Fd,
        offset: u64,
        memory: &Arc<SharedMapping>,
        range: Range,
        manner: Manner,
    ) -> Result<squeue::Entry, NotPrepared> {
        let (start, len) = (memory.writable_at(range.offset, range.len)?, range.len as u32);
        let pinned = match manner {
            Manner::Direct => self.pinned.number(&self.ring.submitter(), memory, range),
            _ => None,
        };
        Ok(match pinned {
            Some(number) => opcode::ReadFixed::new(fd, start, len, number).offset(offset).build(),
            None => {
                let entry = opcode::Read::new(fd, start, len).offset(offset);
                entry.rw_flags(flags_of(manner)).build()
            }
        })
    }

    /// Lets go of a mapping that nobody will read into any more: `Manner::Direct` makes the kernel
    /// keep some of its pages, and this ring the mapping, until then.
    pub fn forget(&mut self, memory: &Arc<SharedMapping>) {
        self.pinned.forget(&self.ring.submitter(), memory);
    }

    /// Brings a file's bytes and what describes it to the disk.
    pub fn fsync(&mut self, token: T, file: &Arc<OwnedFd>) -> Result<Flight, NotPrepared> {
        let entry = opcode::Fsync::new(types::Fd(file.as_raw_fd())).build();
        self.prepare(entry, InFlight::of(token, Some(file.clone()), None))
    }

    /// Makes a file so many bytes long; before Linux 6.9 by a thread of its own, whose work a
    /// cancellation does not end.
    pub fn truncate(&mut self, token: T, file: &Arc<OwnedFd>, bytes: u64) -> Prepared {
        if !self.truncates {
            return self.truncate_beside(token, file, bytes);
        }
        let entry = opcode::Ftruncate::new(types::Fd(file.as_raw_fd()), bytes).build();
        self.prepare(entry, InFlight::of(token, Some(file.clone()), None))
    }

    fn truncate_beside(&mut self, token: T, file: &Arc<OwnedFd>, bytes: u64) -> Prepared {
        if !self.has_room() || self.ring.submission().is_full() && self.ring.submit().is_err() {
            return Err(NotPrepared::Full);
        }
        let (done, outcome) = beside::truncate(file, bytes).map_err(|_| NotPrepared::Full)?;
        let entry = opcode::PollAdd::new(types::Fd(done.as_raw_fd()), libc::POLLIN as u32).build();
        let held = InFlight { outcome: Some(outcome), ..InFlight::of(token, Some(done), None) };
        self.prepare(entry, held)
    }

    /// Completes when the word at `offset` does not hold `value`, or somebody wakes its sleepers.
    ///
    /// Panics when the word does not lie in the mapping: the offset is the caller's own constant.
    pub fn wait_word(
        &mut self,
        token: T,
        memory: &Arc<SharedMapping>,
        offset: usize,
        value: u32,
    ) -> Result<Flight, NotPrepared> {
        let word = memory.atomic_u32(offset).as_ptr();
        let value = u64::from(value);
        let entry = opcode::FutexWait::new(word, value, ANY_WAKER, WORD_OF_32_BITS).build();
        self.prepare(entry, InFlight::of(token, None, Some(memory.clone())))
    }

    /// Completes when there is something to read from a descriptor.
    pub fn readable(&mut self, token: T, fd: &Arc<OwnedFd>) -> Result<Flight, NotPrepared> {
        let entry = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), libc::POLLIN as u32).build();
        self.prepare(entry, InFlight::of(token, Some(fd.clone()), None))
    }

    /// Asks for an operation's end; it completes in any case, perhaps as if nobody had asked.
    pub fn cancel(&mut self, flight: Flight) {
        let entry = opcode::AsyncCancel::new(flight.0).build().user_data(NOBODY);
        // Where there is no room it ends by itself, only later.
        let _ = self.push(&entry);
    }

    /// Asks for the end of the first operation whose token is meant; false when there is none.
    pub fn cancel_one(&mut self, is_meant: impl Fn(&T) -> bool) -> bool {
        let is_meant =
            |held: &Option<InFlight<T>>| held.as_ref().is_some_and(|it| is_meant(&it.token));
        let found = self.held.iter().position(is_meant);
        found.into_iter().for_each(|index| self.cancel(Flight::of(index as u32)));
        found.is_some()
    }

    /// Gives the kernel what is prepared; no system call when there is nothing.
    ///
    /// # Errors
    /// EBUSY and the like: what is prepared stays so, and the next call tries again.
    pub fn submit(&mut self) -> io::Result<()> {
        if !self.prepared {
            return Ok(());
        }
        self.ring.submit()?;
        self.prepared = !self.ring.submission().is_empty();
        Ok(())
    }

    /// Submits and sleeps until something completes, `limit` at most.
    ///
    /// # Errors
    /// As `submit`; an interrupted or timed out sleep is none.
    pub fn sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let spec = limit.map(types::Timespec::from);
        let mut args = types::SubmitArgs::new();
        if let Some(spec) = &spec {
            args = args.timespec(spec);
        }
        let answer = self.ring.submitter().submit_with_args(1, &args);
        self.prepared = !self.ring.submission().is_empty();
        match answer {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    /// Whether there is a completion to take.
    pub fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Takes one completion: what it was for, and its result or minus an errno. Enters the kernel
    /// only when that has said that it has completions to post.
    pub fn reap(&mut self) -> Option<(T, i32)> {
        if self.ring.submission().taskrun() {
            // Nothing to wait for; the completions are posted on the way.
            let _ = self.ring.submitter().submit_with_args(0, &types::SubmitArgs::new());
            self.prepared = !self.ring.submission().is_empty();
        }
        loop {
            let entry = self.ring.completion().next()?;
            let Some(place) = self.held.get_mut(entry.user_data() as usize) else { continue };
            if let Some(held) = place.take() {
                self.free.push(entry.user_data() as u32);
                let told = held.outcome.as_ref().filter(|_| entry.result() >= 0);
                let result = told.and_then(|told| told.get().copied());
                return Some((held.token, result.unwrap_or(entry.result())));
            }
        }
    }

    fn prepare(&mut self, entry: squeue::Entry, held: InFlight<T>) -> Result<Flight, NotPrepared> {
        let index = self.free.pop().ok_or(NotPrepared::Full)?;
        let flight = Flight::of(index);
        if !self.push(&entry.user_data(flight.0)) {
            self.free.push(index);
            return Err(NotPrepared::Full);
        }
        // `index` came from `free`, which holds places of `held` only.
        self.held[index as usize] = Some(held);
        Ok(flight)
    }

    fn push(&mut self, entry: &squeue::Entry) -> bool {
        if self.ring.submission().is_full() && self.ring.submit().is_err() {
            return false;
        }
        self.prepared = true;
        // SAFETY: descriptor, memory and list of pieces live in `held` until the completion is
        // reaped, or for ever when the ring is dropped; a cancellation points to nothing.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }
}

impl<T> Drop for Uring<T> {
    /// What the kernel may still touch is never given back.
    fn drop(&mut self) {
        let under_way = self.held.drain(..).flatten();
        under_way.for_each(std::mem::forget);
    }
}

impl<T> InFlight<T> {
    fn of(token: T, file: Option<Arc<OwnedFd>>, memory: Option<Arc<SharedMapping>>) -> InFlight<T> {
        let _pieces = Box::default();
        InFlight { token, _file: file, _memory: memory, _pieces, outcome: None }
    }
}

/// A ring with room for the completions of as many operations.
fn with_room(entries: u32, most: u32) -> io_uring::Builder<squeue::Entry, cqueue::Entry> {
    let mut builder = IoUring::builder();
    let completions = entries.saturating_mul(COMPLETIONS_PER_ENTRY).max(most);
    builder.setup_cqsize(completions);
    builder
}

/// Whether the kernel has every operation that not all kernels have.
fn has_all(is_supported: impl Fn(u8) -> bool) -> io::Result<()> {
    if is_supported(opcode::FutexWait::CODE) {
        return Ok(());
    }
    let why = "the kernel's io_uring has no FUTEX_WAIT (Linux 6.7 and later have)";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

type Place = fn(&SharedMapping, usize, usize) -> Result<*mut u8, OutOfRange>;

fn pieces_of(
    memory: &SharedMapping,
    ranges: &[Range],
    place: Place,
) -> Result<Box<[libc::iovec]>, OutOfRange> {
    let piece = |range: &Range| {
        let start = place(memory, range.offset, range.len)?;
        Ok(libc::iovec { iov_base: start.cast(), iov_len: range.len })
    };
    ranges.iter().map(piece).collect()
}

fn flags_of(manner: Manner) -> i32 {
    match manner {
        Manner::Plain | Manner::Direct => 0,
        Manner::Append => libc::RWF_APPEND,
        Manner::Durable => libc::RWF_DSYNC,
        // Linux 6.14; older kernels answer EOPNOTSUPP.
        Manner::Uncached => 0x80,
    }
}

#[cfg(test)]
mod tests;

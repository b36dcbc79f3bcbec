//! The handler of SIGSEGV: finds whose memory an address is, and makes its chunk writable.
//!
//! Runs in the middle of anything: atomics and system calls only. The table of memories has a
//! limit and is never reallocated; who looks at an entry is counted, and who leaves waits for them.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU32};

use super::chunks::Chunks;
use super::signal;
use crate::{process, spin};

/// Most memories of one process.
pub(super) const MEMORIES_MAX: usize = 64;

/// Raised by the kernel for a store to memory that may only be read (source: siginfo.h).
const SEGV_ACCERR: i32 = 2;
/// Bit of a page fault's error code: it was a store (source: the architecture).
const STORE: i64 = 1 << 1;

const IN_A_FORK: &[u8] =
    b"heliostat: remapped memory was touched in a forked child, which does not \
have it; copy it before the fork, or attach to the region in the child\n";

struct Entry {
    chunks: AtomicPtr<Chunks>,
    /// Handlers that look at `chunks` now.
    looking: AtomicU32,
}

static MEMORIES: [Entry; MEMORIES_MAX] =
    [const { Entry { chunks: AtomicPtr::new(std::ptr::null_mut()), looking: AtomicU32::new(0) } };
        MEMORIES_MAX];

/// A memory's entry.
pub(super) struct Place(usize);

/// Has faults of a memory handled; `None` when the table is full. `chunks` stay until `leave`.
pub(super) fn enter(chunks: &Chunks) -> Option<Place> {
    let at = (chunks as *const Chunks).cast_mut();
    let none = std::ptr::null_mut();
    let taken = |entry: &Entry| entry.chunks.compare_exchange(none, at, SeqCst, SeqCst).is_ok();
    MEMORIES.iter().position(taken).map(Place)
}

/// Ends that. No handler knows of the memory afterwards.
pub(super) fn leave(place: &Place) {
    let entry = &MEMORIES[place.0];
    entry.chunks.store(std::ptr::null_mut(), SeqCst);
    // A handler that saw the pointer has been counted before; it copies one chunk at most.
    while entry.looking.load(SeqCst) != 0 {
        spin::sleep_ns(10_000);
    }
}

/// The handler itself.
pub(super) extern "C" fn on_fault(
    number: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
) {
    // SAFETY: the kernel gives both for the time of the handler (SA_SIGINFO).
    let (code, address, error) = unsafe {
        let registers = &(*context).uc_mcontext.gregs;
        ((*info).si_code, (*info).si_addr() as usize, registers[libc::REG_ERR as usize])
    };
    // Codes of the kernel are positive: anything else was sent by somebody, with no address.
    let is_done = code > 0
        && MEMORIES.iter().any(|entry| {
            entry.with(|chunks| settle(chunks, address, code == SEGV_ACCERR && error & STORE != 0))
        });
    if !is_done {
        signal::pass_on(number, info, context);
    }
}

impl Entry {
    /// False when the entry is empty.
    fn with(&self, look: impl FnOnce(&Chunks) -> bool) -> bool {
        if self.chunks.load(SeqCst).is_null() {
            return false;
        }
        self.looking.fetch_add(1, SeqCst);
        // SAFETY: either `leave` has cleared the pointer before this load, or it sees the count
        // (both are in one order) and the chunks stay until it is given back.
        let known = unsafe { self.chunks.load(SeqCst).as_ref() };
        let answer = known.is_some_and(look);
        self.looking.fetch_sub(1, SeqCst);
        answer
    }
}

/// True when the store can be made again.
fn settle(chunks: &Chunks, address: usize, is_store: bool) -> bool {
    let Some(index) = chunks.at(address) else { return false };
    if chunks.pid() != process::pid() {
        signal::say(IN_A_FORK);
        return false;
    }
    is_store && chunks.open(index, true).is_ok()
}

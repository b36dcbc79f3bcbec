//! The handler of SIGSEGV: finds whose memory an address is, and makes its chunk writable.
//!
//! Runs in the middle of anything: atomics and system calls only. The table of memories has a
//! limit and is never reallocated; who looks at an entry is counted, and who leaves waits for them.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicPtr, AtomicU32};

use super::chunks::Chunks;
use super::signal;
use heliostat_base::{clock, process, spin};

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
pub(super) struct HandlerEntry(usize);

/// How long `leave` waits for handlers, at most: each copies one chunk.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Has faults of a memory handled; `None` when the table is full. `chunks` stay until `leave`.
pub(super) fn enter(chunks: &Chunks) -> Option<HandlerEntry> {
    let at = (chunks as *const Chunks).cast_mut();
    MEMORIES.iter().position(|entry| entry.take(at)).map(HandlerEntry)
}

/// Ends that. True when no handler knows of the memory afterwards; false when one was in the
/// middle of it for longer than it can be, because a fork has taken its thread away.
pub(super) fn leave(place: &HandlerEntry) -> bool {
    let entry = &MEMORIES[place.0];
    entry.chunks.store(std::ptr::null_mut(), SeqCst);
    let ends = clock::monotonic_ns() + PATIENCE_NS;
    // A handler that saw the pointer has been counted before.
    while entry.looking.load(SeqCst) != 0 {
        if clock::monotonic_ns() > ends {
            return false;
        }
        spin::sleep_ns(10_000);
    }
    true
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
    let (is_store, pid) = (code == SEGV_ACCERR && error & STORE != 0, process::pid());
    let settled = |chunks: &Chunks| {
        let is_own = chunks.pid() == pid && is_store;
        is_own && chunks.at(address).is_some_and(|index| chunks.open(index, true).is_ok())
    };
    if code > 0 && MEMORIES.iter().any(|entry| entry.with(settled)) {
        return;
    }
    // After all others: in a fork, memory of its own may lie where the parent's does.
    let of_parent = |chunks: &Chunks| chunks.pid() != pid && chunks.at(address).is_some();
    if code > 0 && MEMORIES.iter().any(|entry| entry.with(of_parent)) {
        signal::say(IN_A_FORK);
    }
    signal::pass_on(number, info, context);
}

impl Entry {
    /// Takes the entry if it is empty, or was a memory of the process that this one is a fork of.
    fn take(&self, chunks: *mut Chunks) -> bool {
        let known = self.chunks.load(SeqCst);
        let is_parents = self.with(|chunks| chunks.pid() != process::pid());
        let is_free = known.is_null() || is_parents;
        is_free && self.chunks.compare_exchange(known, chunks, SeqCst, SeqCst).is_ok()
    }

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

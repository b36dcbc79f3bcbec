//! What one thread knows of itself: critical sections and signals that arrived.
//!
//! A signal handler of the program must not run while this thread holds one of the stub's
//! locks, because the handler may use the same socket; and a wait that spins in user space must
//! still end with EINTR when a handler ran. The signal entry of `bind/posix` tells both here.

mod interrupts;

use std::cell::Cell;
use std::sync::atomic::compiler_fence;
use std::sync::atomic::Ordering::SeqCst;

use heliostat_base::{call, process};

use interrupts::NONE;
pub use interrupts::{Began, Interrupts};

thread_local! {
    static SECTIONS: Sections = const { Sections { depth: Cell::new(0), counts: Cell::new(NONE) } };
    static DEFERRED: Cell<u64> = const { Cell::new(0) };
    static NEARNESS: Cell<i32> = const { Cell::new(0) };
    static TID: Cell<i32> = const { Cell::new(0) };
    static GUARD: Cell<Guard> = const { Cell::new(Guard { is_ready: false, hidden: 0 }) };
    static HANDLERS: Cell<u32> = const { Cell::new(0) };
    static SPAWNED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a handler of the program; `restarts` tells whether it has SA_RESTART. One that jumps out never
/// returns. A call that it has interrupted may be asleep without a frame: what is known of that one
/// outlasts the sleeps of the handler's own calls.
#[inline]
pub fn run_handler(restarts: bool, handler: impl FnOnce()) {
    SECTIONS.with(|sections| sections.counts.set(sections.counts.get().and_one(restarts)));
    let asleep = Began::of_sleep();
    HANDLERS.with(|count| count.set(count.get().saturating_add(1)));
    handler();
    HANDLERS.with(|count| count.set(count.get().saturating_sub(1)));
    asleep.keep();
}

/// True while one runs: what it has interrupted may be about to enter the kernel.
pub fn is_in_handler() -> bool {
    HANDLERS.with(Cell::get) != 0
}

/// The signals by which the kernel reports that memory is not there, as bits of a mask.
pub const FAULTS: u64 = 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1);

/// What a thread may rely on when it copies from a mapped file: a fault reaches our handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guard {
    /// Both signals are unblocked in the kernel, and every change of the mask passes by us.
    pub is_ready: bool,
    /// Those of the two that the program has blocked: it is told so, and none is blocked.
    pub hidden: u64,
}

/// What this thread may rely on.
#[inline(always)]
pub fn guard() -> Guard {
    GUARD.with(Cell::get)
}

/// Notes what it may rely on from now on.
pub fn set_guard(guard: Guard) {
    GUARD.with(|cell| cell.set(guard));
}

/// True when this thread may copy from mapped files.
#[inline(always)]
pub fn is_guarded() -> bool {
    GUARD.with(Cell::get).is_ready
}

/// Makes it so, if it can be: not while one of the two signals has been sent and waits.
pub fn make_guarded() -> bool {
    if is_guarded() {
        return true;
    }
    let hidden = call::signal_mask(libc::SIG_BLOCK, None) & FAULTS;
    if hidden != 0 {
        if call::pending_signals() & hidden != 0 {
            return false;
        }
        call::unblock_signals(hidden);
    }
    set_guard(Guard { is_ready: true, hidden });
    true
}

/// Ends it: what the program has blocked is blocked, as before an exec or in a handler.
pub fn end_guard() -> Guard {
    let before = GUARD.with(|cell| cell.replace(Guard { is_ready: false, hidden: 0 }));
    if before.hidden != 0 {
        call::signal_mask(libc::SIG_BLOCK, Some(before.hidden));
    }
    before
}

/// Notes that this thread is about to make a child that shares its memory, this word included.
pub fn spawns() {
    SPAWNED.with(|spawned| spawned.set(true));
}

/// True when this may be such a child: only then must anybody ask the kernel.
pub fn may_be_child() -> bool {
    SPAWNED.with(Cell::get)
}

/// Notes that it is none.
pub fn is_no_child() {
    SPAWNED.with(|spawned| spawned.set(false));
    heliostat_backend_robust::forget_thread();
}

/// How deep a thread is in critical sections, and how many handlers have run: one access finds both.
struct Sections {
    depth: Cell<u32>,
    counts: Cell<Interrupts>,
}

/// While one of these lives, handlers of asynchronous signals wait.
pub struct Critical {
    /// The handlers that had run when it was entered.
    interrupts: Interrupts,
}

impl Critical {
    /// Enters a critical section; they nest.
    #[inline]
    pub fn enter() -> Self {
        let interrupts = SECTIONS.with(|sections| {
            sections.depth.set(sections.depth.get() + 1);
            sections.counts.get()
        });
        // A handler of this thread sees the depth before any lock is taken, and as long as it is
        // held: to the compiler nobody else reads it.
        compiler_fence(SeqCst);
        Self { interrupts }
    }

    /// The begin of a call that enters this as its first.
    #[inline]
    pub fn began(&self) -> Began {
        Began { interrupts: self.interrupts, slept_ns: 0 }
    }
}

impl Drop for Critical {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        let depth = SECTIONS.with(|sections| {
            sections.depth.set(sections.depth.get() - 1);
            sections.depth.get()
        });
        compiler_fence(SeqCst);
        if depth == 0 && DEFERRED.with(Cell::get) != 0 {
            deliver_deferred();
        }
    }
}

#[cold]
fn deliver_deferred() {
    let mask = DEFERRED.with(|deferred| deferred.replace(0));
    call::unblock_signals(mask);
}

/// Asks whether a handler may run now. If not, the caller blocks the signal, queues it anew, and
/// it is unblocked when the critical section ends.
pub fn must_defer(signal: i32) -> bool {
    if SECTIONS.with(|sections| sections.depth.get()) == 0 {
        return false;
    }
    DEFERRED.with(|deferred| deferred.set(deferred.get() | 1 << (signal - 1)));
    true
}

/// True while this thread may hold a lock of the stub.
pub fn is_in_section() -> bool {
    SECTIONS.with(|sections| sections.depth.get()) != 0
}

/// Waits in a row that must speak for the other case before the opinion changes.
const NEARNESS_MAX: i32 = 4;

/// True when the peers of this thread seem to run on its own core: giving the core away is then
/// the quickest way to an answer.
#[inline]
pub fn peer_is_near() -> bool {
    NEARNESS.with(Cell::get) > 0
}

/// Notes how a wait ended: with work done while the core was given away, or by itself.
#[inline]
pub fn note_peer(near: bool) {
    NEARNESS.with(|score| {
        let step = if near { 1 } else { -1 };
        score.set((score.get() + step).clamp(-NEARNESS_MAX, NEARNESS_MAX));
    });
}

/// This thread's id, asked once.
pub fn tid() -> i32 {
    TID.with(|tid| {
        if tid.get() == 0 {
            tid.set(process::tid());
        }
        tid.get()
    })
}

/// The child of a fork is another thread.
pub fn forget_tid() {
    TID.with(|tid| tid.set(0));
    heliostat_backend_robust::forget_thread();
}

/// Sends SIGPIPE to this thread, as the kernel does with EPIPE.
pub fn raise_sigpipe() {
    let _ = call::signal_thread(process::pid(), tid(), libc::SIGPIPE);
}

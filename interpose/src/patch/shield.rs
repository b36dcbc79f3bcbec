//! Keeps thread cancellation out of the hook.
//!
//! glibc cancels a thread by a signal (SIGCANCEL, 32), whose handler unwinds the stack on the
//! spot if the thread is inside a cancellable call, and there our hook runs. Unwinding it would
//! abandon its locks, and Rust frames end the process. So the hook runs under a shield:
//!
//! ```text
//!  routine                                  handler (ours, before glibc's)
//!  -------------------------------------    ------------------------------------------
//!  shield.frame = this frame                in the hook? (frame set, and below it on the
//!  call hook                                stack): shield.pending = 1, return
//!  shield.frame = the one before            else: glibc's handler, which may unwind
//!  pending? send SIGCANCEL to ourselves
//! ```
//! Both steps after the hook are the routine's own instructions, which the unwinder can pass at
//! any point; there is no moment in which a signal is lost or strikes a Rust frame. The handler
//! takes its place when libc sets its own: we see that call like any other.
//!
//! A frame left by a jump out of a signal handler leaves its address behind. The next call from
//! higher up the stack recognises and clears it.

use super::{HookFn, SyscallFrame, Verdict};
use heliostat_base::sys::raw;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The signal by which glibc cancels threads (source: nptl, `__SIGRTMIN`).
pub(super) const SIGCANCEL: u64 = 32;

/// Offset of `pending` from the shield's start.
pub(super) const PENDING_AT: i32 = 8;

/// One thread's shield, in static thread-local memory: zero when a thread begins.
#[repr(C)]
struct Shield {
    frame: u64,
    pending: u64,
}

// Thread-local memory of the initial-exec kind lies at one distance from the thread pointer in
// all threads, so the trampolines reach it with one instruction. std's thread_local! in a shared
// library is of the general kind, which calls the dynamic linker and may allocate.
core::arch::global_asm!(
    ".pushsection .tbss.heliostat_shield,\"awT\",@nobits",
    ".balign 16",
    ".globl heliostat_interpose_shield",
    ".hidden heliostat_interpose_shield",
    ".type heliostat_interpose_shield,@object",
    ".size heliostat_interpose_shield,16",
    "heliostat_interpose_shield:",
    ".zero 16",
    ".popsection",
);

/// What `rt_sigaction` takes and gives (source: asm/signal.h, x86-64).
#[derive(Clone, Copy)]
#[repr(C)]
struct KernelSigaction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

type Handler = unsafe extern "C-unwind" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// libc's own handler, once it has set one.
static LIBC_HANDLER: AtomicUsize = AtomicUsize::new(0);
/// The hook for the sites of `rt_sigaction`, zero if the filter did not want them.
static FORWARD: AtomicUsize = AtomicUsize::new(0);

/// Distance of the shield from the thread pointer, in every thread.
pub(super) fn thread_offset() -> i32 {
    let offset: i64;
    // SAFETY: reads the linker's slot for the symbol above; touches nothing else.
    unsafe {
        core::arch::asm!("mov {}, qword ptr [rip + heliostat_interpose_shield@GOTTPOFF]",
            out(reg) offset, options(nostack, readonly, preserves_flags));
    }
    offset as i32
}

/// The hook for the sites of `rt_sigaction`; other signals than [`SIGCANCEL`] go to `forward`.
pub(super) fn sigaction_hook(forward: Option<HookFn>) -> HookFn {
    FORWARD.store(forward.map_or(0, |hook| hook as usize), Relaxed);
    on_sigaction
}

extern "C" fn on_sigaction(frame: *mut SyscallFrame) -> Verdict {
    // SAFETY: the trampoline passes its own frame, which nobody else uses until we return.
    let call = unsafe { &mut *frame };
    let [signal, new, old, ..] = call.args;
    if call.rax == libc::SYS_rt_sigaction as u64 && signal == SIGCANCEL && new != 0 && old == 0 {
        return replace_handler(call);
    }
    match FORWARD.load(Relaxed) {
        0 => Verdict::Pass,
        hook => {
            // SAFETY: the only other value stored is a `HookFn`, for which this frame is meant.
            let hook = unsafe { std::mem::transmute::<usize, HookFn>(hook) };
            hook(frame)
        }
    }
}

/// Sets our handler where libc sets its own.
fn replace_handler(call: &mut SyscallFrame) -> Verdict {
    // SAFETY: libc passes a live structure of its own; it is 8-byte aligned and copied at once.
    let mut action = unsafe { *(call.args[1] as *const KernelSigaction) };
    if action.handler == libc::SIG_DFL || action.handler == libc::SIG_IGN {
        return Verdict::Pass;
    }
    LIBC_HANDLER.store(action.handler, Relaxed);
    action.handler = on_cancel as Handler as usize;
    let mask_bytes = call.args[3] as usize;
    let args = [SIGCANCEL as usize, &raw const action as usize, 0, mask_bytes, 0, 0];
    // SAFETY: the structure is live and complete; our handler takes what libc's takes.
    call.rax = unsafe { raw(libc::SYS_rt_sigaction as usize, args) } as u64;
    Verdict::Done
}

/// Puts a cancellation off while the hook runs, else hands it to libc.
///
/// # Safety
/// Only for the kernel, as a handler with `SA_SIGINFO`.
unsafe extern "C-unwind" fn on_cancel(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the kernel passes the interrupted context; only one register is read.
    let stack = unsafe {
        (&raw const (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs)
            .cast::<i64>()
            .add(libc::REG_RSP as usize)
            .read() as u64
    };
    // SAFETY: this thread's own words, which besides us only its trampolines touch.
    let deferred = unsafe {
        let shield = own_shield();
        let in_hook = (*(*shield).get()).frame > stack;
        if in_hook {
            (*(*shield).get()).pending = 1;
        }
        in_hook
    };
    let handler = LIBC_HANDLER.load(Relaxed);
    if !deferred && handler != 0 {
        // SAFETY: the value was libc's handler for this signal, called as the kernel would. It
        // may unwind through this frame, which owns nothing ("C-unwind").
        unsafe { std::mem::transmute::<usize, Handler>(handler)(signal, info, context) };
    }
}

fn own_shield() -> *const UnsafeCell<Shield> {
    let thread: u64;
    // SAFETY: the word at fs:0 is the thread pointer itself (x86-64 psABI, TLS variant II).
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) thread,
            options(nostack, readonly, preserves_flags));
    }
    thread.wrapping_add_signed(i64::from(thread_offset())) as *const UnsafeCell<Shield>
}

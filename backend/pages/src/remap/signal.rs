//! SIGSEGV: our handler, the one that was there before, and the signal mask.
//!
//! Ours is installed once and stays: somebody may have remembered it. What is not ours is passed
//! on as the kernel would have delivered it to the action that stood before.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::RemapError;
use heliostat_base::lock::Lock;
use heliostat_base::process;
use heliostat_base::sys::{check, raw, Errno, Sysno};

const SEGV: usize = libc::SIGSEGV as usize;
const SA_RESTORER: u64 = 0x0400_0000;

/// `struct sigaction` as the kernel has it (source: asm/signal.h).
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// What stood before ours.
struct Before {
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
}

static BEFORE: Before = Before {
    handler: AtomicUsize::new(libc::SIG_DFL),
    flags: AtomicU64::new(0),
    mask: AtomicU64::new(0),
};

// The kernel returns from a handler to this address; it ends the handler (rt_sigreturn is 15).
core::arch::global_asm!(
    ".hidden heliostat_remap_restorer",
    ".globl heliostat_remap_restorer",
    "heliostat_remap_restorer:",
    "mov rax, 15",
    "syscall",
);
extern "C" {
    fn heliostat_remap_restorer();
}

/// What the kernel calls.
pub(super) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::ucontext_t);

/// Installs our handler, always the same, unless it stands already.
///
/// # Errors
/// `HandlerLost` when it stood once and another one does now: with ours over it, each of the two
/// would pass what is nobody's on to the other for ever.
pub(super) fn install(ours: Handler) -> Result<(), RemapError> {
    static INSTALLED: Lock<bool> = Lock::new(false);
    let mut is_installed = INSTALLED.lock();
    if *is_installed {
        return check_installed(ours);
    }
    let before = action(None)?;
    BEFORE.handler.store(before.handler, Relaxed);
    BEFORE.flags.store(before.flags, Relaxed);
    BEFORE.mask.store(before.mask, Release);
    let flags = (libc::SA_SIGINFO | libc::SA_ONSTACK) as u64 | SA_RESTORER;
    // All signals wait: none of their handlers may meet a chunk that this one holds.
    let restorer = heliostat_remap_restorer as *const () as usize;
    action(Some(Action { handler: ours as *const () as usize, flags, restorer, mask: u64::MAX }))?;
    *is_installed = true;
    Ok(())
}

/// Whether the kernel would call our handler.
pub(super) fn check_installed(ours: Handler) -> Result<(), RemapError> {
    match action(None)?.handler == ours as *const () as usize {
        true => Ok(()),
        false => Err(RemapError::HandlerLost),
    }
}

/// Runs `what` with all signals blocked that can be. Faults cannot wait: `what` makes none.
pub(super) fn blocked<T>(what: impl FnOnce() -> T) -> T {
    let before = set_mask(u64::MAX);
    let answer = what();
    set_mask(before);
    answer
}

/// Does what would have happened without us. To be called from the handler.
pub(super) fn pass_on(number: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    let mask = BEFORE.mask.load(Acquire);
    let (handler, flags) = (BEFORE.handler.load(Relaxed), BEFORE.flags.load(Relaxed));
    // SAFETY: the kernel gives both for the time of the handler; its mask is the first 64 bits of
    // libc's, and what rt_sigreturn restores.
    let (code, outer): (_, u64) =
        unsafe { ((*info).si_code, *(&raw const (*context).uc_sigmask).cast()) };
    if handler <= libc::SIG_IGN {
        if handler == libc::SIG_DFL || code > 0 {
            die(code);
        }
        return;
    }
    if flags & libc::SA_RESETHAND as u64 != 0 {
        BEFORE.handler.store(libc::SIG_DFL, Relaxed);
    }
    let own = if flags & libc::SA_NODEFER as u64 == 0 { 1 << (number - 1) } else { 0 };
    set_mask(outer | mask | own);
    // SAFETY: the address that was registered as a handler; one without SA_SIGINFO takes the first
    // of the three arguments and leaves the others' registers alone.
    let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
    handler(number, info, context);
}

/// Lets the default action end the process: at once where the signal was sent, else when the
/// instruction that faulted is made again.
fn die(code: i32) {
    let _ =
        action(Some(Action { handler: libc::SIG_DFL, flags: SA_RESTORER, ..Action::default() }));
    if code <= 0 {
        // SAFETY: takes no pointer.
        unsafe { raw(Sysno::kill as usize, [process::pid() as usize, SEGV, 0, 0, 0, 0]) };
    }
}

/// Writes a line where errors go.
pub(super) fn say(line: &[u8]) {
    // SAFETY: `line` is live for the call.
    unsafe { raw(Sysno::write as usize, [2, line.as_ptr() as usize, line.len(), 0, 0, 0]) };
}

/// The action for SIGSEGV, before `new` takes its place.
fn action(new: Option<Action>) -> Result<Action, RemapError> {
    let mut before = Action::default();
    let new_at = new.as_ref().map_or(0, |new| new as *const Action as usize);
    let args = [SEGV, new_at, &raw mut before as usize, 8, 0, 0];
    // SAFETY: both structures are live and as the kernel has them; the handler given is ours,
    // which keeps what the program had, or the default.
    let answer = check(unsafe { raw(Sysno::rt_sigaction as usize, args) });
    let refused = |errno: Errno| RemapError::System { call: "rt_sigaction", errno };
    answer.map(|_| before).map_err(refused)
}

/// Sets this thread's signal mask and answers the one before.
fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let (new_at, before_at) = (&raw const mask as usize, &raw mut before as usize);
    let args = [libc::SIG_SETMASK as usize, new_at, before_at, 8, 0, 0];
    // SAFETY: two live words of the size that is given.
    unsafe { raw(Sysno::rt_sigprocmask as usize, args) };
    before
}

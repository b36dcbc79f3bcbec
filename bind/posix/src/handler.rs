//! The entry in front of the program's signal handlers.
//!
//! It does two things before it calls the handler: it puts an asynchronous signal off while this
//! thread holds a lock of the stub (the handler may use the same socket), and it notes that a
//! handler ran, so that a wait that spins in user space ends with EINTR as the kernel's would.

use heliostat_base::call;
use heliostat_stub_posix::thread;

use crate::actions::{self, KernelAction};
use crate::fault;

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::ucontext_t);

/// Where the kernel enters.
pub fn entry_address() -> usize {
    entry as *const () as usize
}

/// SIG_DFL is 0, SIG_IGN is 1; everything else is an address.
pub fn is_function(handler: usize) -> bool {
    handler > 1
}

extern "C" fn entry(number: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    let Some((handler, flags)) = actions::registered(number) else { return };
    if fault::is_ours(number, context) {
        return;
    }
    if fault::is_hidden(number, info) {
        return put_off(number, info, context);
    }
    if fault::without_handler(number, handler, info) || !is_function(handler) {
        return;
    }
    let is_once = flags & libc::SA_RESETHAND as u32 as u64 != 0;
    if !is_synchronous(number) && thread::must_defer(number) {
        if is_once {
            set_anew(number);
        }
        return put_off(number, info, context);
    }
    if is_once && fault::is_kept_here(number) {
        fault::called_once(number);
    }
    // SAFETY: the address the program registered as its handler; handlers without SA_SIGINFO
    // take the first of the three arguments and ignore the registers of the others.
    let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
    let guard = fault::enters_handler();
    let restarts = flags & libc::SA_RESTART as u64 != 0;
    thread::run_handler(restarts, || handler(number, info, context));
    fault::left_handler(guard, context);
}

/// Faults come from the very instruction; they cannot wait.
fn is_synchronous(number: i32) -> bool {
    matches!(number, libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP)
}

/// The kernel has set the default when it delivered the signal, and kept the rest: the handler has not
/// run yet.
fn set_anew(number: i32) {
    if let Ok(kept) = actions::set(number, None) {
        let _ = actions::set(number, Some(&KernelAction { handler: entry_address(), ..kept }));
    }
}

/// Blocks the signal from the return of this handler on and queues it again; the end of the
/// critical section unblocks it.
fn put_off(number: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // With one of the two, the other is blocked too if the program has it so.
    let hidden = if fault::is_fault(number) { thread::end_guard().hidden } else { 0 };
    // SAFETY: `context` is the kernel's frame of this very signal; its mask is what rt_sigreturn
    // restores.
    let mask = unsafe { &mut (*context).uc_sigmask };
    libc_sigaddset(mask, 1 << (number - 1) | hidden);
    // With SA_NODEFER it is not blocked here, and would come back at once.
    call::signal_mask(libc::SIG_BLOCK, Some(1 << (number - 1)));
    actions::send_again(number, info);
}

fn libc_sigaddset(set: &mut libc::sigset_t, mask: u64) {
    let words = set as *mut libc::sigset_t as *mut u64;
    // SAFETY: the kernel's mask is the first 64 bits of libc's set, which is longer.
    unsafe { *words |= mask };
}

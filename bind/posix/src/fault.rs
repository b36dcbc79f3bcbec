//! SIGSEGV and SIGBUS: what becomes of them when they reach our entry, and of their mask.
//!
//! A copy from a mapped file may fault; its handler has to be ours, and neither signal may be
//! blocked, since the kernel ends a thread that faults with the signal blocked. The program must
//! not notice: from the first mapping on, what it sets and asks is answered from here. Faults
//! that are not a guarded copy's reach its handler as before, with the mask, the stack and the
//! flags that it asked for, or end the process by the kernel's own default action.
//!
//! A thread's mask is left alone until it reads from a mapped file (`thread::Guard`): then the two
//! are unblocked, and are reported as blocked if they were. In a handler the mask is the kernel's
//! doing, so that there the same begins anew.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use heliostat_base::guarded;
use heliostat_base::lock::{self, Lock};
use heliostat_base::sys::{check, raw, Errno, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub_posix::thread::{self, Guard, FAULTS};
use heliostat_stub_posix::Answer;

use crate::actions::{self, KernelAction, SA_RESTORER};
use crate::call::Call;

/// Which of the two a signal is.
pub fn place(number: i32) -> Option<usize> {
    match number {
        libc::SIGSEGV => Some(0),
        libc::SIGBUS => Some(1),
        _ => None,
    }
}

/// True for the two.
pub fn is_fault(number: i32) -> bool {
    place(number).is_some()
}

/// What the program has set for the two, as it would read it back.
static PROGRAM: Lock<[KernelAction; 2]> = Lock::new([KernelAction::DEFAULT; 2]);
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// The actions of the program for the two, in the order of `place`.
pub fn program() -> lock::Guard<'static, [KernelAction; 2]> {
    PROGRAM.lock()
}

/// True once our entry stands for the two.
pub fn is_installed() -> bool {
    INSTALLED.load(Acquire)
}

/// Notes that it stands from now on.
pub fn note_installed() {
    INSTALLED.store(true, Release);
}

/// True when the program's actions for `number` are kept here.
pub fn is_kept_here(number: i32) -> bool {
    is_fault(number) && is_installed()
}

/// The handler of SA_RESETHAND has been called: the default stands from now on.
pub fn called_once(number: i32) {
    actions::register(number, &KernelAction::DEFAULT);
    // Whoever holds the lock sets something else, which then stands. The kernel keeps the flags.
    if let (Some(place), Some(mut program)) = (place(number), PROGRAM.try_lock()) {
        program[place].handler = libc::SIG_DFL;
    }
}

/// A fault of a guarded copy: its thread goes on at the fix-up. To be asked before anything else.
pub fn is_ours(number: i32, context: *mut libc::ucontext_t) -> bool {
    if place(number).is_none() {
        return false;
    }
    // SAFETY: the kernel's frame of this very signal; its registers are what it restores.
    let at = unsafe { &mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
    match guarded::resume_at(*at as usize) {
        Some(next) => {
            *at = next as i64;
            true
        }
        None => false,
    }
}

/// A signal of the two for which the program has no handler: true when that was all to be done.
pub fn without_handler(number: i32, handler: usize, info: *mut libc::siginfo_t) -> bool {
    if handler > libc::SIG_IGN || !is_kept_here(number) {
        return false;
    }
    // SAFETY: the kernel gives it for the time of the handler.
    let is_sent = unsafe { (*info).si_code } <= 0;
    if is_sent && handler == libc::SIG_IGN {
        return true;
    }
    // The instruction is made again and faults again, or the signal is sent again.
    let _ =
        actions::set(number, Some(&KernelAction { flags: SA_RESTORER, ..KernelAction::DEFAULT }));
    if is_sent {
        actions::send_again(number, info);
    }
    true
}

/// True for a signal that was sent while the program has it blocked, and we have not.
pub fn is_hidden(number: i32, info: *mut libc::siginfo_t) -> bool {
    let hidden = thread::guard().hidden;
    // SAFETY: the kernel gives it for the time of the handler.
    place(number).is_some() && hidden & 1 << (number - 1) != 0 && unsafe { (*info).si_code } <= 0
}

/// rt_sigprocmask(2): of a guarded thread, the two are kept here.
pub fn mask(call: &mut Call<'_>) -> Verdict {
    let before = thread::guard();
    if !before.is_ready || call.word(3) != 8 {
        return Verdict::Pass;
    }
    let answer = mask_of_guarded(call, before);
    call.answer(answer)
}

fn mask_of_guarded(call: &Call<'_>, before: Guard) -> Answer {
    let how = call.int(0);
    let mut given = [0u8; 8];
    let is_asked = call.word(1) != 0;
    // SAFETY: the program's mask, if anything lies there.
    if is_asked && unsafe { guarded::fetch(call.word(1) as usize, &mut given) }.is_err() {
        return Some(Err(Errno(libc::EFAULT)));
    }
    let new = u64::from_ne_bytes(given);
    let mut old = 0u64;
    let kernels = new & !FAULTS;
    let new_at = if is_asked { &raw const kernels as usize } else { 0 };
    let args = [how as usize, new_at, &raw mut old as usize, 8, 0, 0];
    // SAFETY: two live words of the size that is given.
    let answer = check(unsafe { raw(Sysno::rt_sigprocmask as usize, args) });
    if answer.is_err() {
        return Some(answer);
    }
    if is_asked {
        let hidden = match how {
            libc::SIG_BLOCK => before.hidden | new & FAULTS,
            libc::SIG_UNBLOCK => before.hidden & !new,
            _ => new & FAULTS,
        };
        thread::set_guard(Guard { is_ready: true, hidden });
    }
    let told = (old | before.hidden).to_ne_bytes();
    // SAFETY: the program's room, if anything lies there.
    if call.word(2) != 0 && unsafe { guarded::store(call.word(2) as usize, &told) }.is_err() {
        return Some(Err(Errno(libc::EFAULT)));
    }
    Some(Ok(0))
}

/// Before a handler of the program runs: its mask is the kernel's doing.
pub fn enters_handler() -> Guard {
    match thread::guard() {
        none @ Guard { is_ready: false, .. } => none,
        _ => thread::end_guard(),
    }
}

/// After it has returned: the thread is as it was, unless the handler has changed what the kernel
/// restores.
pub fn left_handler(before: Guard, context: *const libc::ucontext_t) {
    // SAFETY: the kernel's frame; its mask is the first 64 bits of libc's.
    let outer = unsafe { (&raw const (*context).uc_sigmask).cast::<u64>().read_unaligned() };
    let is_as_before = outer & FAULTS == 0;
    if before.is_ready && is_as_before {
        thread::set_guard(before);
    } else {
        thread::set_guard(Guard { is_ready: false, hidden: 0 });
    }
}

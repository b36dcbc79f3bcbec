//! SIGSEGV and SIGBUS: our handler in the kernel, the program's own kept here.
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
use heliostat_base::lock::Lock;
use heliostat_base::sys::{check, raw, Errno, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub_posix::thread::{self, Guard, FAULTS};
use heliostat_stub_posix::Answer;

use crate::call::Call;
use crate::signal::{self, KernelAction};

/// Flag of an action that brings its own return (source: asm/signal.h).
const SA_RESTORER: u64 = 0x0400_0000;

/// Which of the two a signal is.
fn place(number: i32) -> Option<usize> {
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

// The kernel returns from a handler to this address; it ends the handler (rt_sigreturn is 15).
core::arch::global_asm!(
    ".hidden heliostat_posix_restorer",
    ".globl heliostat_posix_restorer",
    "heliostat_posix_restorer:",
    "mov rax, 15",
    "syscall",
);
extern "C" {
    fn heliostat_posix_restorer();
}

/// Puts our handler in, once. False when a handler stands there that did not come by libc: another
/// library has plans of its own with these signals.
pub fn install() -> bool {
    if INSTALLED.load(Acquire) {
        return true;
    }
    let mut program = PROGRAM.lock();
    let numbers = [libc::SIGSEGV, libc::SIGBUS];
    let Some(found) = numbers.iter().map(|number| known(*number)).collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    program.copy_from_slice(&found);
    // Before the kernel knows: what a handler of ours finds here must be complete.
    for (number, action) in numbers.iter().zip(&found) {
        signal::register(*number, action);
    }
    INSTALLED.store(true, Release);
    numbers.iter().zip(&found).all(|(number, action)| in_kernel(*number, Some(action)).is_ok())
}

/// What the program has set for a signal, if we know it.
fn known(number: i32) -> Option<KernelAction> {
    let action = in_kernel(number, None).ok()?;
    match signal::as_registered(number, action) {
        Some(own) => Some(own),
        None if action.handler <= libc::SIG_IGN => Some(action),
        None => None,
    }
}

/// Has the kernel call our entry for `number` as it would call the program's own handler, and
/// answers what it has been told before. `None` changes nothing.
fn in_kernel(number: i32, action: Option<&KernelAction>) -> Result<KernelAction, Errno> {
    let given = action.map(|action| {
        let mut flags = action.flags | libc::SA_SIGINFO as u64 | SA_RESTORER;
        // Once means that the program's handler is called once; ours stays.
        flags &= !(libc::SA_RESETHAND as u32 as u64);
        if action.handler <= libc::SIG_IGN {
            flags = (libc::SA_SIGINFO | libc::SA_RESTART) as u64 | SA_RESTORER;
        }
        let restorer = match action.restorer {
            0 => heliostat_posix_restorer as *const () as usize,
            own => own,
        };
        KernelAction { handler: signal::entry_address(), flags, restorer, mask: action.mask }
    });
    set(number, given.as_ref())
}

fn set(number: i32, action: Option<&KernelAction>) -> Result<KernelAction, Errno> {
    let mut before = KernelAction::DEFAULT;
    let new_at = action.map_or(0, |action| std::ptr::from_ref(action) as usize);
    let args = [number as usize, new_at, &raw mut before as usize, 8, 0, 0];
    // SAFETY: both structures are live and as the kernel has them; the handler is our entry, or
    // the default.
    check(unsafe { raw(Sysno::rt_sigaction as usize, args) }).map(|_| before)
}

/// True when the program's actions for `number` are kept here.
pub fn is_kept_here(number: i32) -> bool {
    place(number).is_some() && INSTALLED.load(Acquire)
}

/// rt_sigaction(2) for one of the two, once ours stands.
pub fn action(number: i32, new: Option<KernelAction>) -> Result<KernelAction, Errno> {
    let place = place(number).ok_or(Errno(libc::EINVAL))?;
    // A handler that interrupts this may set others.
    let _critical = thread::Critical::enter();
    let mut program = PROGRAM.lock();
    let before = program[place];
    if let Some(new) = new {
        program[place] = new;
        signal::register(number, &new);
        in_kernel(number, Some(&new))?;
    }
    Ok(before)
}

/// The handler of SA_RESETHAND has been called: the default stands from now on.
pub fn called_once(number: i32) {
    signal::register(number, &KernelAction::DEFAULT);
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
    let _ = set(number, Some(&KernelAction { flags: SA_RESTORER, ..KernelAction::DEFAULT }));
    if is_sent {
        signal::send_again(number, info);
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

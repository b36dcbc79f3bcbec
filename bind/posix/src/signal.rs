//! The entry in front of the program's signal handlers.
//!
//! It does two things before it calls the handler: it puts an asynchronous signal off while this
//! thread holds a lock of the stub (the handler may use the same socket), and it notes that a
//! handler ran, so that a wait that spins in user space ends with EINTR as the kernel's would.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};

use heliostat_base::sys::{check, raw, Errno, Sysno};
use heliostat_interpose::Verdict;
use heliostat_stub_posix::{process, thread};

use crate::call::Call;
use crate::{fault, memory};

const SIGNALS: usize = 65;

/// libc's cancellation and set-user-id signals: their handlers unwind or must run at once.
const LIBC_OWN: [i32; 2] = [32, 33];

/// The kernel's sigaction on x86-64 (source: asm/signal.h), not libc's.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct KernelAction {
    /// SIG_DFL, SIG_IGN or an address.
    pub handler: usize,
    /// SA_ and so on.
    pub flags: u64,
    /// Where a handler returns to.
    pub restorer: usize,
    /// Blocked while it runs; bit 0 is signal 1.
    pub mask: u64,
}

impl KernelAction {
    /// SIG_DFL.
    pub const DEFAULT: Self = Self { handler: 0, flags: 0, restorer: 0, mask: 0 };
}

struct Registered {
    handler: AtomicUsize,
    flags: AtomicUsize,
}

static HANDLERS: [Registered; SIGNALS] =
    [const { Registered { handler: AtomicUsize::new(0), flags: AtomicUsize::new(0) } }; SIGNALS];

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::ucontext_t);

/// rt_sigaction(2): the program's handler is kept here, ours goes to the kernel.
pub fn action(call: &mut Call<'_>) -> Verdict {
    let number = call.int(0);
    if LIBC_OWN.contains(&number) {
        return Verdict::Pass;
    }
    let Some(slot) = usize::try_from(number).ok().and_then(|n| HANDLERS.get(n)) else {
        return Verdict::Pass;
    };
    if !memory::is_readable(call.word(1)) {
        return call.answer(Some(Err(memory::FAULT)));
    }
    // SAFETY: the kernel's sigaction is four numbers.
    let Ok(new) = (unsafe { memory::read_early::<KernelAction>(call.word(1)) }) else {
        return call.answer(Some(Err(memory::FAULT)));
    };
    let old_at = call.word(2);
    if fault::is_kept_here(number) && !process::is_borrowed() && call.word(3) == 8 {
        let answer = fault::action(number, new);
        return call.answer(Some(answer.and_then(|old| tell(number, old_at, old))));
    }
    let before = (slot.handler.load(Acquire), slot.flags.load(Acquire));
    // A child of vfork sets its own handlers; our table is its parent's.
    let is_ours = !process::is_borrowed();
    let given = new.map(|action| match is_ours && is_function(action.handler) {
        true => {
            slot.flags.store(action.flags as usize, Release);
            slot.handler.store(action.handler, Release);
            let flags = action.flags | libc::SA_SIGINFO as u64;
            KernelAction { handler: entry as *const () as usize, flags, ..action }
        }
        false => action,
    });
    let mut old: KernelAction = memory::zeroed();
    let given_at = given.as_ref().map_or(0, |action| action as *const KernelAction as usize);
    let old_here = &mut old as *mut KernelAction as usize;
    let args = [number as usize, given_at, old_here, call.word(3) as usize, 0, 0];
    // SAFETY: both structures are live here; the size is the program's, and the kernel checks it.
    let answer = check(unsafe { raw(Sysno::rt_sigaction as usize, args) });
    if answer.is_ok() {
        if old.handler == entry as *const () as usize {
            (old.handler, old.flags) = (before.0, before.1 as u64);
        }
        return call.answer(Some(tell(number, old_at, old)));
    }
    if new.is_some_and(|action| is_ours && is_function(action.handler)) {
        slot.handler.store(before.0, Release);
        slot.flags.store(before.1, Release);
    }
    call.answer(Some(answer))
}

/// Gives the program its old action; the new one stands whether there is room for it or not.
fn tell(number: i32, old_at: u64, old: KernelAction) -> Result<usize, Errno> {
    if !memory::is_writable_by(number, old_at) {
        return Err(memory::FAULT);
    }
    // SAFETY: null or the program's room for the old action, four numbers.
    unsafe { memory::write_early(old_at, old) }.map(|()| 0).map_err(|_| memory::FAULT)
}

/// Notes what `entry` is to call for a signal.
pub fn register(number: i32, action: &KernelAction) {
    let Some(slot) = usize::try_from(number).ok().and_then(|n| HANDLERS.get(n)) else { return };
    slot.flags.store(action.flags as usize, Release);
    slot.handler.store(action.handler, Release);
}

/// What the program has set, where the kernel has our entry instead.
pub fn as_registered(number: i32, action: KernelAction) -> Option<KernelAction> {
    let slot = usize::try_from(number).ok().and_then(|n| HANDLERS.get(n))?;
    let (handler, flags) = (slot.handler.load(Acquire), slot.flags.load(Acquire) as u64);
    let is_entry = action.handler == entry_address();
    is_entry.then_some(KernelAction { handler, flags, ..action })
}

/// Where the kernel enters.
pub fn entry_address() -> usize {
    entry as *const () as usize
}

/// SIG_DFL is 0, SIG_IGN is 1; everything else is an address.
fn is_function(handler: usize) -> bool {
    handler > 1
}

extern "C" fn entry(number: i32, info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    let Some(slot) = usize::try_from(number).ok().and_then(|n| HANDLERS.get(n)) else { return };
    let (handler, flags) = (slot.handler.load(Acquire), slot.flags.load(Acquire));
    if fault::is_ours(number, context) {
        return;
    }
    if fault::is_hidden(number, info) {
        return put_off(number, info, context);
    }
    if fault::without_handler(number, handler, info) || !is_function(handler) {
        return;
    }
    let is_once = flags & libc::SA_RESETHAND as u32 as usize != 0;
    if is_once && fault::is_kept_here(number) {
        fault::called_once(number);
    }
    if !is_synchronous(number) && !is_once && thread::must_defer(number) {
        return put_off(number, info, context);
    }
    thread::handler_runs(flags & libc::SA_RESTART as usize != 0);
    // SAFETY: the address the program registered as its handler; handlers without SA_SIGINFO
    // take the first of the three arguments and ignore the registers of the others.
    let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
    let guard = fault::enters_handler();
    thread::count_handler(1);
    handler(number, info, context);
    thread::count_handler(-1);
    fault::left_handler(guard, context);
}

/// Faults come from the very instruction; they cannot wait.
fn is_synchronous(number: i32) -> bool {
    matches!(number, libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP)
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
    send_again(number, info);
}

/// Sends a signal to this thread once more, as it came.
pub fn send_again(number: i32, info: *mut libc::siginfo_t) {
    let pid = heliostat_base::process::pid() as usize;
    let args = [pid, thread::tid() as usize, number as usize, info as usize, 0, 0];
    // SAFETY: `info` is the siginfo the kernel gave us, passed back unchanged.
    unsafe { raw(Sysno::rt_tgsigqueueinfo as usize, args) };
}

fn libc_sigaddset(set: &mut libc::sigset_t, mask: u64) {
    let words = set as *mut libc::sigset_t as *mut u64;
    // SAFETY: the kernel's mask is the first 64 bits of libc's set, which is longer.
    unsafe { *words |= mask };
}

//! What the program has set for each signal, and what the kernel has been given for it.

use heliostat_base::sync::AtomicUsize;
use heliostat_base::sync::Ordering::{Acquire, Release};
use heliostat_base::sys::{check, raw, Errno, Sysno};
use heliostat_stub_posix::thread;

const SIGNALS: usize = 65;

/// Flag of an action that brings its own return (source: asm/signal.h).
pub const SA_RESTORER: u64 = 0x0400_0000;

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

/// What the program has set for one signal.
struct Registered {
    handler: AtomicUsize,
    flags: AtomicUsize,
}

static HANDLERS: [Registered; SIGNALS] =
    [const { Registered { handler: AtomicUsize::new(0), flags: AtomicUsize::new(0) } }; SIGNALS];

/// Notes what the program has set for a signal.
pub fn register(number: i32, action: &KernelAction) {
    let Some(place) = usize::try_from(number).ok().and_then(|n| HANDLERS.get(n)) else { return };
    place.flags.store(action.flags as usize, Release);
    place.handler.store(action.handler, Release);
}

/// Handler and flags that the program has set; `None` for no signal's number.
pub fn registered(number: i32) -> Option<(usize, u64)> {
    let place = usize::try_from(number).ok().and_then(|n| HANDLERS.get(n))?;
    Some((place.handler.load(Acquire), place.flags.load(Acquire) as u64))
}

/// rt_sigaction(2): answers what the kernel had before.
pub fn set(number: i32, action: Option<&KernelAction>) -> Result<KernelAction, Errno> {
    let mut before = KernelAction::DEFAULT;
    let new_at = action.map_or(0, |action| std::ptr::from_ref(action) as usize);
    let args = [number as usize, new_at, &raw mut before as usize, 8, 0, 0];
    // SAFETY: both structures are live and as the kernel has them; the handler is our entry, or
    // the default.
    check(unsafe { raw(Sysno::rt_sigaction as usize, args) }).map(|_| before)
}

/// Sends a signal to this thread once more, as it came.
pub fn send_again(number: i32, info: *mut libc::siginfo_t) {
    let pid = heliostat_base::process::pid() as usize;
    let args = [pid, thread::tid() as usize, number as usize, info as usize, 0, 0];
    // SAFETY: `info` is the siginfo the kernel gave us, passed back unchanged.
    unsafe { raw(Sysno::rt_tgsigqueueinfo as usize, args) };
}

//! Signals to one thread, also to end a system call that a thread of this process waits in.

use std::sync::Once;

use heliostat_base::sys::{check, raw, Errno, Sysno};

static PREPARED: Once = Once::new();

extern "C" fn nothing(_: i32) {}

/// The number of the calling thread, for `interrupt`.
pub fn own_thread() -> i32 {
    // SAFETY: gettid takes no argument.
    unsafe { raw(Sysno::gettid as usize, [0; 6]) as i32 }
}

/// Makes the call that a thread of this process waits in fail with EINTR. It may come too early
/// or too late to have any effect, so that whoever needs one asks again.
///
/// Takes SIGURG of this process, whose default is to be ignored, for ever.
pub fn interrupt(thread: i32) -> Result<(), Errno> {
    PREPARED.call_once(|| {
        // SAFETY: all-zero bytes are a valid `sigaction`: no flag, so that calls do not restart.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as *const () as usize;
        // SAFETY: the action is complete, and its handler does nothing.
        unsafe { libc::sigaction(libc::SIGURG, &action, std::ptr::null_mut()) };
    });
    signal_thread(std::process::id() as i32, thread, libc::SIGURG)
}

/// Sends a signal to one thread of a process (tgkill(2)).
///
/// # Errors
/// ESRCH if the process has no such thread, EPERM.
pub fn signal_thread(process: i32, thread: i32, signal: i32) -> Result<(), Errno> {
    let args = [process as usize, thread as usize, signal as usize, 0, 0, 0];
    // SAFETY: tgkill takes no pointer.
    check(unsafe { raw(Sysno::tgkill as usize, args) }).map(drop)
}

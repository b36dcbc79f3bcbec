//! Forked children, and what is done to them.

use std::panic::{catch_unwind, AssertUnwindSafe};

/// A child that has not been waited for; killed with the value.
pub struct Child(i32);

impl Child {
    /// Runs `body` in a fork of this process, which ends with its answer and with its parent, and
    /// says what it failed of.
    pub fn fork(body: impl FnOnce() -> Result<(), String>) -> Self {
        Self::quiet(|| body().inspect_err(|why| eprintln!("process {}: {why}", std::process::id())))
    }

    /// The same, silently.
    pub fn quiet(body: impl FnOnce() -> Result<(), String>) -> Self {
        // SAFETY: the child runs this program's own code and ends by _exit: nothing is dropped
        // twice. It has one thread, and the allocator of libc survives fork.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    let answer = catch_unwind(AssertUnwindSafe(body));
                    libc::_exit(i32::from(!matches!(answer, Ok(Ok(())))));
                }
                pid => Self(pid),
            }
        }
    }

    /// Sends a signal.
    pub fn signal(&self, number: i32) {
        // SAFETY: kill takes no pointer; the child was not waited for, so the number is its own.
        unsafe { libc::kill(self.0, number) };
    }

    /// Waits for its end: its status, as wait(2) gives it.
    pub fn wait(self) -> i32 {
        let mut status = 0;
        // SAFETY: a child of ours, and a live word.
        unsafe { libc::waitpid(self.0, &mut status, 0) };
        std::mem::forget(self);
        status
    }

    /// Kills it and waits.
    pub fn kill(self) {
        self.signal(libc::SIGKILL);
        self.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        // SAFETY: a child of ours; its status is not asked for.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

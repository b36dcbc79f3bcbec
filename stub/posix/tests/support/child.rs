//! Forked children of a test.

/// Runs `child` in a forked process, which ends with its answer; the parent gets its pid.
pub fn forked(child: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs the test's own code only and ends by _exit; it never returns into the
    // test harness.
    unsafe {
        match libc::fork() {
            0 => {
                let is_fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
                libc::_exit(if matches!(is_fine, Ok(true)) { 0 } else { 1 });
            }
            pid => pid,
        }
    }
}

/// The child's wait status.
pub fn waited(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a child of ours, and a live word for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}

pub fn kill(pid: i32, signal: i32) {
    // SAFETY: kill takes no pointer.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

//! Programs to be stopped: forks of the test that do one thing, and words both sides see.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

pub const WORDS: usize = 512;

/// Words shared with every fork.
pub fn words() -> &'static [AtomicU64; WORDS] {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: fresh zeroed memory that is never unmapped; zeros are atomics.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), 4096, 3, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        &*at.cast()
    }
}

/// A forked process; killed and waited for on drop.
pub struct Child(pub i32);

impl Child {
    /// Runs `program` in a fork, which ends with it.
    pub fn run(program: impl FnOnce()) -> Self {
        // SAFETY: the child runs the test's own code and ends by _exit.
        unsafe {
            match libc::fork() {
                0 => {
                    // A test that fails leaves nothing behind, nor do its children's children.
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(program));
                    libc::_exit(i32::from(done.is_err()));
                }
                pid => Self(pid),
            }
        }
    }

    pub fn kill(&self, signal: i32) {
        // SAFETY: kill takes no pointer.
        assert_eq!(unsafe { libc::kill(self.0, signal) }, 0);
    }

    /// The state letter of /proc, and who traces it.
    pub fn state(&self) -> (char, i32) {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let field = |name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
        let letter = field("State:").trim().chars().next().unwrap_or('-');
        (letter, field("TracerPid:").trim().parse().unwrap_or(0))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a child of ours; no status is asked for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), libc::__WALL);
        }
    }
}

/// Waits until `is_so`; a watchdog, no measurement.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let ends = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < ends, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until `word` grows by `by`: its process goes on.
pub fn goes_on(word: &AtomicU64, by: u64) {
    let seen = word.load(SeqCst);
    until("the program goes on", || word.load(SeqCst) >= seen + by);
}

//! Sleeping on a 32-bit word of shared memory, and waking those who sleep on it.
//!
//! The futexes are *shared* ones (no FUTEX_PRIVATE_FLAG), because the word usually lies in memory
//! that two processes map. A caller decides for itself whether to sleep again: every answer but
//! `TimedOut` may be spurious.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::sys::{check, raw, Errno, Sysno};

/// Why a wait returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Somebody called [`wake`], or the kernel woke us for no reason.
    Woken,
    /// The word did not hold the expected value; nobody slept.
    Changed,
    /// The time was over.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Sleeps while `*word == expected`, at most for `timeout`.
///
/// Any other answer of the kernel (EFAULT, EINVAL) is an error, since a caller that took it for a
/// spurious wake-up and looped would spin for ever.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> Result<Wait, Errno> {
    let spec = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: t.subsec_nanos() as i64,
    });
    let spec_at = spec.as_ref().map_or(0, |s| s as *const libc::timespec as usize);
    let op = libc::FUTEX_WAIT as usize;
    let args = [word.as_ptr() as usize, op, expected as usize, spec_at, 0, 0];
    // SAFETY: `word` and `spec` are borrowed for the whole call; FUTEX_WAIT writes neither.
    match check(unsafe { raw(Sysno::futex as usize, args) }) {
        Ok(_) => Ok(Wait::Woken),
        Err(Errno(libc::EAGAIN)) => Ok(Wait::Changed),
        Err(Errno(libc::ETIMEDOUT)) => Ok(Wait::TimedOut),
        Err(Errno(libc::EINTR)) => Ok(Wait::Interrupted),
        Err(errno) => Err(errno),
    }
}

/// Wakes at most `count` sleepers of `word` and says how many there were.
pub fn wake(word: &AtomicU32, count: u32) -> usize {
    wake_key(word.as_ptr(), count)
}

/// Wakes the sleepers of an address whose memory may be gone by now.
///
/// The word of a thread that waits on its own stack may vanish as soon as it has been told to go
/// on; the wake-up that follows then wakes nobody, or somebody who rechecks and sleeps again.
pub fn wake_key(word: *const u32, count: u32) -> usize {
    let count = count.min(i32::MAX as u32);
    let args = [word as usize, libc::FUTEX_WAKE as usize, count as usize, 0, 0, 0];
    // SAFETY: FUTEX_WAKE takes the address as a key and answers EFAULT where nothing is mapped.
    check(unsafe { raw(Sysno::futex as usize, args) }).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn waiting_for_a_value_that_has_gone_returns_at_once() {
        assert_eq!(wait(&AtomicU32::new(1), 0, None), Ok(Wait::Changed));
    }

    #[test]
    fn waiting_with_nobody_to_wake_times_out() {
        let word = AtomicU32::new(0);
        let answer = wait(&word, 0, Some(Duration::from_millis(5)));
        assert_eq!(answer, Ok(Wait::TimedOut));
    }

    #[test]
    fn a_sleeper_is_woken_by_another_thread() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(SeqCst) == 0 {
                    wait(&word, 0, None).expect("the word is mapped");
                }
            });
            word.store(1, SeqCst);
            wake(&word, u32::MAX);
        });
        assert_eq!(word.load(SeqCst), 1);
    }
}

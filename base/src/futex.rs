//! Sleeping on a 32-bit word of shared memory, and waking those who sleep on it.
//!
//! The futexes are *shared* ones (no FUTEX_PRIVATE_FLAG), because the word usually lies in memory
//! that two processes map. A caller decides for itself whether to sleep again: every answer but
//! `TimedOut` may be spurious.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::clock::monotonic_ns;
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

/// Words that one call can sleep on (source: FUTEX_WAITV_MAX, linux/futex.h).
pub const WORDS_MAX: usize = 128;
/// A shared word of 32 bits (source: FUTEX2_SIZE_U32, linux/futex.h).
const SHARED_U32: u32 = 2;

/// One word of futex_waitv(2).
#[repr(C)]
struct Waited {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// Sleeps while each word holds its value, at most for `timeout`. Linux 5.16.
///
/// # Errors
/// ENOSYS before that, EPERM where a filter refuses it, EINVAL for more than [`WORDS_MAX`].
pub fn wait_any(words: &[(&AtomicU32, u32)], timeout: Option<Duration>) -> Result<Wait, Errno> {
    let waited = |(word, value): &(&AtomicU32, u32)| Waited {
        value: u64::from(*value),
        address: word.as_ptr() as u64,
        flags: SHARED_U32,
        reserved: 0,
    };
    let list: Vec<Waited> = words.iter().map(waited).collect();
    // The time is one of the clock, and not counted from now.
    let until = timeout.map(|timeout| {
        let ns =
            monotonic_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let (tv_sec, tv_nsec) = ((ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64);
        libc::timespec { tv_sec, tv_nsec }
    });
    let until_at = until.as_ref().map_or(0, |until| until as *const libc::timespec as usize);
    let clock = libc::CLOCK_MONOTONIC as usize;
    let args = [list.as_ptr() as usize, list.len(), 0, until_at, clock, 0];
    // SAFETY: the list, the words and the time are borrowed for the whole call, which writes none.
    match check(unsafe { raw(Sysno::futex_waitv as usize, args) }) {
        Ok(_) => Ok(Wait::Woken),
        Err(Errno(libc::EAGAIN)) => Ok(Wait::Changed),
        Err(Errno(libc::ETIMEDOUT)) => Ok(Wait::TimedOut),
        Err(Errno(libc::EINTR)) => Ok(Wait::Interrupted),
        Err(errno) => Err(errno),
    }
}

/// Whether the kernel has [`wait_any`], and no filter refuses it.
pub fn can_wait_for_any() -> bool {
    let word = AtomicU32::new(0);
    wait_any(&[(&word, 1)], None) == Ok(Wait::Changed)
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

    #[test]
    fn a_sleeper_on_several_words_is_woken_by_any_and_sees_a_change() {
        let words = [AtomicU32::new(1), AtomicU32::new(2)];
        let both = [(&words[0], 1), (&words[1], 2)];
        assert!(can_wait_for_any());
        let short = Some(Duration::from_millis(5));
        assert_eq!(wait_any(&both, short), Ok(Wait::TimedOut));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| wait_any(&both, Some(Duration::from_secs(20))));
            while wake(&words[1], 1) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(sleeper.join().unwrap(), Ok(Wait::Woken));
        });
        words[1].store(3, SeqCst);
        assert_eq!(wait_any(&both, None), Ok(Wait::Changed));
        assert_eq!(wait_any(&[(&words[0], 1); WORDS_MAX + 1], None), Err(Errno(libc::EINVAL)));
    }
}

//! Descriptors of our own beside a program that may use up its table: numbers above its limit.
//!
//! The limit (RLIMIT_NOFILE) says below which number the kernel gives out new descriptors; one
//! that is above it stays good. So a descriptor of ours above the soft limit takes none from the
//! program, and giving it up gives the program none more than it would have without us.

use std::os::fd::RawFd;

use crate::fd::OwnedFd;
use crate::sys::{check, raw, Errno, Sysno};

/// So many numbers above the soft limit are used at most.
const ABOVE: u64 = 64;
/// Above a soft limit beyond this the kernel's own table would grow by megabytes, and nobody fills
/// it.
const LIMIT_MAX: u64 = 1 << 16;

fn exchange(new: Option<libc::rlimit>) -> Result<libc::rlimit, Errno> {
    let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let new_at = new.as_ref().map_or(0, |new| std::ptr::from_ref(new) as usize);
    let old_at = std::ptr::from_mut(&mut old) as usize;
    let args = [0, libc::RLIMIT_NOFILE as usize, new_at, old_at, 0, 0];
    // SAFETY: both are null or live limits of this size; pid 0 is this process.
    check(unsafe { raw(Sysno::prlimit64 as usize, args) })?;
    Ok(old)
}

/// The soft limit is raised for as long as this lives; none where it cannot be, or need not be,
/// being very high.
struct Raised(libc::rlimit);

impl Raised {
    fn new(lowest: u64) -> Option<Raised> {
        let usual = exchange(None).ok()?;
        let soft = usual.rlim_cur;
        if soft >= usual.rlim_max || soft > LIMIT_MAX {
            return None;
        }
        let high = soft.max(lowest).saturating_add(ABOVE).min(usual.rlim_max);
        exchange(Some(libc::rlimit { rlim_cur: high, ..usual })).ok()?;
        Some(Raised(usual))
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        let _ = exchange(Some(self.0));
    }
}

/// A duplicate of `fd` above the soft limit, else of at least the number `lowest`; closed on exec.
pub fn duplicate_above(fd: RawFd, lowest: i32) -> Result<OwnedFd, Errno> {
    let at_least = |number: u64| {
        let number = crate::call::fcntl(fd, libc::F_DUPFD_CLOEXEC, number as usize)?;
        // SAFETY: fcntl has just made this descriptor for us.
        Ok(unsafe { OwnedFd::adopt(number as RawFd) })
    };
    let lowest = lowest as u64;
    if let Some(raised) = Raised::new(lowest) {
        let soft = raised.0.rlim_cur;
        if let Ok(above) = at_least(soft.max(lowest)).or_else(|_| at_least(soft)) {
            return Ok(above);
        }
    }
    at_least(lowest)
}

/// Does `work`, which makes descriptors that live for a moment, whether or not the program has one
/// left; `fd` is any descriptor.
pub fn with_room<T>(fd: RawFd, work: impl FnOnce() -> T) -> T {
    let _raised = crate::fd::duplicate(fd).is_err().then(|| Raised::new(0)).flatten();
    work()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_duplicate_lies_above_the_soft_limit_which_is_then_as_before() {
        let before = exchange(None).unwrap();
        let soft = 200.min(before.rlim_max - 1);
        exchange(Some(libc::rlimit { rlim_cur: soft, ..before })).unwrap();
        let above = duplicate_above(2, 100).unwrap();
        assert!(above.as_raw_fd() as u64 >= soft);
        assert_eq!(exchange(Some(before)).unwrap().rlim_cur, soft);
    }
}

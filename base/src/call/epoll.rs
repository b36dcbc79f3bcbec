//! epoll(7), and which descriptors are one open file.

use super::{fcntl, timespec, Answer};
use crate::fd::OwnedFd;
use crate::sys::{check, raw, Errno, Sysno};

/// epoll_create1(2): a set that is closed on exec.
pub fn epoll_create() -> Result<OwnedFd, Errno> {
    let fd = call!(epoll_create1, libc::EPOLL_CLOEXEC)?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::adopt(fd as i32) })
}

/// epoll_pwait2(2), or epoll_pwait(2) where the kernel lacks it.
pub fn epoll_wait(
    fd: i32,
    events: &mut [libc::epoll_event],
    timeout_ns: Option<u64>,
    mask: Option<u64>,
) -> Answer {
    let count = events.len().min(i32::MAX as usize);
    let mask_at = mask.as_ref().map_or(std::ptr::null(), |m| m as *const u64);
    if timeout_ns == Some(0) {
        return call!(epoll_pwait, fd, events.as_mut_ptr(), count, 0, mask_at, 8);
    }
    let spec = timeout_ns.map(timespec);
    let spec_at = spec.as_ref().map_or(std::ptr::null(), |s| s as *const libc::timespec);
    match call!(epoll_pwait2, fd, events.as_mut_ptr(), count, spec_at, mask_at, 8) {
        Err(Errno(libc::ENOSYS)) => {
            let ms = timeout_ns.map_or(-1, |ns| ns.div_ceil(1_000_000).min(1 << 30) as i32);
            call!(epoll_pwait, fd, events.as_mut_ptr(), count, ms, mask_at, 8)
        }
        answer => answer,
    }
}

/// epoll_ctl(2).
pub fn epoll_ctl(epoll: i32, op: i32, fd: i32, event: Option<libc::epoll_event>) -> Answer {
    let at = event.as_ref().map_or(std::ptr::null(), |e| e as *const libc::epoll_event);
    call!(epoll_ctl, epoll, op, fd, at)
}

/// True for an epoll descriptor. Asked so that no event is taken: there is nowhere to write one.
pub fn is_epoll(fd: i32) -> bool {
    call!(epoll_wait, fd, 0, 1, 0) != Err(Errno(libc::EINVAL))
        && fcntl(fd, libc::F_GETFD, 0).is_ok()
}

/// The events that the kernel still reports of `fd` under `epoll`: none are left of a one-shot that
/// is spent. `None` where the kernel does not tell.
pub fn epoll_events(epoll: i32, fd: i32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{epoll}")).ok()?;
    // Such as "tfd:        5 events:     2019 data:        5 pos:0 ino:1a sdev:8".
    let words = |line: &str| -> Option<(i32, u32)> {
        let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
        let tfd = words.next()?.parse().ok()?;
        Some((tfd, u32::from_str_radix(words.nth(1)?, 16).ok()?))
    };
    text.lines().filter_map(words).find(|(tfd, _)| *tfd == fd).map(|(_, events)| events)
}

/// True when two descriptors of this process are one open file; false also where the kernel does
/// not tell (kcmp(2) may be forbidden).
pub fn is_same_file(one: i32, other: i32) -> bool {
    let own = crate::process::pid();
    call!(kcmp, own, own, KCMP_FILE, one, other) == Ok(0)
}

/// Compares open file descriptions (source: kcmp(2), linux/kcmp.h).
const KCMP_FILE: usize = 0;

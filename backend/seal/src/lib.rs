//! The kernel's fence around a sealed program: filter, notifications, and its memory from outside.
//!
//! Thin wrappers of seccomp(2), seccomp_unotify(2), process_vm_readv(2) and fork(2). Which calls
//! pass and what is answered to the others is decided elsewhere.
#![warn(missing_docs)]

mod filter;
mod handover;
mod interrupt;
mod listener;
mod memory;
mod placement;
pub mod spaces;
mod start;
pub mod status;

pub use filter::{install, is_taken, restrict, Instruction, Verdict};
pub use handover::Handover;
pub use interrupt::{interrupt, own_thread, signal_thread};
pub use listener::{Listener, Notice, Reply};
pub use memory::{read_memory, read_memory_until_fault, read_text, write_memory};
pub use placement::Placement;
pub use start::{fork_telling, leave_shared_folder, Fork, Hearer, Teller};

use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::{check, raw, Errno, Sysno};
use std::os::fd::RawFd;

/// A copy of a descriptor of another process (pidfd_getfd(2), Linux 5.6), closed on exec.
///
/// `pid` names a process or one of its threads; a thread with a table of its own is only looked
/// into since Linux 6.9, before that its process is. EBADF if there is no such descriptor, ESRCH
/// if there is no such process, EPERM if it may not be looked into.
pub fn descriptor_of(pid: i32, fd: RawFd) -> Result<OwnedFd, Errno> {
    /// Names one thread instead of a process (source: pidfd_open(2), Linux 6.9).
    const PIDFD_THREAD: usize = libc::O_EXCL as usize;
    let process = match hold(pid, PIDFD_THREAD) {
        Err(Errno(libc::EINVAL)) => hold(leader_of(pid).ok_or(Errno(libc::ESRCH))?, 0),
        other => other,
    }?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&process) as usize;
    // SAFETY: pidfd_getfd takes no pointer.
    let copy =
        check(unsafe { raw(Sysno::pidfd_getfd as usize, [number, fd as usize, 0, 0, 0, 0]) })?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::adopt(copy as RawFd) })
}

/// Whether descriptors of other processes can be copied at all: the default filters of containers
/// refuse it. Tried on this process's own.
pub fn copies_descriptors() -> bool {
    let own = std::process::id() as i32;
    hold(own, 0)
        .is_ok_and(|held| descriptor_of(own, std::os::fd::AsRawFd::as_raw_fd(&held)).is_ok())
}

/// A hold on a process (pidfd_open(2)).
fn hold(pid: i32, flags: usize) -> Result<OwnedFd, Errno> {
    // SAFETY: pidfd_open takes no pointer.
    let fd = check(unsafe { raw(Sysno::pidfd_open as usize, [pid as usize, flags, 0, 0, 0, 0]) })?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::adopt(fd as RawFd) })
}

/// The process that a thread belongs to (proc(5)); `None` if it is gone.
fn leader_of(thread: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// The kernel's Landlock version; 0 without (landlock_create_ruleset(2)).
pub fn landlock_version() -> u32 {
    const VERSION: usize = 1;
    // SAFETY: with this flag the call takes no pointer.
    let answer = unsafe { raw(Sysno::landlock_create_ruleset as usize, [0, 0, VERSION, 0, 0, 0]) };
    check(answer).map_or(0, |version| version as u32)
}

/// Makes exec close all descriptors from `first` on (close_range(2), Linux 5.11).
pub fn close_on_exec_from(first: RawFd) -> Result<(), Errno> {
    let flags = libc::CLOSE_RANGE_CLOEXEC as usize;
    // SAFETY: close_range takes no pointer, and with this flag closes nothing by itself.
    let answer = unsafe {
        raw(Sysno::close_range as usize, [first as usize, u32::MAX as usize, flags, 0, 0, 0])
    };
    check(answer).map(drop)
}

/// How many descriptors a process may have: the soft limit (prlimit(2)); `None` if it is gone.
pub fn descriptors_max(pid: i32) -> Option<u64> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let place = std::ptr::from_mut(&mut limit) as usize;
    let args = [pid as usize, libc::RLIMIT_NOFILE as usize, 0, place, 0, 0];
    // SAFETY: sets nothing, and fills a structure of the caller's that outlives the call.
    check(unsafe { raw(Sysno::prlimit64 as usize, args) }).ok()?;
    Some(limit.rlim_cur)
}

/// Sets the length of what a descriptor opened by path only stands for, as truncate(2) does by
/// name: without opening it, so that nobody who watches the file sees it opened and closed.
///
/// # Errors
/// Those of truncate(2).
pub fn set_length(fd: impl std::os::fd::AsFd, length: u64) -> Result<(), Errno> {
    let name = format!("/proc/self/fd/{}\0", std::os::fd::AsRawFd::as_raw_fd(&fd.as_fd()));
    let args = [name.as_ptr() as usize, length as usize, 0, 0, 0, 0];
    // SAFETY: the name ends in a NUL and outlives the call.
    check(unsafe { raw(Sysno::truncate as usize, args) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_belongs_to_its_process() {
        let own = std::process::id() as i32;
        let found = std::thread::spawn(|| leader_of(own_thread())).join();
        assert_eq!(found.ok().flatten(), Some(own));
        assert!(hold(own, 0).is_ok());
        assert_eq!(leader_of(i32::MAX), None);
    }
}

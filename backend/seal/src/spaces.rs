//! Namespaces of a process's own (namespaces(7)).

use std::os::fd::{AsFd, AsRawFd};

use heliostat_base::sys::{check, raw, Errno, Sysno};

/// System V objects and POSIX message queues.
pub const IPC: i32 = libc::CLONE_NEWIPC;
/// What is mounted where.
pub const MOUNTS: i32 = libc::CLONE_NEWNS;
/// Numbers of users and groups, and rights over the namespaces that are made in it.
pub const USERS: i32 = libc::CLONE_NEWUSER;

/// Gives this process, which has one thread, namespaces of its own: of some of the kinds above.
///
/// # Errors
/// EPERM where that is not allowed, and the others of unshare(2). It has none of them then.
pub fn leave(kinds: i32) -> Result<(), Errno> {
    // SAFETY: the call takes no pointer, and changes no descriptor and no memory.
    check(unsafe { raw(Sysno::unshare as usize, [kinds as usize, 0, 0, 0, 0, 0]) }).map(drop)
}

/// Moves this process, which has one thread, into a namespace that is held open, of this kind.
///
/// # Errors
/// Those of setns(2).
pub fn join(space: impl AsFd, kind: i32) -> Result<(), Errno> {
    let number = space.as_fd().as_raw_fd() as usize;
    // SAFETY: the call takes no pointer, and changes no descriptor and no memory.
    check(unsafe { raw(Sysno::setns as usize, [number, kind as usize, 0, 0, 0, 0]) }).map(drop)
}

//! A descriptor that a sealed process holds, copied once and opened anew.
//!
//! Other threads of the program put other files at its number whenever they like. So what is
//! judged is the copy, and what is used is the copy, and never the number a second time.

use std::os::fd::OwnedFd;

use heliostat_backend_seal as seal;
use heliostat_base::sys::Errno;
use rustix::fs::{Mode, OFlags};

use super::{host_path, Found, Roots, Start};

use crate::acting::as_supervisor;
use crate::errno::errno;
use crate::proc::{own_name, read_proc};

/// Opens the file of descriptor `number` of a process anew, with no more rights than the
/// descriptor has itself: what was handed in for writing is not read, a pipe's reader does not
/// become its writer, what is open by path only is not opened, and what may be appended to is not
/// overwritten. What is open by path only and lies outside, which a race for such a
/// descriptor can win, is not even looked at: attributes and watches are found by a look.
///
/// # Errors
/// EBADF if there is none, EACCES for more than it has, and those of openat(2).
pub fn reopen(
    roots: &Roots,
    found: &Found,
    (process, number): (i32, i32),
    wanted: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let fd = copied(roots, found, (process, number))?;
    let has = rights(roots, &fd, (process, number));
    let reads = |flags: OFlags| !flags.contains(OFlags::WRONLY);
    let writes = |flags: OFlags| flags.intersects(OFlags::WRONLY | OFlags::RDWR);
    if has.contains(OFlags::PATH) && lies_outside(roots, &fd) {
        return Err(Errno(libc::EACCES));
    }
    let mut flags = wanted.difference(OFlags::NOFOLLOW | OFlags::CREATE | OFlags::EXCL);
    if !wanted.contains(OFlags::PATH) {
        let changes = writes(wanted) || wanted.contains(OFlags::TRUNC);
        let is_more = (reads(wanted) && !reads(has)) || (changes && !writes(has));
        if has.contains(OFlags::PATH) || is_more {
            return Err(Errno(libc::EACCES));
        }
        if has.contains(OFlags::APPEND) && changes {
            flags = flags.difference(OFlags::TRUNC) | OFlags::APPEND;
        }
    }
    rustix::fs::open(own_name(&fd), flags | OFlags::CLOEXEC, mode).map_err(errno)
}

/// A copy of the descriptor that a walk has found. The number may have become another process's
/// after the walk: only while that process's folder, which is held, still has the entry, what was
/// copied before is its own.
pub fn copied(
    roots: &Roots,
    found: &Found,
    (process, number): (i32, i32),
) -> Result<OwnedFd, Errno> {
    let copy = copy(roots, process, number)?;
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    let look = || rustix::fs::statat(&found.folder, found.name.as_c_str(), flags);
    as_supervisor(look).map_err(errno)?;
    Ok(copy)
}

/// A copy of a thread's descriptor or, where descriptors cannot be copied, what it stands for, opened
/// by path only: enough for all that goes by its name in /proc.
///
/// # Errors
/// EBADF if there is none.
pub fn copy(roots: &Roots, thread: i32, number: i32) -> Result<OwnedFd, Errno> {
    match seal::descriptor_of(thread, number) {
        Err(Errno(libc::EPERM | libc::ENOSYS)) => Start::open(roots, thread, number),
        other => Ok(other?.into()),
    }
}

/// The flags with which a thread's descriptor was opened, of which `fd` is a copy; that it was opened
/// by path only, and so has no right but to be looked at, where there is no answer.
pub fn rights(roots: &Roots, fd: &OwnedFd, (thread, number): (i32, i32)) -> OFlags {
    let own = rustix::fs::fcntl_getfl(fd).unwrap_or(OFlags::PATH);
    if !own.contains(OFlags::PATH) {
        return own;
    }
    // Opened by path only by the program, or here (proc_pid_fdinfo(5)). Another descriptor that has
    // come to that number meanwhile is the program's as well.
    let text = read_proc(roots.proc(), &format!("{thread}/fdinfo/{number}")).unwrap_or_default();
    let mut lines = std::str::from_utf8(&text).unwrap_or_default().lines();
    let flags = lines.find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok());
    flags.map_or(own, OFlags::from_bits_retain)
}

fn lies_outside(roots: &Roots, fd: &OwnedFd) -> bool {
    host_path(fd).is_some_and(|path| roots.name_of_open(fd, &path).is_none())
}

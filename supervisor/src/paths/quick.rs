//! The short way: one openat2(2) from a granted directory, for paths that stay below it.
//!
//! Most do. What does not (an absolute symbolic link, `..` out of the grant, grants of other
//! access below, /proc) answers `None` and is walked component by component.

use std::os::fd::{AsFd, OwnedFd};

use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::{errno, Root, Roots, Start, PATH_MAX};

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// Opens `path` with these flags if that can be decided at once.
///
/// # Errors
/// Those of openat2(2) for what lies below the grant.
pub fn open(
    roots: &Roots,
    start: Option<&Start>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Option<Result<OwnedFd, Errno>> {
    let writes = writes(flags);
    if path.starts_with(b"/") {
        let (folder, root, length) = roots.leading(path)?;
        if writes && root.is_none_or(|root| root.access != Access::ReadWrite || root.is_mixed) {
            return None;
        }
        let opened = beneath(folder, rest(&path[length..])?, flags, mode)?;
        return not_proc(root, opened);
    }
    let start = start?;
    let root = roots.deciding(start.path.as_deref()?)?;
    if !root.is_folder || (writes && (root.access != Access::ReadWrite || root.is_mixed)) {
        return None;
    }
    not_proc(Some(root), beneath(&start.fd, rest(path)?, flags, mode)?)
}

/// Below `/` lies /proc, whose entries are judged one by one.
fn not_proc(root: Option<&Root>, opened: Result<OwnedFd, Errno>) -> Option<Result<OwnedFd, Errno>> {
    /// Source: statfs(2).
    const PROC: i64 = 0x9fa0;
    let has_proc = root.is_some_and(|root| root.path.as_os_str() == "/");
    let fd = match opened {
        Ok(fd) if has_proc => fd,
        other => return Some(other),
    };
    let is_proc = rustix::fs::fstatfs(&fd).is_ok_and(|found| found.f_type == PROC);
    (!is_proc).then_some(Ok(fd))
}

/// Whether an open with these flags can change anything but access times.
pub fn writes(flags: OFlags) -> bool {
    let changing = OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
    !flags.contains(OFlags::PATH) && (flags.intersects(changing) || flags.contains(OFlags::TMPFILE))
}

/// What is left behind a prefix. Nothing left is the directory itself, which is walked to.
fn rest(path: &[u8]) -> Option<&[u8]> {
    let slashes = path.iter().take_while(|byte| **byte == b'/').count();
    let rest = &path[slashes..];
    (!rest.is_empty()).then_some(rest)
}

fn beneath(
    folder: impl AsFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Option<Result<OwnedFd, Errno>> {
    debug_assert!(path.len() < PATH_MAX);
    match rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, mode, BENEATH) {
        // Leads out of the grant (EXDEV), through a magic link (ELOOP), or raced (EAGAIN). A loop
        // is found again by the walk.
        Err(rustix::io::Errno::XDEV | rustix::io::Errno::LOOP | rustix::io::Errno::AGAIN) => None,
        other => Some(other.map_err(errno)),
    }
}

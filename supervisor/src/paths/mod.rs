//! Names of a sealed program to objects of the host: granted roots, and how a path is walked.
//!
//! Names are the host's own, one to one. What leads to a grant is visible as a directory of the
//! skeleton; all else does not exist.

mod found;
mod proc;
mod quick;
mod roots;
mod skeleton;
mod start;
mod walk;

pub use found::{Found, Object};
pub use proc::{link as link_of_proc, Sandbox};
pub use quick::{open as quick, writes};
pub use roots::{Root, Roots};
pub use start::Start;
pub use walk::Walk;

use std::path::PathBuf;

use heliostat_base::sys::Errno;

/// Symbolic links followed in one path (source: path_resolution(7)).
pub const LINKS_MAX: usize = 40;
/// Bytes of a path, its NUL included (source: limits.h).
pub const PATH_MAX: usize = 4096;

/// The error number that rustix reports, as this project's.
pub fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

/// Where a descriptor of this process lies in the host's tree; `None` if nowhere: a pipe, a
/// deleted file.
pub fn host_path(fd: impl std::os::fd::AsFd) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd.as_fd()));
    let text = rustix::fs::readlink(link, Vec::with_capacity(256)).ok()?.into_bytes();
    let is_gone = text.ends_with(b" (deleted)") || text.starts_with(b"(unreachable)");
    (text.starts_with(b"/") && !is_gone).then(|| PathBuf::from(std::ffi::OsString::from_vec(text)))
}

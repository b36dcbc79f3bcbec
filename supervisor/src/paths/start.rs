//! Where a relative path begins: the thread's working directory, or a descriptor it holds.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use heliostat_base::sys::Errno;
use rustix::fs::{Mode, OFlags};

use super::{errno, host_path, Roots};

/// A directory of the program's, or whatever its descriptor stands for.
#[derive(Debug)]
pub struct Start {
    /// Opened by path only.
    pub fd: OwnedFd,
    /// Its name for the program; `None` if it has none: deleted, a pipe, a socket, or something
    /// that lies outside and was handed in as a descriptor.
    pub path: Option<PathBuf>,
    /// It lies where nothing is granted: the program holds it from outside.
    pub is_hidden: bool,
}

impl Start {
    /// `number` is a descriptor of the thread's, or AT_FDCWD.
    ///
    /// # Errors
    /// EBADF if there is none.
    pub fn of(roots: &Roots, thread: i32, number: i32) -> Result<Self, Errno> {
        let link = match number {
            libc::AT_FDCWD => format!("{thread}/cwd"),
            number if number < 0 => return Err(Errno(libc::EBADF)),
            number => format!("{thread}/fd/{number}"),
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(roots.proc(), link, flags, Mode::empty());
        let fd = opened.map_err(|error| match error {
            rustix::io::Errno::NOENT if number != libc::AT_FDCWD => Errno(libc::EBADF),
            other => errno(other),
        })?;
        Ok(Self::from(roots, fd))
    }

    /// What is known of an open directory.
    pub fn from(roots: &Roots, fd: OwnedFd) -> Self {
        let host = host_path(&fd);
        let path = host.as_deref().and_then(|host| roots.name_of(host));
        let is_hidden = host.is_some() && path.is_none();
        Self { fd, path, is_hidden }
    }
}

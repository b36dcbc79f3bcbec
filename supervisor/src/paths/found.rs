//! What a path led to.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;

/// The end of a walk: the last component is not followed any further.
#[derive(Debug)]
pub struct Found {
    /// The directory that holds it. No part of `name` leads out of it.
    pub folder: OwnedFd,
    /// The last component with the slashes that came after it; `.` for a root itself.
    pub name: CString,
    /// Its whole name, as the program would spell it without symbolic links.
    pub path: PathBuf,
    /// What it is granted for: nothing but a look if `None`.
    pub access: Option<Access>,
    /// What is special about it.
    pub object: Object,
}

/// What is special about the end of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    /// Nothing, or it does not exist.
    Plain,
    /// The root of a grant, or of the whole tree.
    Root,
    /// An entry of /proc, opened for reading only.
    Process,
    /// Another name of a descriptor that a sealed process holds (/proc/PID/fd/N), which has no
    /// name of its own: a pipe, a socket, a deleted file.
    Descriptor {
        /// The process that holds it.
        process: i32,
        /// Its number there.
        number: i32,
    },
}

impl Found {
    /// Whether what is there may be changed; the error that a read-only mount gives otherwise.
    pub fn writable(&self) -> Result<(), Errno> {
        match self.access {
            Some(Access::ReadWrite) => Ok(()),
            // Nothing below /proc can be made, removed or described.
            _ if self.object == Object::Process => Err(Errno(libc::EPERM)),
            _ => Err(Errno(libc::EROFS)),
        }
    }
}

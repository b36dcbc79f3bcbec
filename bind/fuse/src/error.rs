//! Why there is no mount.

use std::fmt;
use std::io;

/// What went wrong.
#[derive(Debug)]
pub enum MountError {
    /// The kernel has no FUSE here.
    NoDevice,
    /// This user may not mount, and there is no fusermount3 that would.
    NoHelper(io::Error),
    /// fusermount3 says no.
    Helper(String),
    /// The kernel says no.
    Mount(io::Error),
    /// The folder cannot be used.
    Folder(io::Error),
    /// The mount is there, but cannot be served.
    Serve(io::Error),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice => f.write_str(
                "there is no /dev/fuse here (modprobe fuse; in a container it has to be let in); \
                 heliostat ls, cat and cp need none",
            ),
            Self::NoHelper(error) => write!(
                f,
                "this user may not mount ({error}), and fusermount3 is not there: install the package \
                 fuse3, or use heliostat ls, cat and cp"
            ),
            Self::Helper(said) => write!(f, "{said}"),
            Self::Mount(error) => write!(f, "the kernel does not mount: {error}"),
            Self::Folder(error) => write!(f, "the folder cannot be used: {error}"),
            Self::Serve(error) => write!(f, "the mount cannot be served: {error}"),
        }
    }
}

impl std::error::Error for MountError {}

//! What is to be sealed, and why it cannot be.

use std::io;
use std::path::{Path, PathBuf};

use heliostat_base::sys::Errno;
use heliostat_control::policy::{PathGrant, Policy};

use crate::identity::Identities;

/// What to seal.
pub struct Plan<'a> {
    /// What the program may do.
    pub policy: Policy,
    /// What is granted besides, and is no need of the program's: its file, the stub. What is for a
    /// look is not granted, and left out of a traced policy.
    pub besides: Vec<PathGrant>,
    /// A folder that is private to this user, for what the supervisor keeps while it runs.
    pub folder: &'a Path,
    /// The control plane's socket, for the stub inside: its connections are restricted.
    pub control: Option<PathBuf>,
    /// Names of variables that are set outside, and that the program is not told.
    pub untold: Vec<String>,
    /// Grants everything, and takes down what is asked for.
    pub traces: bool,
    /// Says refusals on standard error.
    pub tells: bool,
    /// Descriptors that the caller hands over beside input, output and errors.
    pub kept: Vec<i32>,
    /// Users that the program may become.
    pub identities: Option<Identities>,
    /// Called once, when the program is refused to become another user or group.
    pub tells_identity: Box<dyn FnOnce() + Send>,
}

/// Why a program cannot be sealed.
#[derive(Debug)]
pub enum SealError {
    /// The kernel has no Landlock, so that nothing would keep exec to what is granted.
    NoLandlock,
    /// A folder or file that the supervisor needs.
    Place(PathBuf, io::Error),
    /// The fence could not be put up.
    Fence(Errno),
}

impl std::fmt::Display for SealError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoLandlock => write!(
                f,
                "this kernel has no Landlock (Linux 5.13, CONFIG_SECURITY_LANDLOCK, named in the \
                 lsm= list), which keeps a sealed program from executing what is not granted"
            ),
            Self::Place(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Fence(Errno(libc::EBUSY)) => write!(
                f,
                "it is inside a sealed program or a container that answers system calls itself, and \
                 Linux lets one supervisor listen to a process (seccomp); leave --sealed out here, \
                 so that it runs within the policy outside, or start it from outside"
            ),
            Self::Fence(error) => write!(
                f,
                "the fence cannot be put up: {error}; seccomp with notifications is needed \
                 (Linux 5.19), and may be forbidden by a container's own filter"
            ),
        }
    }
}

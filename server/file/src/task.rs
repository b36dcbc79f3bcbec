//! What an opener is asked to do for a session, and what comes of it.
//!
//! Everything that may wait for a file system and is no transfer: names, and the entries of
//! directories. A task holds the names as they lay in the window, copied once: foreign bytes.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use heliostat_abi::file::delegated::{CREATE, TRUNCATE};
use heliostat_abi::right::Right;
use rustix::io::Errno;

/// Something that may wait.
pub enum Task {
    /// Open, or make and open.
    Open {
        /// An absolute path.
        name: Vec<u8>,
        /// Open's argument.
        argument: u64,
    },
    /// Change what names there are.
    Change(Change),
    /// Where a symbolic link leads.
    Readlink {
        /// The link.
        name: Vec<u8>,
    },
    /// Bytes of a file that is not kept open.
    Fetch {
        /// An absolute path.
        name: Vec<u8>,
        /// Where in the file.
        offset: u64,
        /// So many at most.
        bytes: usize,
    },
    /// Entries of an open directory.
    Readdir {
        /// The directory.
        directory: Arc<OwnedFd>,
        /// Held while they are read: the descriptor has one position.
        reading: Arc<Mutex<()>>,
        /// What comes after this.
        cookie: u64,
        /// Bytes that they may take.
        bytes: usize,
    },
}

/// A change of names.
pub enum Change {
    /// mkdir(2), with permissions.
    Mkdir(Vec<u8>, u32),
    /// rmdir(2).
    Rmdir(Vec<u8>),
    /// unlink(2).
    Unlink(Vec<u8>),
    /// renameat2(2).
    Rename {
        /// The name that it has.
        from: Vec<u8>,
        /// The name that it gets.
        to: Vec<u8>,
        /// Whether that may have been another's.
        replaces: bool,
    },
    /// symlink(2).
    Symlink {
        /// Where it leads; not looked at.
        target: Vec<u8>,
        /// Its name.
        name: Vec<u8>,
    },
}

/// What came of it.
pub enum Made {
    /// An open file or directory.
    File(OwnedFd),
    /// Bytes for the window; of a change none.
    Bytes(Vec<u8>),
}

/// Why nothing came of it.
#[derive(Debug)]
pub enum Refusal {
    /// What the kernel says.
    Errno(Errno),
    /// What a rule says, or no rule.
    Denied(Denial),
}

/// A right that a program does not have, for the log.
#[derive(Debug)]
pub struct Denial {
    /// Which.
    pub right: Right,
    /// On what, by the path that the control plane sees.
    pub path: String,
    /// The place of the rule that denies it. `None` when no rule does: what has the name belongs to
    /// another user.
    pub rule: Option<usize>,
}

impl Task {
    /// Whether something may be made whose permissions depend on the program's umask.
    pub fn makes(&self) -> bool {
        match self {
            Self::Open { argument, .. } => argument & CREATE != 0,
            Self::Change(change) => matches!(change, Change::Mkdir(..)),
            Self::Readlink { .. } | Self::Fetch { .. } | Self::Readdir { .. } => false,
        }
    }

    /// The directory that it holds.
    pub fn into_directory(self) -> Option<Arc<OwnedFd>> {
        match self {
            Self::Readdir { directory, .. } => Some(directory),
            _ => None,
        }
    }

    /// Whether it is about a name, and not about a directory that the session has open.
    pub fn is_about_names(&self) -> bool {
        !matches!(self, Self::Readdir { .. })
    }

    /// Whether opening changes something, so that the rules are asked before and not after it.
    pub fn changes_on_open(argument: u64) -> bool {
        argument & (CREATE | TRUNCATE) != 0
    }
}

impl Refusal {
    /// What the program is told.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Errno(errno) => *errno,
            Self::Denied(_) => Errno::ACCESS,
        }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

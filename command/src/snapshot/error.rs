//! Why a command about snapshots did not do what it should.

use std::fmt;
use std::path::{Path, PathBuf};

use heliostat_abi::code::Code;
use heliostat_snapfile::FileError;
use heliostat_stub_snapshot::{AttachError, NamedError, OutsideError};

use crate::client::ClientError;
use crate::show::ShowError;

/// What went wrong.
#[derive(Debug)]
pub enum SnapshotError {
    /// The control plane did not answer.
    Client(ClientError),
    /// The answer could not be read or printed.
    Show(ShowError),
    /// A region could not be attached to.
    Region {
        /// Its name.
        name: String,
        /// Why.
        error: NamedError,
    },
    /// A version could not be had.
    Version {
        /// The region's name.
        name: String,
        /// The versions that there are.
        alive: Vec<u64>,
        /// Why.
        error: AttachError,
    },
    /// The producer ended, and no further version will come.
    Ended {
        /// The region's name.
        name: String,
    },
    /// A snapshot file cannot be read.
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: FileError,
    },
    /// A file that another one builds on cannot be found.
    NoBase {
        /// The file that needs it.
        path: PathBuf,
        /// Where it should be.
        base: PathBuf,
    },
    /// A file cannot be written; nothing was left behind.
    Output {
        /// Which.
        path: PathBuf,
        /// Why.
        error: FileError,
    },
    /// A base is of another region or length.
    Unlike {
        /// The base.
        path: PathBuf,
        /// In what it differs.
        why: String,
    },
    /// The description is none that a NumPy file could say.
    NoArray {
        /// Why.
        why: &'static str,
    },
    /// A program could not be published from outside.
    Outside {
        /// Its number.
        pid: i32,
        /// Why.
        error: OutsideError,
    },
    /// What the command line asks for makes no sense, or is not there.
    Asked(String),
    /// A signal ended it.
    Interrupted,
}

impl SnapshotError {
    /// For errors of a file that is read.
    pub fn of_file(path: &Path) -> impl FnOnce(FileError) -> Self + '_ {
        |error| Self::File { path: path.to_owned(), error }
    }

    /// For errors of a file that is written.
    pub fn of_output<E: Into<FileError>>(path: &Path) -> impl FnOnce(E) -> Self + '_ {
        |error| Self::Output { path: path.to_owned(), error: error.into() }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Show(error) => error.fmt(f),
            Self::Region { name, error } => write_region(f, name, error),
            Self::Version { name, alive, error } if alive.is_empty() => {
                write!(f, "region {name} has no version yet ({error}); --wait waits for one")
            }
            Self::Version { name, alive, error } => {
                write!(f, "region {name}: {error}; its versions are {alive:?}")
            }
            Self::Ended { name } => {
                write!(f, "the producer of region {name} has ended; no further version will come")
            }
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::NoBase { path, base } => write!(
                f,
                "{} needs its base {}, which is not there; put it beside the file",
                path.display(),
                base.display()
            ),
            Self::Output { path, error } => {
                write!(f, "cannot write {}: {error}; nothing was left behind", path.display())
            }
            Self::Unlike { path, why } => {
                write!(f, "{} cannot be the base: {why}", path.display())
            }
            Self::NoArray { why } => write!(
                f,
                "the region's description tells no array: {why}; another name than *.npy gets \
                 the bytes as they are"
            ),
            Self::Interrupted => f.write_str("interrupted; nothing was left behind"),
            Self::Outside { pid, error } => write!(f, "process {pid}: {error}"),
            Self::Asked(text) => f.write_str(text),
        }
    }
}

fn write_region(f: &mut fmt::Formatter<'_>, name: &str, error: &NamedError) -> fmt::Result {
    match error {
        NamedError::Refused(Code::NotFound, _) => {
            write!(f, "no region is called {name} now; `heliostat snapshot list` shows them")
        }
        NamedError::Refused(Code::Denied, _) => write!(
            f,
            "region {name} of that user is not yours to attach to; the control plane needs a rule \
             that allows it (docs/guide/control-plane.md)"
        ),
        error => write!(f, "region {name}: {error}"),
    }
}

impl std::error::Error for SnapshotError {}

impl From<ClientError> for SnapshotError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<ShowError> for SnapshotError {
    fn from(error: ShowError) -> Self {
        Self::Show(error)
    }
}

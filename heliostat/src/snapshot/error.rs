//! Why a command about snapshots did not do what it should.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_stub::snapshot::NamedError;

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
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Show(error) => error.fmt(f),
            Self::Region { name, error: NamedError::Refused(Code::NotFound, _) } => {
                write!(f, "no region is called {name} now; `heliostat snapshot list` shows them")
            }
            Self::Region { name, error: NamedError::Refused(Code::Denied, _) } => write!(
                f,
                "region {name} of that user is not yours to attach to; its owner's control plane \
                 needs a rule that allows it (docs/guide/control-plane.md)"
            ),
            Self::Region { name, error } => write!(f, "region {name}: {error}"),
        }
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

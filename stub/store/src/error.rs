//! Why something about an area was not done, and on which side.

use std::fmt;

use heliostat_abi::code::Code;
use heliostat_abi::snapshot::region_name::NameError;
use heliostat_abi::store::NotDone;
use heliostat_backend_block::{BeginError, BlockError, OpenError};
use heliostat_base::mapping::MappingError;
use heliostat_client::ControlError;
use heliostat_stub_link::{LinkError, SharedError};

/// What went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// Ours: the text is no name.
    Name(NameError),
    /// Ours: the operation cannot be one on this area: beyond its end, or no multiple of its sector.
    Operation(BeginError),
    /// Ours: a device of the area is still in use in this process.
    InUse,
    /// The store says no, with its reason.
    NotDone(NotDone),
    /// The device failed the operation. After a change that failed its sectors hold the old bytes or
    /// the new ones.
    Device(BlockError),
    /// The control plane has ended, or the session: what was under way may have been done or not.
    Gone,
    /// The device cannot be driven from here, although the control plane has granted it.
    NotDriven(OpenError),
    /// The control plane says no, did not answer, or is not there.
    Control(ControlError),
    /// The control plane answered what no control plane answers.
    Corrupt,
    /// The machine gave no memory for a window.
    Mapping(MappingError),
    /// The session with the server loop cannot be used.
    Link(LinkError),
}

impl StoreError {
    /// Whether the handle does not allow the operation.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Device(BlockError::Device { errno: libc::EACCES }))
    }

    /// The control plane's word, where it says no by rules or limits.
    pub fn refusal(&self) -> Option<Code> {
        match self {
            Self::Control(ControlError::Refused { code, .. }) => Some(*code),
            _ => None,
        }
    }
}

impl From<LinkError> for StoreError {
    fn from(error: LinkError) -> StoreError {
        StoreError::Link(error)
    }
}

impl From<BeginError> for StoreError {
    fn from(error: BeginError) -> StoreError {
        StoreError::Operation(error)
    }
}

impl From<BlockError> for StoreError {
    fn from(error: BlockError) -> StoreError {
        match error {
            GONE => StoreError::Gone,
            error => StoreError::Device(error),
        }
    }
}

/// By what a device says that the control plane has ended: EPIPE, which no disk answers.
pub(crate) const GONE: BlockError = BlockError::Device { errno: libc::EPIPE };

/// What a device says of an operation that the link does not carry.
pub(crate) fn of_link(error: SharedError) -> BlockError {
    match error {
        SharedError::Gone => GONE,
        SharedError::Full => BlockError::Device { errno: libc::EAGAIN },
        SharedError::Link(_) => BlockError::Device { errno: libc::EPROTO },
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Operation(error) => error.fmt(f),
            Self::InUse => {
                f.write_str("a device of the area is in use in this process: drop it first")
            }
            Self::NotDone(not_done) => not_done.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Gone => f.write_str(
                "the control plane has ended the session, or has itself ended; connect again",
            ),
            Self::NotDriven(error) => write!(f, "the granted device cannot be driven: {error}"),
            Self::Control(error) => error.fmt(f),
            Self::Corrupt => {
                f.write_str("the control plane answered nonsense; are both one version?")
            }
            Self::Mapping(error) => error.fmt(f),
            Self::Link(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {}

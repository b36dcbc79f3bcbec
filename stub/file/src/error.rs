//! Why a delegated operation was not done, or its session is over.

use heliostat_abi::code::Code;
use heliostat_base::mapping::{MappingError, OutOfRange};
use heliostat_base::sys::Errno;
use heliostat_client::ControlError;
use heliostat_ring::RingError;
use heliostat_stub_link::LinkError;

/// What went wrong, and on which side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelegatedError {
    /// The control plane is not there, or did not answer.
    Control(ControlError),
    /// The control plane says no: why, and the limit in force or zero.
    Refused(Code, u64),
    /// The window could not be made.
    Memory(MappingError),
    /// The rings that the control plane sent are none.
    Ring(RingError),
    /// The server broke the protocol.
    Corrupt,
    /// The control plane has ended, or revoked the session, with so many operations under way.
    Gone {
        /// Operations that may have been done or not.
        lost: usize,
    },
    /// The file was opened by another run of the control plane: open it again.
    Stale,
    /// The tag is larger than `TAG_MAX`.
    Tag,
    /// Nothing is under way that could be waited for.
    Idle,
    /// Nothing completed in time.
    TimedOut,
    /// The place does not lie in the window.
    Window(OutOfRange),
    /// The operation ended with this error.
    File(Errno),
}

impl std::fmt::Display for DelegatedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Control(error) => error.fmt(f),
            Self::Refused(code, 0) => f.write_str(code.text()),
            Self::Refused(code, limit) => write!(f, "{} ({limit})", code.text()),
            Self::Memory(error) => error.fmt(f),
            Self::Ring(error) => error.fmt(f),
            Self::Corrupt => f.write_str("the server broke the protocol of delegated operations"),
            Self::Gone { lost } => write!(
                f,
                "the control plane has ended the session; {lost} operations may be done or not"
            ),
            Self::Stale => f.write_str("the file is of an earlier session: open it again"),
            Self::Tag => f.write_str("the tag is beyond TAG_MAX"),
            Self::Idle => f.write_str("nothing is under way"),
            Self::TimedOut => f.write_str("nothing completed in time"),
            Self::Window(error) => write!(f, "window: {error}"),
            Self::File(errno) => errno.fmt(f),
        }
    }
}

impl std::error::Error for DelegatedError {}

impl From<LinkError> for DelegatedError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Memory(error) => Self::Memory(error),
            LinkError::Ring(error) => Self::Ring(error),
            LinkError::Corrupt => Self::Corrupt,
        }
    }
}

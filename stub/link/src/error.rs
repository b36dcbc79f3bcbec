//! Why a session with a server loop cannot be used.

use heliostat_base::mapping::MappingError;
use heliostat_ring::RingError;

/// What went wrong; each is the control plane's fault or the machine's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkError {
    /// The page with the call could not be mapped.
    Memory(MappingError),
    /// The rings that the control plane sent are none.
    Ring(RingError),
    /// The server broke the protocol.
    Corrupt,
}

/// Why an operation has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SharedError {
    /// The control plane has ended, or the session: it may have been done or not.
    Gone,
    /// As many are under way as the session may have; it was not begun.
    Full,
    /// The server broke the protocol.
    Link(LinkError),
}

impl std::fmt::Display for LinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Ring(error) => error.fmt(f),
            Self::Corrupt => f.write_str("the server broke the protocol of delegated operations"),
        }
    }
}

impl std::error::Error for LinkError {}

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

//! Why memory could not be made, sealed or made writable.

use heliostat_base::sys::Errno;

/// What went wrong, and what to do about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemapError {
    /// Empty, beyond the limit, or outside the memory.
    Length {
        /// Bytes asked for.
        wanted: usize,
        /// Most there may be.
        limit: usize,
    },
    /// This process has as many such memories as there may be.
    Full {
        /// Most there may be.
        limit: usize,
    },
    /// Another handler of SIGSEGV has taken the place of ours.
    HandlerLost,
    /// A chunk has no slot that no version alive shows: the caller sealed with too many alive.
    NoSpare {
        /// Its number.
        chunk: usize,
    },
    /// This process is a fork of the one whose memory it is.
    Forked,
    /// The kernel refused.
    System {
        /// System call that failed.
        call: &'static str,
        /// Its error number.
        errno: Errno,
    },
}

impl std::fmt::Display for RemapError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length { wanted, limit } => {
                write!(f, "{wanted} bytes of remapped memory (limit {limit})")
            }
            Self::Full { limit } => write!(
                f,
                "this process has {limit} remapped memories already, the most there may be"
            ),
            Self::HandlerLost => f.write_str(
                "another handler of SIGSEGV was installed after the memory was made; install it \
                 before, or let it pass on what is not its own and restore ours",
            ),
            Self::NoSpare { chunk } => {
                write!(f, "chunk {chunk} has no free slot; use more colours or let go of versions")
            }
            Self::Forked => f.write_str(
                "remapped memory belongs to the process that made it, not to a fork of it",
            ),
            Self::System { call, errno } => write!(f, "{call}: {errno}"),
        }
    }
}
impl std::error::Error for RemapError {}

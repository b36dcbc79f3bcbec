//! Why a request to the control plane has no answer that can be used.

use heliostat_abi::code::Code;
use heliostat_abi::session::record::{Bound, Reply};
use heliostat_abi::wire::WireError;
use heliostat_base::sys::Errno;

/// What went wrong, and on which side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlError {
    /// Ours: nobody has said where the control plane listens (`session::configure`).
    Unconfigured,
    /// Nobody serves the socket.
    NotRunning(Errno),
    /// The control plane hung up, or did not answer in time (EAGAIN).
    Broken(Errno),
    /// Ours: this process has no descriptor left for what the answer brings.
    NoDescriptors,
    /// The answer is no record of this protocol.
    Malformed(WireError),
    /// The answer is of another kind than was asked for, or brings something else.
    Unexpected,
    /// The control plane says no.
    Refused {
        /// Why.
        code: Code,
        /// The limit in force, or zero.
        limit: u64,
        /// On what, and whose.
        bound: Bound,
    },
    /// The session that the request is about has ended.
    SessionEnded,
}

impl From<&Reply> for ControlError {
    /// Returns the error for an answer of another kind than was asked for.
    fn from(reply: &Reply) -> Self {
        match *reply {
            Reply::Refused { code, limit, bound } => Self::Refused { code, limit, bound },
            _ => Self::Unexpected,
        }
    }
}

impl std::fmt::Display for ControlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unconfigured => f.write_str("nobody has said where the control plane listens"),
            Self::NotRunning(errno) => {
                write!(f, "no control plane answers ({errno}); is heliostatd running?")
            }
            Self::Broken(Errno(libc::EAGAIN)) => {
                f.write_str("the control plane did not answer in time")
            }
            Self::Broken(errno) => write!(f, "the control plane hung up: {errno}"),
            Self::NoDescriptors => f.write_str("no descriptor is left for what is answered"),
            Self::Malformed(error) => {
                write!(f, "the control plane answered nonsense: {error}; are both one version?")
            }
            Self::Unexpected => f.write_str("the control plane answered something else"),
            Self::Refused { code, limit: 0, .. } => {
                write!(f, "the control plane refuses: {}", code.text())
            }
            Self::Refused { code, limit, bound: Bound::NONE } => {
                write!(f, "the control plane refuses: {} ({limit})", code.text())
            }
            Self::Refused { code, limit, bound: Bound { thing, side } } => {
                let (reached, thing, side) = (code.text(), thing.text(), side.text());
                write!(f, "the control plane refuses: {reached}: {limit} {thing} for {side}")
            }
            Self::SessionEnded => f.write_str("the session with the control plane has ended"),
        }
    }
}

impl std::error::Error for ControlError {}

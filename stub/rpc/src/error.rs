//! Why a call has no reply, and whether it may have had an effect all the same.

use heliostat_abi::code::Code;
use heliostat_abi::snapshot::region_name::NameError;
use heliostat_base::mapping::MappingError;
use heliostat_base::sys::Errno;
use heliostat_client::ControlError;
use heliostat_stub_link::{LinkError, SharedError};

/// Why no server has seen a call, or a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotDelivered {
    /// Nobody serves the function.
    Gone,
    /// Its time was over before a server was free, or before there was room in line.
    TimedOut,
    /// It was cancelled.
    Cancelled,
    /// There is no room in line now.
    Full,
    /// The function's node is not joined.
    NodeDown,
}

/// Why a call that a server may have seen has no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// Its time was over.
    TimedOut,
    /// It was cancelled.
    Cancelled,
    /// The server ended before it answered.
    ServerEnded,
    /// The control plane has ended, or the session with it.
    ControlGone,
    /// The function's node was lost meanwhile.
    NodeLost,
    /// The function's node broke the protocol.
    NodeBroken,
}

/// What went wrong, and on which side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RpcError {
    /// Ours: the text is no name.
    Name(NameError),
    /// Ours: the payload, or the reply, is longer than the function carries.
    TooLong {
        /// Bytes that it has.
        bytes: usize,
        /// Bytes that it may have.
        limit: usize,
    },
    /// Ours: as many calls are under way in this process as may be.
    Busy {
        /// How many.
        limit: usize,
    },
    /// No server has seen it.
    NotDelivered(NotDelivered),
    /// A server may have seen it.
    Unanswered(Unanswered),
    /// The function ran and says no; its text says why.
    Failed(String),
    /// Nobody waits for the reply any more: the caller has ended, or its time was over.
    NobodyWaits,
    /// This process does not serve the function any more.
    NotServing,
    /// The control plane says no, did not answer, or is not there.
    Control(ControlError),
    /// The control plane answered what no control plane answers.
    Corrupt,
    /// The machine gave no memory for a window.
    Mapping(MappingError),
    /// The session with the server loop cannot be used.
    Link(LinkError),
    /// It is about a function of another node, or what that node says.
    OnNode {
        /// Which.
        node: u32,
        /// What.
        error: Box<RpcError>,
    },
    /// The server loop ended an operation with an error that none of the above is.
    Server(Errno),
}

impl RpcError {
    /// Whether the function may have run although there is no reply.
    pub fn may_have_run(&self) -> bool {
        let why = self.kind();
        matches!(why, Self::Unanswered(_) | Self::Failed(_) | Self::Link(_) | Self::Corrupt)
    }

    /// Returns the node that it is about, where that is another one.
    pub fn node(&self) -> Option<u32> {
        match self {
            Self::OnNode { node, .. } => Some(*node),
            _ => None,
        }
    }

    /// Returns what went wrong, wherever that was.
    pub fn kind(&self) -> &RpcError {
        match self {
            Self::OnNode { error, .. } => error.kind(),
            other => other,
        }
    }

    /// Returns why the control plane says no, if it does.
    pub fn refusal(&self) -> Option<Code> {
        match self.kind() {
            Self::Control(ControlError::Refused { code, .. }) => Some(*code),
            _ => None,
        }
    }

    /// What the loop's errno means.
    pub(crate) fn of_errno(errno: i32) -> RpcError {
        match errno {
            libc::ESTALE | libc::EBADF => Self::NotDelivered(NotDelivered::Gone),
            libc::ETIMEDOUT => Self::NotDelivered(NotDelivered::TimedOut),
            libc::ECANCELED => Self::NotDelivered(NotDelivered::Cancelled),
            libc::EAGAIN => Self::NotDelivered(NotDelivered::Full),
            libc::ETIME => Self::Unanswered(Unanswered::TimedOut),
            libc::EINTR => Self::Unanswered(Unanswered::Cancelled),
            libc::EOWNERDEAD => Self::Unanswered(Unanswered::ServerEnded),
            libc::EHOSTDOWN => Self::NotDelivered(NotDelivered::NodeDown),
            libc::ECONNRESET => Self::Unanswered(Unanswered::NodeLost),
            libc::EREMOTEIO => Self::Unanswered(Unanswered::NodeBroken),
            libc::ENOENT => Self::NobodyWaits,
            errno => Self::Server(Errno(errno)),
        }
    }
}

impl std::fmt::Display for NotDelivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gone => "nobody serves the function",
            Self::TimedOut => "its time was over before a server was free",
            Self::Cancelled => "it was cancelled before a server was free",
            Self::Full => "there is no room in line now",
            Self::NodeDown => "the function's node is not joined",
        })
    }
}

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "its time was over before the server answered",
            Self::Cancelled => "it was cancelled before the server answered",
            Self::ServerEnded => "the server ended before it answered",
            Self::ControlGone => "the control plane has ended, or the session with it",
            Self::NodeLost => "the function's node was lost",
            Self::NodeBroken => "the function's node broke the protocol",
        })
    }
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::TooLong { bytes, limit } => {
                write!(f, "{bytes} bytes, where the function carries {limit}")
            }
            Self::Busy { limit } => {
                write!(f, "{limit} calls are under way in this process already")
            }
            Self::NotDelivered(why) => write!(f, "not delivered: {why}"),
            Self::Unanswered(why) => write!(f, "the call may have had an effect: {why}"),
            Self::Failed(text) => write!(f, "the function failed: {text}"),
            Self::NobodyWaits => f.write_str("nobody waits for the reply any more"),
            Self::NotServing => f.write_str("this process does not serve the function any more"),
            Self::Control(error) => error.fmt(f),
            Self::Corrupt => {
                f.write_str("the control plane broke the protocol of remote procedure calls")
            }
            Self::Mapping(error) => error.fmt(f),
            Self::Link(error) => error.fmt(f),
            Self::OnNode { node, error } => write!(f, "node {node}: {error}"),
            Self::Server(errno) => write!(f, "the server loop says {errno}"),
        }
    }
}

impl std::error::Error for RpcError {}

impl From<LinkError> for RpcError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<SharedError> for RpcError {
    fn from(error: SharedError) -> Self {
        match error {
            SharedError::Gone => Self::Unanswered(Unanswered::ControlGone),
            SharedError::Full => Self::Busy { limit: heliostat_abi::file::delegated::DEPTH_MAX },
            SharedError::Link(error) => Self::Link(error),
        }
    }
}

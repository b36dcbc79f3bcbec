//! Why a call, a post or a node's membership ended, and what the other side may have done.

use std::fmt;

use crate::frame::FrameError;
use crate::greeting::JoinRefusal;
use crate::identity::NodeId;
use crate::transport::EndCause;
use crate::window::WindowFault;

/// Whether the other side may have done what it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It has not: nothing that could be read left this node.
    NotSent,
    /// It may have, or may still.
    Unknown,
    /// It says itself that it has not.
    Refused,
}

/// A call or a post that has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallError {
    /// Who was asked; none when there is no such link.
    pub node: Option<NodeId>,
    /// What that node may have done.
    pub effect: Effect,
    /// Why there is no answer.
    pub why: CallFailure,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallFailure {
    /// There is no joined node behind this link.
    NoPeer,
    /// The window of the peer, or the queue of the transport, has no room now.
    Full,
    /// As many calls wait as may.
    TooMany {
        /// How many.
        limit: usize,
    },
    /// No message may be so long.
    TooLong {
        /// Bytes of header and payload.
        found: usize,
    },
    /// The time was over.
    Deadline,
    /// The caller withdrew it.
    Withdrawn,
    /// The peer refused.
    Refused,
    /// The peer is lost.
    Lost(LostCause),
}

/// Why a node that was joined is so no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostCause {
    /// The link ended.
    Ended(EndCause),
    /// Nothing came for so long: it is hung, or the network is cut.
    Silent {
        /// How long.
        ns: u64,
    },
    /// It said goodbye.
    Left,
    /// This side left.
    LeftHere,
    /// Another link to the node took its place, or another life of it.
    Replaced,
    /// It does not keep to the protocol.
    Fault(PeerFault),
}

/// What a peer did that no peer may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerFault {
    /// It sent what is no message.
    Frame(FrameError),
    /// It broke the rules of the window.
    Window(WindowFault),
    /// It sent a message that has no place here.
    OutOfTurn,
}

/// Why a node did not join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinFailure {
    /// This side refused the other, or the other this one.
    Refused {
        /// Why.
        why: JoinRefusal,
        /// Whether it is the other side's word, which nothing proves.
        is_theirs: bool,
    },
    /// The link did not come to be, or ended.
    Ended(EndCause),
    /// The time was over.
    Deadline,
    /// This side gave it up.
    Withdrawn,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "{node}: ")?,
            None => f.write_str("no node: ")?,
        }
        match self.why {
            CallFailure::NoPeer => f.write_str("not joined")?,
            CallFailure::Full => f.write_str("the window to it is full")?,
            CallFailure::TooMany { limit } => write!(f, "{limit} calls wait already")?,
            CallFailure::TooLong { found } => write!(f, "a message of {found} bytes is too long")?,
            CallFailure::Deadline => f.write_str("no answer in time")?,
            CallFailure::Withdrawn => f.write_str("withdrawn")?,
            CallFailure::Refused => f.write_str("refused")?,
            CallFailure::Lost(why) => write!(f, "lost: {why}")?,
        }
        f.write_str(match self.effect {
            Effect::NotSent => " (not sent)",
            Effect::Unknown => " (it may have taken effect)",
            Effect::Refused => " (it had no effect)",
        })
    }
}

impl std::error::Error for CallError {}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndCause::Unreachable { code } => write!(f, "unreachable ({code})"),
            EndCause::Closed => f.write_str("the link was closed"),
            EndCause::Broken { code } => write!(f, "the link broke ({code})"),
            EndCause::Malformed(what) => write!(f, "what came is no message: {what:?}"),
        }
    }
}

impl fmt::Display for JoinFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinFailure::Refused { why, is_theirs: false } => write!(f, "refused: {why}"),
            JoinFailure::Refused { why, is_theirs: true } => {
                write!(f, "refused by the other side: {why}")
            }
            JoinFailure::Ended(end) => end.fmt(f),
            JoinFailure::Deadline => f.write_str("no handshake in time"),
            JoinFailure::Withdrawn => f.write_str("withdrawn"),
        }
    }
}

impl fmt::Display for LostCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LostCause::Ended(end) => end.fmt(f),
            LostCause::Silent { ns } => write!(f, "silent for {} ms", ns / 1_000_000),
            LostCause::Left => f.write_str("it left"),
            LostCause::LeftHere => f.write_str("this node left it"),
            LostCause::Replaced => f.write_str("another link took its place"),
            LostCause::Fault(fault) => write!(f, "it broke the protocol: {fault:?}"),
        }
    }
}

impl From<FrameError> for PeerFault {
    fn from(error: FrameError) -> PeerFault {
        PeerFault::Frame(error)
    }
}

impl From<WindowFault> for PeerFault {
    fn from(fault: WindowFault) -> PeerFault {
        PeerFault::Window(fault)
    }
}

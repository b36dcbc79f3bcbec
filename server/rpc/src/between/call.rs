//! What goes between this loop and the node's thread, and what is kept of calls between nodes.

use heliostat_abi::cluster::Class;
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::peer::{FarCall, PeerAnswer, PeerMessage};
use heliostat_server_loop::OperationId;
use heliostat_server_node::{
    AskId, Asker, CallError, CallFailure, Effect, LinkId, Outcome, PeerNode,
};

use crate::served::ServedFunction;

/// A function of another node, as it was granted to the user of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct There {
    /// Which node, by which link.
    pub peer: PeerNode,
    /// What the session's user is there.
    pub user: ObjectId,
    /// What it is, by its identity there.
    pub function: ServedFunction,
    /// How urgent are the session's calls of it.
    pub class: Class,
}

/// What another node's loop tells this one.
pub struct FarAsked {
    /// Who asks.
    pub(crate) from: Asker,
    /// What.
    pub(crate) message: PeerMessage,
    /// With what.
    pub(crate) payload: Vec<u8>,
}

/// What a message of this loop was, for whoever hears of its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// A call, by the lane of its function, of so many bytes.
    Call { call: ObjectId, function: ObjectId, class: Class, cost: u64 },
    /// A reply to a call of that node, of so many bytes.
    Reply { call: ObjectId, class: Class, cost: u64 },
    /// Something short, which is said again where it found no room.
    Note(Class, PeerMessage),
}

/// The answer to a message of this loop.
pub struct FarAnswered {
    /// By which link it went.
    pub(crate) link: LinkId,
    /// What it was.
    pub(crate) what: What,
    /// The answer.
    pub(crate) answer: Result<PeerAnswer, NoAnswer>,
}

/// Why there is none, and what that says of the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoAnswer {
    /// Nothing of it has left this node.
    NotSent,
    /// The same, since too much waits already.
    Full,
    /// The same, until its time was over.
    NotSentInTime,
    /// The node was lost meanwhile.
    Lost,
    /// Nothing came in time.
    Late,
    /// The node has nobody who takes it: nothing was done.
    Refused,
    /// The answer is none.
    Broken,
}

impl What {
    /// In which class it goes: all about a call goes in one, and so in order.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Call { class, .. } | Self::Reply { class, .. } | Self::Note(class, _) => *class,
        }
    }
}

/// Where an operation on a function of another node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Away {
    /// It waits here for room on the way.
    InLane,
    /// On its way, or in line there.
    Sent(ObjectId),
    /// A server has received it.
    Received(ObjectId),
}

/// A call of this node that is there.
#[derive(Clone, Copy)]
pub(crate) struct AwayCall {
    pub id: OperationId,
    pub link: LinkId,
    pub class: Class,
    pub is_one_way: bool,
}

/// A call of another node that is in line here.
pub(crate) struct FarLine {
    pub ask: AskId,
    /// In which its reply goes.
    pub class: Class,
    pub link: LinkId,
    pub call: FarCall,
    pub payload: Vec<u8>,
    /// When nobody waits any more.
    pub deadline_ns: Option<u64>,
}

impl Away {
    pub(crate) fn is_received(&self) -> bool {
        matches!(self, Self::Received(_))
    }

    /// The call that the other node knows.
    pub(crate) fn into_call(self) -> Option<ObjectId> {
        match self {
            Self::InLane => None,
            Self::Sent(call) | Self::Received(call) => Some(call),
        }
    }
}

/// What an outcome says.
pub(crate) fn answer_of(outcome: Outcome) -> Result<PeerAnswer, NoAnswer> {
    let reply = outcome?;
    match PeerAnswer::decode(&reply.header) {
        Ok(answer) if reply.payload.is_empty() => Ok(answer),
        _ => Err(NoAnswer::Broken),
    }
}

impl From<CallError> for NoAnswer {
    fn from(error: CallError) -> Self {
        match (error.effect, error.why) {
            (Effect::NotSent, CallFailure::Full | CallFailure::TooMany { .. }) => Self::Full,
            (Effect::NotSent, CallFailure::Deadline) => Self::NotSentInTime,
            (Effect::NotSent, _) => Self::NotSent,
            (Effect::Refused, _) => Self::Refused,
            (Effect::Unknown, CallFailure::Deadline) => Self::Late,
            (Effect::Unknown, _) => Self::Lost,
        }
    }
}

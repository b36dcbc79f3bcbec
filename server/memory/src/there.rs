//! Where a handle on a region of another node leads, and how its operations get there.

use heliostat_abi::cluster::Class;
use heliostat_abi::memory::peer::{PeerAnswer, PeerHandle};
use heliostat_abi::memory::request::SERVICE;
use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{
    CallError, CallFailure, Caller, Effect, LinkId, NodeCall, Outcome, PeerNode,
};

use super::ways::Way;

/// How long an operation's part may take. A node that is hung or cut off is lost long before; this is
/// for one whose thread lives and does not answer.
const PART_NS_MAX: u64 = 10_000_000_000;

/// A region on another node, by this node's handle there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct There {
    /// Which node.
    pub peer: PeerNode,
    /// The handle there.
    pub handle: PeerHandle,
}

/// Has operations carried out on regions that live on several nodes.
pub trait Replicated: Send + Sync {
    /// Carries an operation out by a handle, which whoever gave it out knows. Never waits; `then` gets
    /// the answer once, on some thread.
    fn operate(
        &self,
        handle: PeerHandle,
        header: Vec<u8>,
        payload: Vec<u8>,
        then: Box<dyn FnOnce(Answer) + Send>,
    );
}

/// What the link of a region on several nodes begins with: no link of one node has this bit.
const REPLICATED: u64 = 1 << 63;

/// The link that stands for a region on several nodes, so that each has its own way and turn.
pub const fn replicated_link(region: u64) -> LinkId {
    LinkId(region | REPLICATED)
}

/// Whether a link stands for such a region.
pub const fn is_replicated(link: LinkId) -> bool {
    link.0 & REPLICATED != 0
}

/// Why there is no answer, and what that says of the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoAnswer {
    /// Nothing of the request has left this node.
    NotSent,
    /// The same, since too much waits already.
    Full,
    /// The node was lost meanwhile: it may have been done.
    Lost,
    /// Nothing came in time: it may have been done, or may still.
    Late,
    /// The node does not take it, or does not keep to the protocol.
    Refused,
}

/// A part's answer, with what was read.
pub type Answer = Result<(PeerAnswer, Vec<u8>), NoAnswer>;

/// A part of an operation, which is one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its first byte in the operation.
    pub at: u64,
    /// How many.
    pub bytes: u64,
}

/// The answer to a part of an operation, for the loop that has it.
pub struct Answered {
    /// Whose.
    pub(crate) session: ObjectId,
    /// Which delegation of that connection: operations of an earlier one have the same numbers.
    pub(crate) serial: u64,
    /// Which operation.
    pub(crate) operation: ObjectId,
    /// By which way it went.
    pub(crate) way: Way,
    /// Which part of it.
    pub(crate) part: Part,
    /// What its message or its answer moves.
    pub(crate) carried: u64,
    /// The answer.
    pub(crate) answer: Answer,
}

/// Sends a message to a node. Never waits. `then` gets the answer once, on some thread.
pub fn call(
    caller: &Caller,
    (peer, class): (PeerNode, Class),
    (header, payload): (Vec<u8>, Vec<u8>),
    then: impl Fn(Answer) + Clone + Send + 'static,
) {
    let deadline_ns = monotonic_ns().saturating_add(PART_NS_MAX);
    let (node, link) = (peer.node, Some(peer.link));
    let call = NodeCall { node, link, service: SERVICE, header, payload, deadline_ns };
    let told = then.clone();
    if let Err(error) = caller.call_as(class, call, move |outcome| told(answer_of(outcome))) {
        then(Err(error.into()));
    }
}

fn answer_of(outcome: Outcome) -> Answer {
    let reply = outcome?;
    let answer = PeerAnswer::decode(&reply.header).map_err(|_| NoAnswer::Refused)?;
    Ok((answer, reply.payload))
}

impl NoAnswer {
    /// What a program is told.
    pub const fn errno(self) -> i32 {
        match self {
            Self::NotSent => libc::EHOSTDOWN,
            Self::Full => libc::EAGAIN,
            Self::Lost => libc::ECONNRESET,
            Self::Late => libc::ETIMEDOUT,
            Self::Refused => libc::EREMOTEIO,
        }
    }
}

impl From<CallError> for NoAnswer {
    fn from(error: CallError) -> Self {
        match (error.effect, error.why) {
            (Effect::NotSent, CallFailure::Full | CallFailure::TooMany { .. }) => Self::Full,
            (Effect::NotSent, _) => Self::NotSent,
            (Effect::Refused, _) => Self::Refused,
            (Effect::Unknown, CallFailure::Lost(_)) => Self::Lost,
            (Effect::Unknown, _) => Self::Late,
        }
    }
}

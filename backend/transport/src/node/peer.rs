//! What a node keeps of each other node, or of who knocks.

use crate::frame::{Frame, FrameKind, Released};
use crate::greeting::Greeting;
use crate::handshake::Handshake;
use crate::identity::NodeId;
use crate::transport::Message;
use crate::window::{Incoming, Outgoing};

/// The other end of one link.
#[derive(Debug)]
pub struct Peer {
    /// Whether this side connected.
    pub is_ours: bool,
    /// What this side says of itself on this link.
    pub ours: Greeting,
    /// The node that is to be there, if the program above minds.
    pub wanted: Option<NodeId>,
    /// How far it is.
    pub stage: Stage,
    /// When the handshake has to be over.
    pub deadline_ns: u64,
    /// When something came last.
    pub heard_ns: u64,
    /// When something was sent last.
    pub said_ns: u64,
    /// Whether a sign of life waits in the transport.
    pub is_alive_queued: bool,
}

/// How far a peer is.
#[derive(Debug)]
pub enum Stage {
    /// It has not proven who it is.
    Shaking(Handshake),
    /// It has.
    Joined(Joined),
}

/// What is kept of a joined node.
#[derive(Debug)]
pub struct Joined {
    /// What it says of itself.
    pub theirs: Greeting,
    /// Requests and posts to it.
    pub requests_out: Outgoing,
    /// Replies to it.
    pub replies_out: Outgoing,
    /// Requests and posts of it.
    pub requests_in: Incoming,
    /// Replies of it.
    pub replies_in: Incoming,
    /// What something was last refused for want of.
    pub wants: Option<Want>,
}

/// What there may be no room in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// The peer's window: credit gives room.
    Window,
    /// The transport's queue: a message that leaves gives room.
    Queue,
}

impl Joined {
    /// A node that has just proven itself, with windows of `window` bytes.
    pub fn new(theirs: Greeting, window: u64) -> Joined {
        Joined {
            theirs,
            requests_out: Outgoing::new(window),
            replies_out: Outgoing::new(window),
            requests_in: Incoming::new(window),
            replies_in: Incoming::new(window),
            wants: None,
        }
    }

    /// Whether the peer may wait for credit that it was not told of.
    pub fn must_tell(&self) -> bool {
        self.requests_in.must_tell() || self.replies_in.must_tell()
    }
}

impl Peer {
    /// A message to this peer, with the credit that it has by now.
    pub fn message(
        &mut self,
        now_ns: u64,
        kind: FrameKind,
        header: &[u8],
        payload: Vec<u8>,
    ) -> Message {
        self.said_ns = now_ns;
        let released = match &mut self.stage {
            Stage::Shaking(_) => Released::default(),
            Stage::Joined(joined) => {
                Released { requests: joined.requests_in.tell(), replies: joined.replies_in.tell() }
            }
        };
        let head = Frame { kind, released, header: header.to_vec() }.encode();
        Message { head, payload }
    }
}

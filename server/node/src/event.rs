//! What the node's thread tells the daemon, and how.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::Arc;

use heliostat_abi::cluster::Class;
use heliostat_backend_transport::error::{JoinFailure, LostCause};
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::transport::NotBegun;
use heliostat_backend_transport::AskId;

use crate::call::Outcome;
use crate::service::PeerNode;

/// To the daemon.
#[derive(Debug)]
pub enum NodesEvent {
    /// A node is joined: it has proven that it belongs to the cluster.
    Joined {
        /// Which, and which life of it.
        peer: PeerNode,
        /// Whether this side connected.
        is_ours: bool,
    },
    /// An order to join did not come to that.
    NotJoined {
        /// Which node was to be joined.
        node: NodeId,
        /// Why.
        why: JoinError,
    },
    /// A joined node is so no more. Its calls have ended before this event.
    Lost {
        /// Which, and which life of it.
        peer: PeerNode,
        /// Why.
        why: LostCause,
    },
    /// How long an echo to a node took, there and back.
    RoundTrip {
        /// Which node.
        node: NodeId,
        /// How long.
        ns: u64,
    },
    /// A call of the daemon has ended.
    Answered {
        /// What the daemon called it.
        token: u64,
        /// How.
        outcome: Outcome,
    },
    /// A node asks a service that is not on this thread, or that forwards it. The bytes are foreign.
    Request {
        /// The number to answer it by, once.
        ask: AskId,
        /// Who asks.
        peer: PeerNode,
        /// Which service.
        service: u16,
        /// That service's own header.
        header: Vec<u8>,
        /// The payload.
        payload: Vec<u8>,
        /// When nobody waits for the answer any more.
        deadline_ns: u64,
        /// In which class it is served here.
        class: Class,
    },
    /// The thread has ended: told to, or since its transport broke.
    Gone,
}

/// Why an order to join did not come to that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinError {
    /// The link was not begun.
    NotBegun(NotBegun),
    /// The link ended, or its handshake did.
    Failed(JoinFailure),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::NotBegun(why) => why.fmt(f),
            JoinError::Failed(why) => why.fmt(f),
        }
    }
}

/// The end by which the node's thread tells the daemon something.
#[derive(Clone, Debug)]
pub struct NodesEvents {
    sender: Sender<NodesEvent>,
    bell: Arc<OwnedFd>,
}

impl NodesEvents {
    /// For a daemon that is woken by this bell, an eventfd that does not block.
    pub fn new(sender: Sender<NodesEvent>, bell: Arc<OwnedFd>) -> NodesEvents {
        NodesEvents { sender, bell }
    }

    /// Tells it; the daemon hears it soon.
    pub(crate) fn send(&self, event: NodesEvent) {
        // Where nobody listens any more the process is ending.
        let _ = self.sender.send(event);
        // It fails only when the counter is full, and then it rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

//! One node among others: who is joined, what was asked, and the rules between them.
//!
//! ```text
//! a peer:  shaking --proofs--> joined --goodbye, silence, fault, end of the link--> lost
//!             \--refused, ended, too late--> not joined
//! a call:  call() --> waits --> Answered
//!                          \--> Failed (refused, deadline, withdrawn, lost), once, in time
//! an ask:  Request --> reply() or refuse(); release() for a post
//! ```
//!
//! Pure but for the transport: time comes in with each call, events go out of [`Node::progress`], and
//! no call waits. A [`Driver`](crate::driver) gives a node a thread that sleeps.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use crate::address::Address;
use crate::asks::{AskId, Asks};
use crate::calls::Calls;
use crate::error::{CallError, JoinFailure, LostCause};
use crate::frame::{CallId, FrameKind};
use crate::identity::{Identity, NodeId};
use crate::limits::{NodeLimits, LINGER_NS_MAX};
use crate::transport::{
    Armed, LinkEvent, LinkId, NotBegun, NotTaken, SendToken, Transport, TransportBroken,
};

mod answer;
mod call;
mod join;
mod peer;
mod serve;
mod watch;

pub use answer::{NotReplied, ReplyFailure};
pub use call::NotCalled;
use peer::{Joined, Peer, Stage, Want};

/// What happened, in the order in which it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeEvent {
    /// A node is joined: it has proven that it belongs to the cluster.
    Joined {
        /// The link to it.
        link: LinkId,
        /// Which node.
        node: NodeId,
        /// Which life of it.
        incarnation: u64,
        /// Whether this side connected.
        is_ours: bool,
    },
    /// A [`Node::join`] failed.
    NotJoined {
        /// The link that it began.
        link: LinkId,
        /// Why.
        why: JoinFailure,
    },
    /// A joined node is so no more. Its calls have failed before this event, and what it asked is void.
    Lost {
        /// The link to it.
        link: LinkId,
        /// Which node.
        node: NodeId,
        /// Why.
        why: LostCause,
    },
    /// A node asks, or posts.
    Request {
        /// The number to answer it by, once.
        ask: AskId,
        /// The link that it came on.
        link: LinkId,
        /// Who asks.
        node: NodeId,
        /// The program's header.
        header: Vec<u8>,
        /// The payload.
        payload: Vec<u8>,
        /// When nobody waits for the answer any more.
        deadline_ns: u64,
        /// Whether it is a call; a post is released and not answered.
        wants_reply: bool,
    },
    /// Who asked wants no answer any more; the ask is still to be finished.
    Withdrawn {
        /// Its number.
        ask: AskId,
    },
    /// A call has its answer.
    Answered {
        /// Which call.
        call: CallId,
        /// Who answered.
        node: NodeId,
        /// The answer's header.
        header: Vec<u8>,
        /// The answer's payload.
        payload: Vec<u8>,
    },
    /// A call or a post has none.
    Failed {
        /// Which.
        call: CallId,
        /// Why, and what may have happened.
        error: CallError,
    },
    /// A post is out of this process.
    Posted {
        /// Which.
        call: CallId,
    },
    /// There is room again for what [`CallFailure::Full`] refused.
    Room {
        /// The link that has room.
        link: LinkId,
    },
}

/// What happened that nobody has to be told at once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NodeCounters {
    /// Links of others that ended before they were joined: strangers, wrong secrets, other versions.
    pub strangers: u64,
    /// Answers to calls that had ended.
    pub late_replies: u64,
    /// Signs of life that were sent.
    pub heartbeats: u64,
}

/// One node. See the module.
pub struct Node<T: Transport> {
    transport: T,
    me: Identity,
    limits: NodeLimits,
    peers: BTreeMap<LinkId, Peer>,
    by_node: BTreeMap<NodeId, LinkId>,
    calls: Calls,
    asks: Asks,
    /// Where the nonces of handshakes come from.
    nonces: blake3::OutputReader,
    /// When the peers are to be looked at.
    check_ns: u64,
    happened: Vec<LinkEvent>,
    events: Vec<NodeEvent>,
    counters: NodeCounters,
}

/// Messages that belong to no call.
const NO_CALL: SendToken = SendToken(u32::MAX as u64);
/// Signs of life.
const ALIVE: SendToken = SendToken(u32::MAX as u64 - 1);
/// Steps of the transport in one [`Node::progress`], so that a busy one lets others run.
const ROUNDS: usize = 16;

impl<T: Transport> Node<T> {
    /// A node that nobody is joined to. `seed` is 32 random bytes that nobody else knows.
    pub fn new(transport: T, me: Identity, limits: NodeLimits, seed: [u8; 32]) -> Node<T> {
        Node {
            transport,
            me,
            calls: Calls::new(limits.calls_max),
            limits,
            peers: BTreeMap::new(),
            by_node: BTreeMap::new(),
            asks: Asks::new(),
            nonces: blake3::Hasher::new_keyed(&seed).finalize_xof(),
            check_ns: u64::MAX,
            happened: Vec::new(),
            events: Vec::new(),
            counters: NodeCounters::default(),
        }
    }

    /// The same for a node whose transport broke and was made anew, so many times: no link, call or
    /// request has a number that one before had. It has none of these yet.
    pub fn numbered_anew(mut self, times: u32) -> Node<T> {
        let first = times.wrapping_shl(24);
        self.calls.begin_with(first);
        self.asks.begin_with(first);
        self.transport.number_links_from(u64::from(times) << 32);
        self
    }

    /// Where others join this node.
    pub fn address(&self) -> Address {
        self.transport.address()
    }

    /// The node's own number.
    pub fn node(&self) -> NodeId {
        self.me.node
    }

    /// Ends every link and every join that is under way, at once: nothing that waits to be sent is.
    pub fn drop_links(&mut self, now_ns: u64) {
        let links: Vec<_> = self.peers.keys().copied().collect();
        links.into_iter().for_each(|link| self.end_peer(now_ns, link, LostCause::LeftHere, 0));
    }

    /// Another life of this node begins: every link ends, and links from now on say so.
    pub fn begin_life(&mut self, now_ns: u64, incarnation: u64) {
        self.drop_links(now_ns);
        self.me.incarnation = incarnation;
    }

    /// Begins to join the node at `to`, which has to be `wanted` if that is given. `Joined` or
    /// `NotJoined` follows, by `deadline_ns` at the latest.
    pub fn join(
        &mut self,
        now_ns: u64,
        to: Address,
        wanted: Option<NodeId>,
        deadline_ns: u64,
    ) -> Result<LinkId, NotBegun> {
        if self.peers.len() >= self.limits.links_max {
            return Err(NotBegun::Full { limit: self.limits.links_max });
        }
        let link = self.transport.connect(now_ns, to)?;
        self.begin_join(now_ns, link, wanted, deadline_ns);
        Ok(link)
    }

    /// Leaves a peer in order: what was answered is still sent. Its calls fail. A join that is under
    /// way is withdrawn by it.
    pub fn leave(&mut self, now_ns: u64, link: LinkId) {
        if self.is_joined(link) {
            // Without room in the transport the peer sees the end of the link instead.
            let _ = self.say(now_ns, link, FrameKind::Goodbye, &[], Vec::new(), NO_CALL);
        }
        self.end_peer(now_ns, link, LostCause::LeftHere, LINGER_NS_MAX);
    }

    /// Does what can be done without waiting, and appends what happened to `events`.
    pub fn progress(
        &mut self,
        now_ns: u64,
        events: &mut Vec<NodeEvent>,
    ) -> Result<(), TransportBroken> {
        let mut happened = std::mem::take(&mut self.happened);
        let mut result = Ok(());
        for _ in 0..ROUNDS {
            result = self.transport.progress(now_ns, &mut happened);
            // What was sent calls for no other step.
            let is_more = happened.iter().any(|event| !matches!(event, LinkEvent::Sent { .. }));
            happened.drain(..).for_each(|event| self.take(now_ns, event));
            // Whoever is above has its turn before the next step, which may be in vain.
            if !is_more || !self.events.is_empty() || result.is_err() {
                break;
            }
        }
        self.happened = happened;
        self.expire_calls(now_ns);
        if now_ns >= self.check_ns {
            self.check_peers(now_ns);
        }
        events.append(&mut self.events);
        result
    }

    /// When [`Node::progress`] is due though the descriptor is not readable.
    pub fn wake_ns(&self) -> Option<u64> {
        let check_ns = Some(self.check_ns).filter(|ns| *ns != u64::MAX);
        [check_ns, self.calls.deadline_ns(), self.transport.wake_ns()].into_iter().flatten().min()
    }

    /// Prepares the descriptor for sleep. Events that were made outside of progress are not slept over.
    pub fn arm(&mut self) -> Armed {
        if self.events.is_empty() {
            self.transport.arm()
        } else {
            Armed::Again
        }
    }

    /// What becomes readable when there is something to do.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.transport.descriptor()
    }

    /// The link to a node that is joined.
    pub fn link_to(&self, node: NodeId) -> Option<LinkId> {
        self.by_node.get(&node).copied()
    }

    /// The nodes that are joined.
    pub fn joined(&self) -> impl Iterator<Item = (NodeId, LinkId)> + '_ {
        self.by_node.iter().map(|(node, link)| (*node, *link))
    }

    /// Calls and posts that wait, and asks that are open.
    pub fn waiting(&self) -> (usize, usize) {
        (self.calls.used(), self.asks.used())
    }

    /// What was counted.
    pub fn counters(&self) -> NodeCounters {
        self.counters
    }

    fn is_joined(&self, link: LinkId) -> bool {
        matches!(self.peers.get(&link), Some(Peer { stage: Stage::Joined(_), .. }))
    }

    fn joined_mut(&mut self, link: LinkId) -> Option<&mut Joined> {
        match self.peers.get_mut(&link) {
            Some(Peer { stage: Stage::Joined(joined), .. }) => Some(joined),
            _ => None,
        }
    }

    fn want(&mut self, link: LinkId, want: Want) {
        if let Some(joined) = self.joined_mut(link) {
            joined.wants = Some(want);
        }
    }

    /// Says that there is room, if somebody waits for it.
    fn offer(&mut self, link: LinkId, what: Want) {
        if let Some(joined) = self.joined_mut(link) {
            if joined.wants == Some(what) {
                joined.wants = None;
                self.events.push(NodeEvent::Room { link });
            }
        }
    }

    /// Sends a message to a peer in any stage. It carries what was released, so that credit costs no
    /// message of its own where others flow. Only the payload comes back if it was not taken.
    fn say(
        &mut self,
        now_ns: u64,
        link: LinkId,
        kind: FrameKind,
        header: &[u8],
        payload: Vec<u8>,
        token: SendToken,
    ) -> Result<(), (NotTaken, Vec<u8>)> {
        let Some(peer) = self.peers.get_mut(&link) else { return Err((NotTaken::NoLink, payload)) };
        let message = peer.message(now_ns, kind, header, payload);
        self.transport
            .send(now_ns, link, message, token)
            .map_err(|(why, message)| (why, message.payload))
    }
}

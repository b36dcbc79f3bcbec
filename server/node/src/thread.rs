//! What runs on the node's thread: orders are obeyed, peers are served, what has no room waits.
//!
//! ```text
//! order Call --> room? --yes--> node --> Answered, Failed --> its answer
//!                  \--no--> the peer's queue --Room--> again; its deadline --> failed, not sent
//! Request --> the peer's requests, within its window --its turn--> service --> reply --room?--> node
//! ```
//!
//! What may be sent of which class, and who is served next, is decided in `quality` and `turns`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use heliostat_backend_transport::driver::Program;
use heliostat_backend_transport::error::{CallFailure, LostCause};
use heliostat_backend_transport::frame::CallId;
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::node::{Node, NodeEvent};
use heliostat_backend_transport::transport::{LinkId, Transport};

use crate::event::{JoinError, NodesEvent, NodesEvents};
use crate::gate::Order;
use crate::outgoing::{Answer, Outgoing};
use crate::peer::{Asked, Peer};
use crate::quality::lanes::{Lanes, OnWay};
use crate::quality::{Quality, WayState};
use crate::service::{Hosted, PeerNode};
use crate::turns::Turns;
use fence::Fence;

mod calls;
mod fence;
mod probe;
mod requests;

/// How the ways to joined nodes are, by their numbers: what the thread tells of itself.
pub(crate) type Ways = Arc<Mutex<BTreeMap<u64, WayState>>>;
/// Services of a thread that has broken, for the next one.
pub(crate) type Kept = Arc<Mutex<Left>>;
type Calls = Lanes<Outgoing>;

/// What a thread leaves to the next one.
#[derive(Default)]
pub(crate) struct Left {
    hosted: BTreeMap<u16, Box<dyn Hosted>>,
    /// Whether a registry decides: then the next one serves nobody either before a lease is held.
    uses_registry: bool,
    /// The node's life, if it has had another than its first.
    pub(crate) incarnation: Option<u64>,
}

/// The least time between two looks at the ways: who reads them is a person.
const TELL_NS: u64 = 20_000_000;

/// The state of the thread beside its node.
pub(crate) struct Work {
    events: NodesEvents,
    quality: Quality,
    ways: Ways,
    kept: Kept,
    /// The ways are others than was told, then.
    is_changed: bool,
    told_ns: u64,
    turns: Turns,
    /// Whom joins that are under way are to reach.
    joining: BTreeMap<LinkId, NodeId>,
    peers: BTreeMap<LinkId, Peer>,
    hosted: BTreeMap<u16, Box<dyn Hosted>>,
    /// Calls that are sent, and on which link.
    sent: BTreeMap<CallId, Sent>,
    /// Echoes that are sent, and when.
    probes: BTreeMap<CallId, u64>,
    /// When the first call that waits for room may be over.
    wake_ns: Option<u64>,
    /// Nobody is told when this ends.
    is_silent: bool,
    incarnation: Option<u64>,
    fence: Fence,
}

/// A call that is sent.
struct Sent {
    link: LinkId,
    answer: Answer,
    /// What it counts for.
    on_way: Option<OnWay>,
}

impl Work {
    /// Services that an earlier thread has left are on this one.
    pub(crate) fn new(events: NodesEvents, ways: Ways, kept: Kept) -> Work {
        let left = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        let fence = Fence { is_used: left.uses_registry, ..Fence::default() };
        Work {
            events,
            quality: Quality::default(),
            ways,
            kept,
            is_changed: false,
            told_ns: 0,
            turns: Turns::default(),
            joining: BTreeMap::new(),
            peers: BTreeMap::new(),
            hosted: left.hosted,
            sent: BTreeMap::new(),
            probes: BTreeMap::new(),
            wake_ns: None,
            is_silent: false,
            incarnation: left.incarnation,
            fence,
        }
    }

    /// Ends without a word: it has never begun.
    pub(crate) fn forget(mut self) {
        self.is_silent = true;
    }

    fn joined<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        peer: PeerNode,
        ours: bool,
    ) {
        self.joining.remove(&peer.link);
        self.peers.insert(peer.link, Peer::new(peer, &self.quality));
        self.is_changed = true;
        self.events.send(NodesEvent::Joined { peer, is_ours: ours });
        self.probe(node, now_ns, peer.node);
    }

    fn not_joined(&mut self, link: LinkId, why: JoinError) {
        if let Some(node) = self.joining.remove(&link) {
            self.events.send(NodesEvent::NotJoined { node, why });
        }
    }

    fn lose(&mut self, link: LinkId, why: LostCause) {
        let Some(mut peer) = self.peers.remove(&link) else { return };
        self.turns.forget(link);
        self.is_changed = true;
        while let Some(call) = peer.calls.take_any() {
            call.fail(CallFailure::Lost(why));
        }
        self.hosted.values_mut().for_each(|service| service.lost(peer.who));
        self.events.send(NodesEvent::Lost { peer: peer.who, why });
    }

    fn join<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        (wanted, to): (NodeId, heliostat_backend_transport::address::Address),
        deadline_ns: u64,
    ) {
        match node.join(now_ns, to, Some(wanted), deadline_ns) {
            Ok(link) => {
                self.joining.insert(link, wanted);
            }
            Err(why) => {
                let why = JoinError::NotBegun(why);
                self.events.send(NodesEvent::NotJoined { node: wanted, why });
            }
        }
    }

    /// It is done so from now on, on every way.
    fn set_quality<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64, quality: Quality) {
        self.quality = quality;
        let quality = &self.quality;
        self.peers.values_mut().for_each(|peer| peer.calls.set(quality));
        let links: Vec<_> = self.peers.keys().copied().collect();
        links.into_iter().for_each(|link| self.send_waiting(node, now_ns, link));
        self.is_changed = true;
    }

    /// Tells how the ways are.
    fn tell_ways(&mut self, now_ns: u64) {
        let each = self.peers.values().map(|peer| (peer.who.node.0, peer.calls.state()));
        *self.ways.lock().unwrap_or_else(PoisonError::into_inner) = each.collect();
        (self.is_changed, self.told_ns) = (false, now_ns);
    }

    fn leave<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64, left: NodeId) {
        let joining = self.joining.iter().filter(|(_, to)| **to == left).map(|(link, _)| *link);
        let links: Vec<_> = joining.chain(node.link_to(left)).collect();
        links.into_iter().for_each(|link| node.leave(now_ns, link));
    }
}

impl<T: Transport> Program<T> for Work {
    type Command = Order;

    fn wakes(&mut self, node: &mut Node<T>, now_ns: u64) {
        self.stop_in_time(node, now_ns);
    }

    fn event(&mut self, node: &mut Node<T>, now_ns: u64, event: NodeEvent) {
        self.stop_in_time(node, now_ns);
        match event {
            NodeEvent::Joined { link, node: joined, incarnation, is_ours } => {
                let peer = PeerNode { node: joined, incarnation, link };
                self.joined(node, now_ns, peer, is_ours);
            }
            NodeEvent::NotJoined { link, why } => self.not_joined(link, JoinError::Failed(why)),
            NodeEvent::Lost { link, why, .. } => self.lose(link, why),
            NodeEvent::Request { ask, link, header, payload, deadline_ns, wants_reply, .. } => {
                let asked = Asked { ask, header, payload, deadline_ns };
                self.take(node, now_ns, link, asked, wants_reply);
            }
            NodeEvent::Answered { call, node: by, header, payload } => {
                self.answered(node, now_ns, (call, by), (header, payload));
            }
            NodeEvent::Failed { call, error } => self.failed(node, now_ns, call, error),
            NodeEvent::Room { link } => self.resume(node, now_ns, link),
            // An answer in vain is cheaper than a list of who wants none.
            NodeEvent::Withdrawn { .. } | NodeEvent::Posted { .. } => {}
        }
    }

    fn command(&mut self, node: &mut Node<T>, now_ns: u64, order: Order) {
        self.stop_in_time(node, now_ns);
        match order {
            Order::Join { node: wanted, to, deadline_ns } => {
                self.join(node, now_ns, (wanted, to), deadline_ns);
            }
            Order::Leave(left) => self.leave(node, now_ns, left),
            Order::LeaveLink(link) => node.leave(now_ns, link),
            Order::Call(call) => self.call(node, now_ns, *call),
            Order::Reply { ask, header, payload } => {
                self.reply(node, now_ns, ask, Some((header, payload)));
            }
            Order::Refuse(ask) => self.reply(node, now_ns, ask, None),
            Order::UseRegistry => self.fence.is_used = true,
            Order::Hold { until_ns } => self.hold(node, now_ns, until_ns),
            Order::Admit(link) => self.admit(node, now_ns, link),
            Order::BeginLife { incarnation } => {
                self.fence.until_ns = None;
                self.incarnation = Some(incarnation);
                node.begin_life(now_ns, incarnation);
            }
            Order::Probe(to) => self.probe(node, now_ns, to),
            Order::Host(number, service) => {
                self.hosted.insert(number, service);
            }
            Order::Quality(quality) => self.set_quality(node, now_ns, *quality),
            Order::Obey(number) => {
                self.hosted.get_mut(&number).into_iter().for_each(|service| service.obey());
            }
        }
    }

    fn wake_ns(&self) -> Option<u64> {
        [self.wake_ns, self.fence.until_ns].into_iter().flatten().min()
    }

    fn pass_time(&mut self, node: &mut Node<T>, now_ns: u64) {
        self.stop_in_time(node, now_ns);
        self.expire(now_ns);
        // What waited behind a long one may have room without it, and no credit may come to say so.
        let links: Vec<_> = self.peers.keys().copied().collect();
        links.into_iter().for_each(|link| self.send_waiting(node, now_ns, link));
    }

    fn turn(&mut self, node: &mut Node<T>, now_ns: u64) -> bool {
        let goes_on = self.serve_turns(node, now_ns);
        if self.is_changed && (!goes_on || now_ns.saturating_sub(self.told_ns) >= TELL_NS) {
            self.tell_ways(now_ns);
        }
        goes_on
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // A later thread has the services again; peers are lost to them.
        let peers: Vec<_> = self.peers.values().map(|peer| peer.who).collect();
        for service in self.hosted.values_mut() {
            peers.iter().for_each(|peer| service.lost(*peer));
        }
        let left = Left {
            hosted: std::mem::take(&mut self.hosted),
            uses_registry: self.fence.is_used,
            incarnation: self.incarnation,
        };
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = left;
        self.ways.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if !self.is_silent {
            self.events.send(NodesEvent::Gone);
        }
    }
}

//! What runs on the node's thread: orders are obeyed, peers are served, what has no room waits.
//!
//! ```text
//! order Call --> room? --yes--> node --> Answered, Failed --> its answer
//!                  \--no--> the peer's queue --Room--> again; its deadline --> failed, not sent
//! Request --> answers wait? --no--> service --> reply --room?--> node
//!                  \--yes--> the peer's requests, within its window
//! ```

use std::collections::BTreeMap;

use heliostat_backend_transport::driver::Program;
use heliostat_backend_transport::error::{CallFailure, LostCause};
use heliostat_backend_transport::frame::CallId;
use heliostat_backend_transport::identity::NodeId;
use heliostat_backend_transport::node::{Node, NodeEvent};
use heliostat_backend_transport::transport::{LinkId, Transport};

use crate::event::{JoinError, NodesEvent, NodesEvents};
use crate::gate::Order;
use crate::outgoing::Answer;
use crate::peer::{Asked, Peer};
use crate::service::{Hosted, PeerNode};
use fence::Fence;

mod calls;
mod fence;
mod probe;
mod requests;

/// The state of the thread beside its node.
pub(crate) struct Work {
    events: NodesEvents,
    /// Whom joins that are under way are to reach.
    joining: BTreeMap<LinkId, NodeId>,
    peers: BTreeMap<LinkId, Peer>,
    hosted: BTreeMap<u16, Box<dyn Hosted>>,
    /// Calls that are sent, and on which link.
    sent: BTreeMap<CallId, (LinkId, Answer)>,
    /// Echoes that are sent, and when.
    probes: BTreeMap<CallId, u64>,
    /// When the first call that waits for room may be over.
    wake_ns: Option<u64>,
    fence: Fence,
}

impl Work {
    pub(crate) fn new(events: NodesEvents) -> Work {
        Work {
            events,
            joining: BTreeMap::new(),
            peers: BTreeMap::new(),
            hosted: BTreeMap::new(),
            sent: BTreeMap::new(),
            probes: BTreeMap::new(),
            wake_ns: None,
            fence: Fence::default(),
        }
    }

    fn joined<T: Transport>(
        &mut self,
        node: &mut Node<T>,
        now_ns: u64,
        peer: PeerNode,
        ours: bool,
    ) {
        self.joining.remove(&peer.link);
        self.peers.insert(peer.link, Peer::new(peer));
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
        while let Some(call) = peer.next_call() {
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
                self.answered(call, by, header, payload);
            }
            NodeEvent::Failed { call, error } => self.failed(call, error),
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
                node.begin_life(now_ns, incarnation);
            }
            Order::Probe(to) => self.probe(node, now_ns, to),
            Order::Host(number, service) => {
                self.hosted.insert(number, service);
            }
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
}

impl Drop for Work {
    fn drop(&mut self) {
        self.events.send(NodesEvent::Gone);
    }
}

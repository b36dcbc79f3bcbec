//! Two nodes where a registry decides: nothing is served before both are members, nor after the lease.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::Duration;

use heliostat_backend_transport::tcp::Tcp;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::header::REGISTRY;
use heliostat_server_node::{
    Asker, Effect, Identity, LinkId, NodeCall, NodeId, NodeLimits, Nodes, NodesEvent, NodesEvents,
    Outcome, PeerNode, Peers, Secret, Served, Transport,
};
use rustix::event::{eventfd, EventfdFlags};

/// Longer than anything here takes; only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(60);
const SECOND_NS: u64 = 1_000_000_000;
const SERVICE: u16 = 5;

struct Echoes;

impl Peers for Echoes {
    type Order = ();

    fn request(&mut self, _: Asker, header: &[u8], payload: &[u8]) -> Served {
        Served::Reply { header: header.to_vec(), payload: payload.to_vec() }
    }

    fn order(&mut self, (): ()) {}

    fn lost(&mut self, _: PeerNode) {}
}

struct Station {
    nodes: Nodes,
    events: Receiver<NodesEvent>,
    _bell: Arc<OwnedFd>,
}

impl Station {
    fn start(node: u64) -> Station {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).expect("a bell"));
        let (sender, events) = channel();
        let secret = Secret::new([3; 32]);
        let identity = Identity { node: NodeId(node), incarnation: 7, secret };
        let listen = || {
            let tcp = Tcp::listen("127.0.0.1:0".parse().expect("an address"));
            tcp.map(|tcp| Box::new(tcp) as Box<dyn Transport>)
        };
        let told = NodesEvents::new(sender, bell.clone());
        let nodes = Nodes::start(identity, NodeLimits::default(), told, listen);
        let Ok(nodes) = nodes else { panic!("no node") };
        nodes.host(SERVICE, Echoes);
        nodes.host(REGISTRY, Echoes);
        Station { nodes, events, _bell: bell }
    }

    fn joined(&self) -> PeerNode {
        loop {
            if let NodesEvent::Joined { peer, .. } = self.events.recv_timeout(WATCHDOG).unwrap() {
                return peer;
            }
        }
    }

    fn lost(&self) -> PeerNode {
        loop {
            if let NodesEvent::Lost { peer, .. } = self.events.recv_timeout(WATCHDOG).unwrap() {
                return peer;
            }
        }
    }

    fn call(&self, node: u64, service: u16, ns: u64) -> Receiver<Outcome> {
        let (sender, outcome) = channel();
        let deadline_ns = monotonic_ns() + ns;
        let (node, link) = (NodeId(node), None);
        let (header, payload) = (b"h".to_vec(), b"p".to_vec());
        let call = NodeCall { node, link, service, header, payload, deadline_ns };
        let then = move |outcome| drop(sender.send(outcome));
        self.nodes.caller().call(call, then).expect("it is begun");
        outcome
    }
}

fn pair() -> (Station, Station, LinkId, LinkId) {
    let (one, two) = (Station::start(1), Station::start(2));
    one.nodes.use_registry();
    two.nodes.use_registry();
    one.nodes.join(NodeId(2), two.nodes.address(), monotonic_ns() + 30 * SECOND_NS);
    let (to_two, to_one) = (one.joined().link, two.joined().link);
    (one, two, to_two, to_one)
}

fn is_answered(outcome: &Receiver<Outcome>) -> bool {
    outcome.recv_timeout(WATCHDOG).unwrap().is_ok()
}

#[test]
fn what_is_asked_before_both_are_members_waits_but_for_the_registry() {
    let (one, two, to_two, to_one) = pair();
    let early = one.call(2, SERVICE, 30 * SECOND_NS).recv_timeout(WATCHDOG).unwrap();
    assert_eq!(early.unwrap_err().effect, Effect::NotSent, "this node is no member");
    assert!(is_answered(&one.call(2, REGISTRY, 30 * SECOND_NS)));
    one.nodes.hold(monotonic_ns() + 300 * SECOND_NS);
    one.nodes.admit(to_two);
    // This side believes the other; that one believes nobody yet.
    let waits = one.call(2, SERVICE, 60 * SECOND_NS);
    assert!(is_answered(&one.call(2, REGISTRY, 30 * SECOND_NS)), "it passes what waits");
    assert!(waits.try_recv().is_err());
    two.nodes.hold(monotonic_ns() + 300 * SECOND_NS);
    assert!(is_answered(&one.call(2, REGISTRY, 30 * SECOND_NS)));
    assert!(waits.try_recv().is_err(), "a lease alone admits nobody");
    two.nodes.admit(to_one);
    assert!(is_answered(&waits));
    assert!(is_answered(&two.call(1, SERVICE, 30 * SECOND_NS)));
}

#[test]
fn at_the_end_of_the_lease_the_thread_ends_its_links_by_itself_and_a_later_life_joins_anew() {
    let (one, two, to_two, to_one) = pair();
    two.nodes.hold(monotonic_ns() + 300 * SECOND_NS);
    two.nodes.admit(to_one);
    let until_ns = monotonic_ns() + SECOND_NS / 2;
    one.nodes.hold(until_ns);
    one.nodes.admit(to_two);
    assert_eq!(one.lost().node, NodeId(2));
    assert!(monotonic_ns() >= until_ns, "not before");
    assert_eq!(two.lost().incarnation, 7);
    one.nodes.begin_life(8);
    one.nodes.join(NodeId(2), two.nodes.address(), monotonic_ns() + 30 * SECOND_NS);
    one.joined();
    assert_eq!(two.joined().incarnation, 8);
    let outcome = one.call(2, SERVICE, 30 * SECOND_NS).recv_timeout(WATCHDOG).unwrap();
    assert_eq!(outcome.unwrap_err().effect, Effect::NotSent, "no lease is held");
}

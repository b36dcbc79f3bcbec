//! The registry that one node keeps for another, over TCP on loopback: it does what every registry does.

#[path = "../../../backend/registry/tests/support/mod.rs"]
mod support;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_backend_registry::{Limits, Operation, Outcome, Registry, SharedStore, Why};
use heliostat_backend_transport::tcp::Tcp;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{
    Asker, Identity, NodeId, NodeLimits, Nodes, NodesEvent, NodesEvents, PeerNode, Peers, Secret,
    Served, Transport,
};
use heliostat_server_registry::{Host, HostOrder, Remote, SERVICE};
use rustix::event::{eventfd, EventfdFlags};
use support::{conforms, key, put, User};

struct Station {
    nodes: Nodes,
    events: Receiver<NodesEvent>,
    _bell: Arc<OwnedFd>,
}

impl Station {
    fn start(node: u64) -> Station {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let (sender, events) = channel();
        let secret = Secret::new([3; 32]);
        let identity = Identity { node: NodeId(node), incarnation: 7, secret };
        let listen = || {
            let tcp = Tcp::listen("127.0.0.1:0".parse().unwrap());
            tcp.map(|tcp| Box::new(tcp) as Box<dyn Transport>)
        };
        let told = NodesEvents::new(sender, bell.clone());
        let Ok(nodes) = Nodes::start(identity, NodeLimits::default(), told, listen) else {
            panic!("no node")
        };
        Station { nodes, events, _bell: bell }
    }

    fn await_joined(&self) {
        loop {
            let event = self.events.recv_timeout(Duration::from_secs(60)).unwrap();
            if matches!(event, NodesEvent::Joined { .. }) {
                return;
            }
        }
    }

    fn user(&self, node: u64) -> User {
        User::new(Remote::new(self.nodes.caller(), node, Arc::new(|| {})))
    }
}

/// A host, and as many nodes as there are users: a lease is of a node.
struct Cluster {
    host: Station,
    others: Vec<Station>,
    store: SharedStore,
}

impl Cluster {
    fn start() -> Cluster {
        let (host, store) = (Station::start(1), SharedStore::new(0, Limits::default()));
        let served = Host::new(store.clone(), host.nodes.replies(), Arc::new(|| {}));
        let orders = host.nodes.host(SERVICE, served);
        // What the control plane does: leases end by time alone, and whoever watches is told.
        let ends = store.clone();
        std::thread::spawn(move || loop {
            std::thread::sleep(Duration::from_millis(10));
            ends.lock().pass_time(monotonic_ns());
            if !orders.send(HostOrder::Look) {
                return;
            }
        });
        Cluster { host, others: Vec::new(), store }
    }

    fn user(&mut self) -> User {
        let other = Station::start(self.others.len() as u64 + 2);
        let to = self.host.nodes.address();
        other.nodes.join(NodeId(1), to, monotonic_ns() + 30_000_000_000);
        other.await_joined();
        let user = other.user(1);
        self.others.push(other);
        user
    }
}

#[test]
fn it_conforms() {
    let mut cluster = Cluster::start();
    conforms(|| cluster.user());
    assert!(!cluster.store.lock().is_empty());
}

#[test]
fn a_node_that_is_not_there_or_keeps_none_has_done_nothing() {
    let mut cluster = Cluster::start();
    let _user = cluster.user();
    let mut far = cluster.others[0].user(9);
    let outcome = far.ask(Operation::Write(put("a", 0, "x")));
    assert!(matches!(outcome, Outcome::NotDone(Why::Unreachable(_))), "{outcome:?}");
    // The host asks back: that node keeps nothing.
    let mut back = cluster.host.user(2);
    let outcome = back.ask_for(Operation::Get { key: key("a") }, 1_000_000_000);
    assert!(matches!(outcome, Outcome::NotDone(Why::Unreachable(_))), "{outcome:?}");
}

/// Says to each watch at once that nothing has changed, and counts them.
struct Restless(Arc<AtomicUsize>);

impl Peers for Restless {
    type Order = ();

    fn request(&mut self, _: Asker, _: &[u8], _: &[u8]) -> Served {
        self.0.fetch_add(1, Ordering::Relaxed);
        // 8: no changes, up to revision 0.
        let payload = [&[8][..], &[0; 16]].concat();
        Served::Reply { header: Vec::new(), payload }
    }

    fn order(&mut self, (): ()) {}

    fn lost(&mut self, _: PeerNode) {}
}

#[test]
fn a_node_that_answers_watches_with_nothing_is_not_asked_as_fast_as_it_answers() {
    let (host, asked) = (Station::start(1), Arc::new(AtomicUsize::new(0)));
    host.nodes.host(SERVICE, Restless(asked.clone()));
    let other = Station::start(2);
    other.nodes.join(NodeId(1), host.nodes.address(), monotonic_ns() + 30_000_000_000);
    other.await_joined();
    let mut remote = Remote::new(other.nodes.caller(), 1, Arc::new(|| {}));
    remote.watch(key("a"), 0).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) || asked.load(Ordering::Relaxed) < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is asked again");
        assert!(remote.next_event(monotonic_ns()).is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    let pauses = begun.elapsed().as_millis() as usize / 200;
    assert!(asked.load(Ordering::Relaxed) <= pauses + 2, "{asked:?} in {pauses} pauses");
}

//! The registry that one node keeps for another, over TCP on loopback: it does what every registry does.

#[path = "../../../backend/registry/tests/support/mod.rs"]
mod support;

use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::Duration;

use heliostat_backend_registry::{Limits, Operation, Outcome, SharedStore, Why};
use heliostat_backend_transport::tcp::Tcp;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{
    Identity, NodeId, NodeLimits, Nodes, NodesEvent, NodesEvents, Secret, Transport,
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

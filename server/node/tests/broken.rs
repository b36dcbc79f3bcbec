//! A node whose transport breaks, and which is started anew: services, callers and numbers.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::Duration;

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::tcp::Tcp;
use heliostat_backend_transport::transport::{
    Armed, LinkEvent, Message, NotBegun, NotTaken, SendToken, TransportBroken, TransportKind,
};
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{
    Asker, CallFailure, Identity, LinkId, NodeCall, NodeId, NodeLimits, Nodes, NodesEvent,
    NodesEvents, Outcome, PeerNode, Peers, Secret, Served, Transport,
};
use rustix::event::{eventfd, EventfdFlags};

/// Longer than anything here takes; only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(60);
const PATIENCE_NS: u64 = 30_000_000_000;
const COUNTER: u16 = 5;

/// TCP that breaks when it is told to.
struct Breakable(Tcp, Arc<AtomicBool>);

impl Transport for Breakable {
    fn kind(&self) -> TransportKind {
        self.0.kind()
    }

    fn address(&self) -> Address {
        self.0.address()
    }

    fn number_links_from(&mut self, last: u64) {
        self.0.number_links_from(last);
    }

    fn connect(&mut self, now_ns: u64, to: Address) -> Result<LinkId, NotBegun> {
        self.0.connect(now_ns, to)
    }

    fn send(
        &mut self,
        now_ns: u64,
        link: LinkId,
        message: Message,
        token: SendToken,
    ) -> Result<(), (NotTaken, Message)> {
        self.0.send(now_ns, link, message, token)
    }

    fn admit(&mut self, link: LinkId) {
        self.0.admit(link);
    }

    fn close(&mut self, now_ns: u64, link: LinkId, linger_ns: u64) {
        self.0.close(now_ns, link, linger_ns);
    }

    fn progress(
        &mut self,
        now_ns: u64,
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), TransportBroken> {
        match self.1.swap(false, Ordering::Relaxed) {
            true => Err(TransportBroken { code: 5 }),
            false => self.0.progress(now_ns, events),
        }
    }

    fn wake_ns(&self) -> Option<u64> {
        self.0.wake_ns()
    }

    fn arm(&mut self) -> Armed {
        self.0.arm()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }
}

struct Station {
    nodes: Nodes,
    events: Receiver<NodesEvent>,
    breaks: Arc<AtomicBool>,
    _bell: Arc<OwnedFd>,
}

fn listen(breaks: Arc<AtomicBool>) -> impl FnOnce() -> std::io::Result<Box<dyn Transport>> + Send {
    move || {
        let tcp = Tcp::listen("127.0.0.1:0".parse().expect("an address"))?;
        Ok(Box::new(Breakable(tcp, breaks)))
    }
}

impl Station {
    fn start(node: u64) -> Station {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).expect("a bell"));
        let (sender, events) = channel();
        let identity =
            Identity { node: NodeId(node), incarnation: 7, secret: Secret::new([3; 32]) };
        let told = NodesEvents::new(sender, bell.clone());
        let breaks = Arc::new(AtomicBool::new(false));
        let nodes = Nodes::start(identity, NodeLimits::default(), told, listen(breaks.clone()));
        let Ok(nodes) = nodes else { panic!("no node") };
        Station { nodes, events, breaks, _bell: bell }
    }

    fn await_event<T>(&self, meant: impl Fn(NodesEvent) -> Option<T>) -> T {
        loop {
            let event = self.events.recv_timeout(WATCHDOG).expect("it happens");
            if let Some(found) = meant(event) {
                return found;
            }
        }
    }

    fn join(&self, other: &Station, number: u64) -> PeerNode {
        self.nodes.join(NodeId(number), other.nodes.address(), monotonic_ns() + PATIENCE_NS);
        let joined = |event| match event {
            NodesEvent::Joined { peer, .. } => Some(peer),
            _ => None,
        };
        other.await_event(joined);
        self.await_event(joined)
    }

    fn call(&self, token: u64) -> Outcome {
        let call = NodeCall {
            node: NodeId(2),
            link: None,
            service: COUNTER,
            header: Vec::new(),
            payload: Vec::new(),
            deadline_ns: monotonic_ns() + PATIENCE_NS,
        };
        self.nodes.call(token, call)?;
        self.await_event(|event| match event {
            NodesEvent::Answered { token: its, outcome } if its == token => Some(outcome),
            _ => None,
        })
    }
}

/// Says how often it was asked, and which peers it has lost.
struct Counter(u64, std::sync::mpsc::Sender<PeerNode>);

impl Peers for Counter {
    type Order = u64;

    fn request(&mut self, _: Asker, _: &[u8], _: &[u8]) -> Served {
        self.0 += 1;
        Served::Reply { header: Vec::new(), payload: self.0.to_le_bytes().to_vec() }
    }

    fn order(&mut self, order: u64) {
        self.0 = order;
    }

    fn lost(&mut self, peer: PeerNode) {
        // A test that does not listen is over.
        let _ = self.1.send(peer);
    }
}

fn number(outcome: Outcome) -> u64 {
    let payload = outcome.expect("answered").payload;
    u64::from_le_bytes(payload.try_into().expect("eight bytes"))
}

#[test]
fn a_node_that_is_started_anew_has_its_services_and_no_number_twice() {
    let (one, mut two) = (Station::start(1), Station::start(2));
    let (lost, is_lost) = channel();
    let orders = two.nodes.host(COUNTER, Counter(0, lost));
    let before = one.join(&two, 2);
    assert_eq!((number(one.call(1)), number(one.call(2))), (1, 2));
    let breaks = two.breaks.clone();
    // While it runs there is nothing to start.
    two.nodes.start_again(listen(breaks.clone())).expect("it runs");
    breaks.store(true, Ordering::Relaxed);
    two.nodes.probe(NodeId(1));
    two.await_event(|event| matches!(event, NodesEvent::Gone).then_some(()));
    let theirs = is_lost.recv_timeout(WATCHDOG).expect("the service has lost its peer");
    one.await_event(|event| matches!(event, NodesEvent::Lost { .. }).then_some(()));
    assert_eq!(one.call(3).expect_err("nobody").why, CallFailure::NoPeer);
    two.nodes.start_again(listen(breaks)).expect("it starts");
    let after = one.join(&two, 2);
    assert_ne!(before.link, after.link);
    assert_eq!(number(one.call(4)), 3, "the service goes on where it was");
    assert!(orders.send(40));
    assert_eq!(number(one.call(5)), 41, "and obeys");
    // The side that broke: links of its own have other numbers too.
    two.nodes.leave(NodeId(1));
    let again = is_lost.recv_timeout(WATCHDOG).expect("it is lost");
    assert!(again.link > theirs.link && again.link.0 > u64::from(u32::MAX), "{again:?}");
}

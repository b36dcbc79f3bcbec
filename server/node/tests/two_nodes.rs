//! Two nodes in one process, over TCP on loopback: services call each other, and every call ends once.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::Duration;

use heliostat_backend_transport::tcp::Tcp;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::limits::CALLS_PER_CALLER_MAX;
use heliostat_server_node::{
    Asker, CallFailure, Effect, Identity, LinkId, LostCause, NodeCall, NodeId, NodeLimits,
    NodeReply, Nodes, NodesEvent, NodesEvents, Outcome, PeerNode, Peers, Secret, Served,
    PAYLOAD_BYTES_MAX,
};
use rustix::event::{eventfd, EventfdFlags};

/// Longer than anything here takes; only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(60);
const PATIENCE_NS: u64 = 30_000_000_000;
const TABLE: u16 = 5;
const NOBODYS: u16 = 9;

struct Station {
    nodes: Nodes,
    events: Receiver<NodesEvent>,
    _bell: Arc<OwnedFd>,
}

impl Station {
    fn start(node: u64) -> Station {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).expect("a bell"));
        let (sender, events) = channel();
        let identity =
            Identity { node: NodeId(node), incarnation: 7, secret: Secret::new([3; 32]) };
        let listen = || {
            let tcp = Tcp::listen("127.0.0.1:0".parse().expect("an address"));
            tcp.map(|tcp| Box::new(tcp) as Box<dyn heliostat_server_node::Transport>)
        };
        let events_end = NodesEvents::new(sender, bell.clone());
        let nodes = Nodes::start(identity, NodeLimits::default(), events_end, listen);
        let Ok(nodes) = nodes else { panic!("no node") };
        Station { nodes, events, _bell: bell }
    }

    /// The first event that is meant; others are passed over.
    fn await_event<T>(&self, meant: impl Fn(NodesEvent) -> Option<T>) -> T {
        loop {
            let event = self.events.recv_timeout(WATCHDOG).expect("it happens");
            if let Some(found) = meant(event) {
                return found;
            }
        }
    }

    fn join(&self, other: &Station, number: u64) {
        self.nodes.join(NodeId(number), other.nodes.address(), monotonic_ns() + PATIENCE_NS);
        self.await_event(|event| matches!(event, NodesEvent::Joined { .. }).then_some(()));
        other.await_event(|event| matches!(event, NodesEvent::Joined { .. }).then_some(()));
    }

    fn outcome(&self, wanted: u64) -> Outcome {
        self.await_event(|event| match event {
            NodesEvent::Answered { token, outcome } if token == wanted => Some(outcome),
            _ => None,
        })
    }
}

fn call(node: u64, service: u16, header: &[u8], payload: &[u8]) -> NodeCall {
    NodeCall {
        node: NodeId(node),
        link: None,
        service,
        header: header.to_vec(),
        payload: payload.to_vec(),
        deadline_ns: monotonic_ns() + PATIENCE_NS,
    }
}

/// A word that peers read and others set.
struct Word(Vec<u8>, std::sync::mpsc::Sender<PeerNode>);

impl Peers for Word {
    type Order = Vec<u8>;

    fn request(&mut self, _: Asker, header: &[u8], _: &[u8]) -> Served {
        match header {
            b"read" => Served::Reply { header: b"word".to_vec(), payload: self.0.clone() },
            b"large" => Served::Reply { header: Vec::new(), payload: vec![1; PAYLOAD_BYTES_MAX] },
            b"too long" => Served::Reply { header: vec![0; 4096], payload: Vec::new() },
            b"forward" => Served::Forward,
            b"never" => Served::Later,
            _ => Served::Refuse,
        }
    }

    fn order(&mut self, order: Vec<u8>) {
        self.0 = order;
    }

    fn lost(&mut self, peer: PeerNode) {
        // A test that does not listen is over.
        let _ = self.1.send(peer);
    }
}

fn two() -> (Station, Station, Receiver<PeerNode>) {
    let (one, two) = (Station::start(1), Station::start(2));
    let (lost, is_lost) = channel();
    let orders = two.nodes.host(TABLE, Word(b"first".to_vec(), lost));
    one.join(&two, 2);
    assert!(orders.send(b"second".to_vec()));
    (one, two, is_lost)
}

#[test]
fn a_service_on_the_thread_answers_and_obeys_orders_first() {
    let (one, _two, _) = two();
    one.nodes.call(1, call(2, TABLE, b"read", b"")).expect("made");
    let NodeReply { link, header, payload } = one.outcome(1).expect("answered");
    assert_eq!((header, payload), (b"word".to_vec(), b"second".to_vec()));
    // By that link, and by no other.
    one.nodes.call(1, NodeCall { link: Some(link), ..call(2, TABLE, b"read", b"") }).expect("made");
    assert!(one.outcome(1).is_ok());
    let other = Some(LinkId(link.0 + 100));
    one.nodes.call(1, NodeCall { link: other, ..call(2, TABLE, b"read", b"") }).expect("made");
    assert_eq!(one.outcome(1).expect_err("another link").why, CallFailure::NoPeer);
    one.nodes.call(2, call(2, TABLE, b"what", b"")).expect("made");
    let error = one.outcome(2).expect_err("refused");
    assert_eq!((error.effect, error.why), (Effect::Refused, CallFailure::Refused));
}

#[test]
fn an_answer_that_is_too_long_is_a_refusal() {
    let (one, _two, _) = two();
    one.nodes.call(1, call(2, TABLE, b"too long", b"")).expect("made");
    assert_eq!(one.outcome(1).expect_err("refused").effect, Effect::Refused);
}

#[test]
fn what_no_service_takes_is_the_daemons() {
    let (one, two, _) = two();
    for (token, service, header) in [(1, NOBODYS, "any"), (2, TABLE, "forward")] {
        one.nodes.call(token, call(2, service, header.as_bytes(), b"body")).expect("made");
        let (ask, who, found) = two.await_event(|event| match event {
            NodesEvent::Request { ask, peer, service, header, payload, .. } => {
                Some((ask, peer, (service, header, payload)))
            }
            _ => None,
        });
        assert_eq!((who.node, who.incarnation), (NodeId(1), 7));
        assert_eq!(found, (service, header.as_bytes().to_vec(), b"body".to_vec()));
        two.nodes.replies().reply(ask, b"yes".to_vec(), b"done".to_vec());
        let NodeReply { header, payload, .. } = one.outcome(token).expect("answered");
        assert_eq!((header, payload), (b"yes".to_vec(), b"done".to_vec()));
        // An ask is answered once.
        two.nodes.replies().refuse(ask);
    }
}

#[test]
fn a_thread_of_its_own_calls_by_a_caller_and_many_large_answers_all_come() {
    let (one, _two, _) = two();
    let caller = one.nodes.caller();
    let (done, outcomes) = channel();
    // Eight windows' worth: they wait in the caller's queue, and in the peer's.
    for _ in 0..16 {
        let done = done.clone();
        let then =
            move |outcome: Outcome| done.send(outcome.map(|it| it.payload.len())).expect("waits");
        caller.call(call(2, TABLE, b"large", b""), then).expect("made");
    }
    for _ in 0..16 {
        assert_eq!(outcomes.recv_timeout(WATCHDOG).expect("it ends"), Ok(PAYLOAD_BYTES_MAX));
    }
    assert_eq!(caller.waiting(), 0);
}

#[test]
fn a_caller_has_a_limit_and_its_calls_end_at_their_deadline() {
    let (one, _two, _) = two();
    let caller = one.nodes.caller();
    let (done, outcomes) = channel();
    let deadline_ns = monotonic_ns() + 300_000_000;
    let made = (0..=CALLS_PER_CALLER_MAX).map(|_| {
        let done = done.clone();
        let never = NodeCall { deadline_ns, ..call(2, TABLE, b"never", b"") };
        caller.call(never, move |outcome| done.send(outcome).expect("waits"))
    });
    let refused = made.filter_map(Result::err).collect::<Vec<_>>();
    assert!(refused.iter().all(|error| error.effect == Effect::NotSent));
    let limit = CALLS_PER_CALLER_MAX;
    assert!(refused.iter().all(|error| error.why == CallFailure::TooMany { limit }));
    for _ in 0..=CALLS_PER_CALLER_MAX - refused.len() {
        let error = outcomes.recv_timeout(WATCHDOG).expect("it ends").expect_err("nobody answers");
        assert_eq!(error.why, CallFailure::Deadline);
    }
    assert_eq!(caller.waiting(), 0);
}

#[test]
fn calls_without_room_wait_in_order_and_end_unsent_at_their_deadline() {
    let (one, _two, _) = two();
    // Not quite half of the window: the echo of a new peer may be in it as well.
    let large = vec![0; PAYLOAD_BYTES_MAX - (64 << 10)];
    let deadline_ns = monotonic_ns() + 400_000_000;
    // Two fill the window, since nobody answers them; two wait behind them, and no more may.
    for token in 0..6 {
        let never = NodeCall { deadline_ns, ..call(2, TABLE, b"never", &large) };
        one.nodes.call(token, never).expect("made");
    }
    let mut ends = std::collections::BTreeMap::new();
    while ends.len() < 6 {
        let (token, outcome) = one.await_event(|event| match event {
            NodesEvent::Answered { token, outcome } => Some((token, outcome)),
            _ => None,
        });
        ends.insert(token, outcome.map_err(|error| (error.effect, error.why)));
    }
    let (sent, unsent) = (Effect::Unknown, Effect::NotSent);
    let found: Vec<_> = ends.into_values().map(|it| it.expect_err("no answer")).collect();
    let late = CallFailure::Deadline;
    assert_eq!(found[..4], [(sent, late), (sent, late), (unsent, late), (unsent, late)]);
    assert_eq!(found[4..], [(unsent, CallFailure::Full); 2]);
}

#[test]
fn a_call_that_waits_behind_a_long_one_is_sent_when_that_is_over() {
    let (one, _two, _) = two();
    let half = vec![0; PAYLOAD_BYTES_MAX - (64 << 10)];
    let soon_ns = monotonic_ns() + 300_000_000;
    // Never answered, so that nothing of the window is given back; then one that has no room, for a while.
    for token in 0..2 {
        one.nodes.call(token, call(2, TABLE, b"never", &half)).expect("made");
    }
    let long = NodeCall { deadline_ns: soon_ns, ..call(2, TABLE, b"never", &half) };
    one.nodes.call(2, long).expect("made");
    one.nodes.call(3, call(2, TABLE, b"read", b"")).expect("made");
    let outcomes = [one.outcome(2), one.outcome(3)];
    assert_eq!(outcomes[0].as_ref().expect_err("no room").effect, Effect::NotSent);
    assert!(outcomes[1].is_ok(), "{outcomes:?}");
}

#[test]
fn a_node_that_ends_leaves_and_everything_that_waits_ends() {
    let (one, two, is_lost) = two();
    let caller = two.nodes.caller();
    let (done, outcomes) = channel();
    let then = move |outcome: Outcome| done.send(outcome).expect("waits");
    // Service 5 is not hosted by node 1, and its daemon does not answer.
    caller.call(call(1, TABLE, b"never", b""), then).expect("made");
    one.await_event(|event| matches!(event, NodesEvent::Request { .. }).then_some(()));
    drop(one);
    let why = two.await_event(|event| match event {
        NodesEvent::Lost { why, .. } => Some(why),
        _ => None,
    });
    assert_eq!(why, LostCause::Left);
    let error = outcomes.recv_timeout(WATCHDOG).expect("it ends").expect_err("no answer");
    assert_eq!((error.effect, error.why), (Effect::Unknown, CallFailure::Lost(LostCause::Left)));
    assert_eq!(is_lost.recv_timeout(WATCHDOG).expect("told").node, NodeId(1));
    drop(two);
    let error = caller.call(call(1, TABLE, b"read", b""), |_| ()).expect_err("closed");
    assert_eq!((error.effect, error.why), (Effect::NotSent, CallFailure::NoPeer));
}

#[test]
fn a_node_that_is_left_may_be_joined_again_and_its_distance_is_told() {
    let (one, two, _) = two();
    let ns = one.await_event(|event| match event {
        NodesEvent::RoundTrip { node: NodeId(2), ns } => Some(ns),
        _ => None,
    });
    assert!(ns > 0);
    one.nodes.leave(NodeId(2));
    let lost = |event| match event {
        NodesEvent::Lost { why, .. } => Some(why),
        _ => None,
    };
    assert_eq!(one.await_event(lost), LostCause::LeftHere);
    assert_eq!(two.await_event(lost), LostCause::Left);
    one.nodes.call(1, call(2, TABLE, b"read", b"")).expect("made");
    assert_eq!(one.outcome(1).expect_err("not joined").why, CallFailure::NoPeer);
    one.join(&two, 2);
    one.nodes.call(2, call(2, TABLE, b"read", b"")).expect("made");
    assert!(one.outcome(2).is_ok());
}

#[test]
fn a_link_that_is_left_is_that_one_and_no_later_one() {
    let (one, two, _) = two();
    let link = |token| {
        one.nodes.call(token, call(2, TABLE, b"read", b"")).expect("made");
        one.outcome(token).expect("joined").link
    };
    let before = link(1);
    one.join(&two, 2);
    let now = link(2);
    assert_ne!(before, now, "a newer link of the same side takes the place of the other");
    one.nodes.leave_link(before);
    assert_eq!(link(3), now);
    one.nodes.leave_link(now);
    let why = one.await_event(|event| match event {
        NodesEvent::Lost { peer, why } if peer.link == now => Some(why),
        _ => None,
    });
    assert_eq!(why, LostCause::LeftHere);
}

//! Any bytes of a stranger, and any messages of a joined node: read or refused, and nothing is left.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::frame::{Frame, FrameKind, HandshakeKind, Released};
use heliostat_backend_transport::greeting::{Greeting, JoinRefusal};
use heliostat_backend_transport::handshake::{Handshake, Progress};
use heliostat_backend_transport::identity::{Identity, NodeId, Secret};
use heliostat_backend_transport::limits::NodeLimits;
use heliostat_backend_transport::node::{Node, NodeEvent};
use heliostat_backend_transport::tcp::framing::Assembly;
use heliostat_backend_transport::transport::{
    Armed, EndCause, Family, LinkEvent, LinkId, Message, NotBegun, NotTaken, SendToken, Transport,
    TransportBroken, TransportKind,
};
use heliostat_backend_transport::AskId;

const LINK: LinkId = LinkId(1);
const KIND: TransportKind = TransportKind { family: Family::Simulated, version: 0 };
const LATER: u64 = 1 << 40;

/// Everything that reads what came from elsewhere, with the same bytes.
pub fn exercise(input: &[u8]) {
    assemble(input);
    // Each is read or refused.
    let _ = Frame::decode(input, 0);
    let _ = Greeting::decode(input, KIND);
    let _ = JoinRefusal::decode(input);
    converse(input, false);
    converse(input, true);
}

/// A stream of a stranger, and of one who is admitted.
fn assemble(input: &[u8]) {
    for is_admitted in [false, true] {
        let mut assembly = Assembly::default();
        if is_admitted {
            assembly.admit();
        }
        let mut rest = input;
        while !rest.is_empty() {
            match assembly.feed(&mut rest) {
                Ok(Some(message)) => drop(Frame::decode(&message.head, message.payload.len())),
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }
}

/// A node that hears messages made of the input, from a stranger or from a joined node.
fn converse(input: &[u8], is_joined: bool) {
    let mut heard = Heard::new();
    if is_joined {
        heard.shake_hands();
    }
    let mut rest = input;
    while let Some((&what, after)) = rest.split_first() {
        rest = after;
        match what % 8 {
            0 => heard.call(),
            1 => heard.answer(),
            _ => {
                let message = heard.cut_message(what, &mut rest);
                heard.deliver(message);
            }
        }
    }
    heard.end();
}

/// A transport whose other side is this file.
#[derive(Clone, Default)]
struct Script {
    events: Rc<RefCell<VecDeque<LinkEvent>>>,
    said: Rc<RefCell<Vec<Message>>>,
}

struct Heard {
    script: Script,
    node: Node<Script>,
    now_ns: u64,
    asks: Vec<AskId>,
    begun: usize,
    ended: usize,
}

impl Heard {
    fn new() -> Heard {
        let script = Script::default();
        let node = Node::new(script.clone(), identity(1), NodeLimits::default(), [1; 32]);
        let mut heard = Heard { script, node, now_ns: 1, asks: Vec::new(), begun: 0, ended: 0 };
        heard
            .script
            .events
            .borrow_mut()
            .push_back(LinkEvent::Opened { link: LINK, is_ours: false });
        heard.progress();
        heard
    }

    /// Joins as a node that knows the secret.
    fn shake_hands(&mut self) {
        let me = identity(2);
        let ours = Greeting {
            kind: KIND,
            node: me.node,
            incarnation: 1,
            window_bytes: 1 << 16,
            nonce: [2; 32],
        };
        self.deliver(record(HandshakeKind::Hello, ours.encode().to_vec()));
        let challenge = self.script.said.borrow_mut().pop().expect("it answers");
        let at = Handshake::AwaitsChallenge;
        let step = at.step(HandshakeKind::Challenge, &challenge.payload, &me, &ours, None);
        let Progress::Say(kind, proof, _) = step else { panic!("the challenge is right") };
        self.deliver(record(kind, proof));
        assert_eq!(self.node.joined().count(), 1);
    }

    /// A message of the input: mostly one whose head is right but for some fields.
    fn cut_message(&self, what: u8, rest: &mut &[u8]) -> Message {
        let mut take = |most: usize| {
            let (part, after) = rest.split_at(most.min(rest.len()));
            *rest = after;
            part.to_vec()
        };
        let length = take(1).first().copied().unwrap_or(0);
        if what % 2 == 0 {
            return Message {
                head: take(40 + usize::from(length % 16)),
                payload: take(length.into()),
            };
        }
        let mut head =
            Frame { kind: FrameKind::Alive, released: Released::default(), header: Vec::new() }
                .encode();
        for (to, from) in head.iter_mut().zip(take(12)) {
            *to = from;
        }
        head.extend(take(usize::from(length % 8)));
        Message { head, payload: take(length.into()) }
    }

    fn call(&mut self) {
        if self.node.call(self.now_ns, LINK, b"header", vec![7; 100], LATER).is_ok() {
            self.begun += 1;
        }
    }

    fn answer(&mut self) {
        if let Some(ask) = self.asks.pop() {
            // A post, or an ask of a link that has ended, is refused.
            let _ = self.node.reply(self.now_ns, ask, b"", vec![1]);
        }
    }

    fn deliver(&mut self, message: Message) {
        self.script.events.borrow_mut().push_back(LinkEvent::Received { link: LINK, message });
        self.progress();
    }

    fn progress(&mut self) {
        self.now_ns += 1000;
        let mut events = Vec::new();
        self.node.progress(self.now_ns, &mut events).expect("the script does not break");
        for event in events {
            match event {
                NodeEvent::Request { ask, .. } => self.asks.push(ask),
                NodeEvent::Answered { .. } | NodeEvent::Failed { .. } => self.ended += 1,
                _ => {}
            }
        }
    }

    /// The link ends: every call has ended once, and nothing is kept.
    fn end(&mut self) {
        let why = EndCause::Closed;
        self.script.events.borrow_mut().push_back(LinkEvent::Ended { link: LINK, why });
        self.progress();
        assert_eq!(self.ended, self.begun);
        assert_eq!(self.node.waiting(), (0, 0));
        assert_eq!(self.node.joined().count(), 0);
    }
}

pub fn identity(node: u64) -> Identity {
    Identity { node: NodeId(node), incarnation: 1, secret: Secret::new([7; 32]) }
}

fn record(kind: HandshakeKind, payload: Vec<u8>) -> Message {
    let kind = FrameKind::Handshake(kind);
    let head = Frame { kind, released: Released::default(), header: Vec::new() }.encode();
    Message { head, payload }
}

impl Transport for Script {
    fn kind(&self) -> TransportKind {
        KIND
    }

    fn address(&self) -> Address {
        Address::Simulated(0)
    }

    fn number_links_from(&mut self, _last: u64) {}

    fn connect(&mut self, _now_ns: u64, _to: Address) -> Result<LinkId, NotBegun> {
        Err(NotBegun::Family)
    }

    fn send(
        &mut self,
        _now_ns: u64,
        link: LinkId,
        message: Message,
        token: SendToken,
    ) -> Result<(), (NotTaken, Message)> {
        self.said.borrow_mut().push(message);
        self.events.borrow_mut().push_back(LinkEvent::Sent { link, token });
        Ok(())
    }

    fn admit(&mut self, _link: LinkId) {}

    fn close(&mut self, _now_ns: u64, _link: LinkId, _linger_ns: u64) {}

    fn progress(
        &mut self,
        _now_ns: u64,
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), TransportBroken> {
        events.extend(self.events.borrow_mut().drain(..));
        Ok(())
    }

    fn wake_ns(&self) -> Option<u64> {
        None
    }

    fn arm(&mut self) -> Armed {
        Armed::Sleep
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

//! A node of our own making that has the cluster's secret, is joined to a daemon, and says what it likes.

use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::peer::PeerReply;
use heliostat_backend_transport::tcp::Tcp;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_node::{
    AskId, Identity, NodeCall, NodeId, NodeLimits, Nodes, NodesEvent, NodesEvents, Outcome, Secret,
    Transport,
};
use rustix::event::{eventfd, EventfdFlags};

use super::recorded::Dice;
use super::{Daemon, WATCHDOG};

/// The node.
pub struct Liar {
    nodes: Nodes,
    events: Receiver<NodesEvent>,
    target: NodeId,
    service: u16,
}

/// What the daemon asks of it.
pub struct AskedOfLiar {
    pub ask: AskId,
    pub header: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Liar {
    /// Joins a daemon, as the node of this number, by the secret of these digits. What it sends is for
    /// this service.
    pub fn join(daemon: &Daemon, number: u64, digits: &str, service: u16) -> Liar {
        Self::join_in_life(daemon, number, digits, service, monotonic_ns())
    }

    /// The same in some life of the node.
    pub fn join_in_life(
        daemon: &Daemon,
        number: u64,
        digits: &str,
        service: u16,
        incarnation: u64,
    ) -> Liar {
        let status = daemon.status();
        let target = NodeId(status["cluster"]["node"].as_u64().unwrap());
        let address = status["cluster"]["address"].as_str().unwrap().parse().unwrap();
        let (sender, events) = channel();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let secret = Secret::from_hex(&digits.repeat(32)).unwrap();
        let identity = Identity { node: NodeId(number), incarnation, secret };
        let told = NodesEvents::new(sender, Arc::new(bell));
        let nodes = Nodes::start(identity, NodeLimits::default(), told, || {
            let tcp = Tcp::listen("127.0.0.1:0".parse().unwrap());
            tcp.map(|tcp| Box::new(tcp) as Box<dyn Transport>)
        });
        let Ok(nodes) = nodes else { panic!("no node") };
        nodes.join(target, address, monotonic_ns() + 10_000_000_000);
        let liar = Liar { nodes, events, target, service };
        liar.await_event(|event| matches!(event, NodesEvent::Joined { .. }).then_some(()));
        liar
    }

    /// Sends a message; its end comes by `outcome`.
    pub fn send(&self, token: u64, header: &[u8], payload: Vec<u8>) {
        self.send_to(self.service, token, header, payload);
    }

    fn send_to(&self, service: u16, token: u64, header: &[u8], payload: Vec<u8>) {
        let call = NodeCall {
            node: self.target,
            link: None,
            service,
            header: header.to_vec(),
            payload,
            deadline_ns: monotonic_ns() + 20_000_000_000,
        };
        self.nodes.call(token, call).unwrap();
    }

    /// How the next of its messages ends. What it is asked meanwhile it does not answer.
    pub fn outcome(&self) -> (u64, Outcome) {
        self.await_event(|event| match event {
            NodesEvent::Answered { token, outcome } => Some((token, outcome)),
            _ => None,
        })
    }

    /// Sends a message, and what it is answered.
    pub fn ask(&self, header: &[u8], payload: Vec<u8>) -> Outcome {
        self.ask_service(self.service, header, payload)
    }

    /// The same of any service.
    pub fn ask_service(&self, service: u16, header: &[u8], payload: Vec<u8>) -> Outcome {
        self.send_to(service, 1, header, payload);
        self.outcome().1
    }

    /// The same of a control plane, which answers in the form that it has for requests.
    pub fn control(&self, header: &[u8], payload: Vec<u8>) -> PeerReply {
        let reply = self.ask(header, payload).unwrap();
        PeerReply::decode(&reply.header, &reply.payload).unwrap()
    }

    /// What the daemon asks next of this node.
    pub fn asked(&self) -> AskedOfLiar {
        self.await_event(|event| match event {
            NodesEvent::Request { ask, header, payload, .. } => {
                Some(AskedOfLiar { ask, header, payload })
            }
            _ => None,
        })
    }

    /// The same within a time; what else happens meanwhile is passed over, a lost link too.
    pub fn asked_within(&self, time: Duration) -> Option<AskedOfLiar> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if let NodesEvent::Request { ask, header, payload, .. } =
                self.events.recv_timeout(left).ok()?
            {
                return Some(AskedOfLiar { ask, header, payload });
            }
        }
    }

    /// Answers that.
    pub fn answer(&self, ask: AskId, header: &[u8], payload: &[u8]) {
        self.nodes.replies().reply(ask, header.to_vec(), payload.to_vec());
    }

    /// Answers that as a control plane does.
    pub fn answer_control(&self, ask: AskId, reply: &PeerReply) {
        let (header, payload) = reply.encode();
        self.answer(ask, &header, &payload);
    }

    /// Leaves the daemon.
    pub fn leave(&self) {
        self.nodes.leave(self.target);
    }

    fn await_event<T>(&self, meant: impl Fn(NodesEvent) -> Option<T>) -> T {
        loop {
            match self.events.recv_timeout(WATCHDOG).unwrap() {
                NodesEvent::Lost { why, .. } => panic!("{why}"),
                event => {
                    if let Some(found) = meant(event) {
                        return found;
                    }
                }
            }
        }
    }
}

/// Bytes by chance: small numbers as often as any, since those come near to a message.
pub fn garbage(dice: &mut Dice, length: usize) -> Vec<u8> {
    let limit = if dice.below(2) == 0 { 3 } else { 256 };
    (0..length).map(|_| dice.below(limit) as u8).collect()
}

/// The user of this process.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

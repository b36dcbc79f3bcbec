//! A node with a thread, as tests use it: it echoes what is asked, and waits for what it asks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use heliostat_backend_transport::address::Address;
use heliostat_backend_transport::driver::{start, DriverEnd, Program, Remote};
use heliostat_backend_transport::error::{CallError, JoinFailure, LostCause};
use heliostat_backend_transport::frame::CallId;
use heliostat_backend_transport::identity::{Identity, NodeId, Secret};
use heliostat_backend_transport::limits::NodeLimits;
use heliostat_backend_transport::node::{Node, NodeCounters, NodeEvent};
use heliostat_backend_transport::transport::{LinkId, Transport};
use heliostat_backend_transport::AskId;

/// A header that asks for no answer, ever.
pub const HOLD: &[u8] = b"hold";
/// A header whose request takes the node's thread as long as this.
pub const SLOW: &[u8] = b"slow";
pub const SLOWNESS: Duration = Duration::from_millis(100);
/// Longer than anything here takes on a machine that is busy with other things.
pub const WATCHDOG: Duration = Duration::from_secs(60);

const PATIENCE_NS: u64 = 30_000_000_000;

pub type Outcome = Result<Vec<u8>, CallError>;

pub enum Command {
    Join(Address, Sender<Result<LinkId, JoinFailure>>),
    Call { node: NodeId, header: Vec<u8>, payload: Vec<u8>, answer: Sender<Outcome> },
    Leave(NodeId),
    Count(Sender<NodeCounters>),
}

/// What runs on the node's thread.
struct Echo {
    joins: BTreeMap<LinkId, Sender<Result<LinkId, JoinFailure>>>,
    calls: BTreeMap<CallId, Sender<Outcome>>,
    /// Calls that found no room, and answers that did.
    waiting: VecDeque<Command>,
    unanswered: VecDeque<(AskId, Vec<u8>)>,
    lost: Sender<(NodeId, LostCause)>,
}

impl Echo {
    fn answer_some<T: Transport>(&mut self, node: &mut Node<T>, now_ns: u64) {
        while let Some((ask, payload)) = self.unanswered.pop_front() {
            if let Err(not_replied) = node.reply(now_ns, ask, b"", payload) {
                self.unanswered.push_front((ask, not_replied.payload));
                return;
            }
        }
    }

    fn call<T: Transport>(
        &mut self,
        to: NodeId,
        node: &mut Node<T>,
        now_ns: u64,
        header: Vec<u8>,
        payload: Vec<u8>,
        answer: Sender<Outcome>,
    ) {
        let link = node.link_to(to).unwrap_or(LinkId(u64::MAX));
        match node.call(now_ns, link, &header, payload, now_ns + PATIENCE_NS) {
            Ok(call) => {
                self.calls.insert(call, answer);
            }
            Err(refused) if refused.error.node.is_some() => {
                self.waiting.push_back(Command::Call {
                    node: to,
                    header,
                    payload: refused.payload,
                    answer,
                });
            }
            Err(refused) => answer.send(Err(refused.error)).expect("the test waits"),
        }
    }
}

impl<T: Transport> Program<T> for Echo {
    type Command = Command;

    fn event(&mut self, node: &mut Node<T>, now_ns: u64, event: NodeEvent) {
        match event {
            NodeEvent::Request { header, .. } if header == HOLD => {}
            NodeEvent::Request { ask, header, payload, .. } => {
                if header == SLOW {
                    std::thread::sleep(SLOWNESS);
                }
                self.unanswered.push_back((ask, payload));
                self.answer_some(node, now_ns);
            }
            NodeEvent::Joined { link, .. } => {
                if let Some(answer) = self.joins.remove(&link) {
                    answer.send(Ok(link)).expect("the test waits");
                }
            }
            NodeEvent::NotJoined { link, why } => {
                if let Some(answer) = self.joins.remove(&link) {
                    answer.send(Err(why)).expect("the test waits");
                }
            }
            NodeEvent::Answered { call, payload, .. } => {
                let answer = self.calls.remove(&call).expect("it was made here");
                answer.send(Ok(payload)).expect("the test waits");
            }
            NodeEvent::Failed { call, error } => {
                let answer = self.calls.remove(&call).expect("it was made here");
                // A test that is over waits no more.
                let _ = answer.send(Err(error));
            }
            NodeEvent::Room { .. } => {
                self.answer_some(node, now_ns);
                for command in std::mem::take(&mut self.waiting) {
                    self.command(node, now_ns, command);
                }
            }
            NodeEvent::Lost { node, why, .. } => {
                // As above.
                let _ = self.lost.send((node, why));
            }
            NodeEvent::Withdrawn { .. } | NodeEvent::Posted { .. } => {}
        }
    }

    fn command(&mut self, node: &mut Node<T>, now_ns: u64, command: Command) {
        match command {
            Command::Join(address, answer) => {
                let link =
                    node.join(now_ns, address, None, now_ns + PATIENCE_NS).expect("it can begin");
                self.joins.insert(link, answer);
            }
            Command::Call { node: to, header, payload, answer } => {
                self.call(to, node, now_ns, header, payload, answer);
            }
            Command::Leave(other) => {
                let link = node.link_to(other).expect("it is joined");
                node.leave(now_ns, link);
            }
            Command::Count(answer) => answer.send(node.counters()).expect("the test waits"),
        }
    }
}

/// A node and its thread.
pub struct Station {
    remote: Option<Remote<Command>>,
    thread: Option<JoinHandle<DriverEnd>>,
    pub address: Address,
    pub lost: Receiver<(NodeId, LostCause)>,
}

impl Station {
    /// A node that listens with what `make` makes, on its own thread.
    pub fn start<T: Transport + 'static>(
        number: u64,
        secret: u8,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Station {
        let (lost, losses) = channel();
        let (tell, told) = channel();
        let body = move || {
            let me = Identity {
                node: NodeId(number),
                incarnation: 1,
                secret: Secret::new([secret; 32]),
            };
            let node = Node::new(make(), me, NodeLimits::default(), [number as u8; 32]);
            tell.send(node.address()).expect("the test waits");
            let echo = Echo {
                joins: BTreeMap::new(),
                calls: BTreeMap::new(),
                waiting: VecDeque::new(),
                unanswered: VecDeque::new(),
                lost,
            };
            Ok::<_, ()>((node, echo))
        };
        let (remote, thread) = start("station", body).expect("starts");
        let address = told.recv_timeout(WATCHDOG).expect("it listens");
        Station { remote: Some(remote), thread: Some(thread), address, lost: losses }
    }

    fn send(&self, command: Command) {
        let remote = self.remote.as_ref().expect("it runs");
        assert!(remote.send(command).is_ok(), "it runs");
    }

    pub fn try_join(&self, address: Address) -> Result<LinkId, JoinFailure> {
        let (answer, answered) = channel();
        self.send(Command::Join(address, answer));
        answered.recv_timeout(WATCHDOG).expect("a join ends")
    }

    pub fn join(&self, address: Address) {
        self.try_join(address).expect("joins");
    }

    pub fn begin_call(&self, node: u64, header: &[u8], payload: Vec<u8>) -> Receiver<Outcome> {
        let (answer, answered) = channel();
        self.send(Command::Call { node: NodeId(node), header: header.to_vec(), payload, answer });
        answered
    }

    pub fn call(&self, node: u64, payload: Vec<u8>) -> Outcome {
        self.begin_call(node, b"", payload).recv_timeout(WATCHDOG).expect("a call ends")
    }

    pub fn leave(&self, node: u64) {
        self.send(Command::Leave(NodeId(node)));
    }

    pub fn counters(&self) -> NodeCounters {
        let (answer, answered) = channel();
        self.send(Command::Count(answer));
        answered.recv_timeout(WATCHDOG).expect("it counts")
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.remote = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                std::thread::panicking() || matches!(ended, Ok(Ok(()))),
                "the node's thread ends well"
            );
        }
    }
}

//! The way to the thread, from any other one; nothing here waits.

use std::io;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use heliostat_server_node::{Caller, Nodes, PeerNode};
use heliostat_service_replica::{Action, Answered, Failed, Fault, Identity, Member, Placement};

use crate::engine::Engine;
use crate::input::Input;
use crate::peers::PeerReplicas;

/// The thread. Dropped it ends.
pub struct Replicas {
    sender: Sender<Input>,
    status: Shown,
    thread: Option<JoinHandle<()>>,
}

/// What a node gives to replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Replicas at once.
    pub replicas: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Those of one user.
    pub bytes_per_user: u64,
}

/// What is here, for people: as it was a tick ago.
pub(crate) type Shown = Arc<Mutex<Vec<ReplicaStatus>>>;

/// What the thread has to know.
pub struct Starting {
    /// This node, and this life of it.
    pub me: Member,
    /// Who keeps the records.
    pub records: Records,
    /// What this node gives.
    pub limits: Limits,
    /// Whether other nodes are believed which of their users asks.
    pub believes_users: bool,
}

/// Who keeps the records of regions.
pub enum Records {
    /// One node of the cluster, in its memory.
    Keeper(u64),
    /// A registry, which the daemon asks; [`Replicas::record`] follows once for each.
    Registry(Box<dyn Fn(AskRecord) + Send>),
}

/// What a registry is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskRecord {
    /// By which number the answer comes.
    pub token: u64,
    /// Of which key.
    pub key: String,
    /// To be written where it has this revision, 0 for none; empty to be deleted. Else it is read.
    pub write: Option<(u64, Vec<u8>)>,
}

/// A region that is to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    /// Under which key.
    pub key: String,
    /// Whose.
    pub owner: u32,
    /// What others may, as bits of rights.
    pub others: u32,
    /// How long.
    pub bytes: u64,
    /// How many replicas, this node's among them.
    pub wanted: u32,
    /// On which other nodes; none: any that are joined.
    pub nodes: Vec<u64>,
}

/// A region that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Where it lies.
    pub placement: Placement,
}

/// Why a region is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// None has the name.
    NotFound,
    /// The keeper of records cannot be reached, or has forgotten them.
    NoKeeper,
    /// It is not made.
    Fault(Fault),
    /// Fewer nodes are joined than are needed.
    TooFew {
        /// How many there are.
        found: usize,
    },
    /// This node has no room.
    Full(u64),
}

/// One replica on this node, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaStatus {
    /// The key.
    pub key: String,
    /// Where the region lies, as far as this node knows.
    pub placement: Placement,
    /// This node's is the primary.
    pub is_primary: bool,
    /// The last entry, and the last that all replicas have.
    pub entries: (u64, u64),
}

impl Replicas {
    /// Starts the thread, and serves other nodes.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(nodes: &Nodes, starting: Starting) -> io::Result<Replicas> {
        let (sender, inputs) = channel();
        let callers: [Caller; 3] = [nodes.caller(), nodes.caller(), nodes.caller()];
        let status = Shown::default();
        let ways = (nodes.replies(), sender.clone(), status.clone());
        let engine = Engine::new(starting, callers, ways);
        let builder = std::thread::Builder::new().name("replicas".into());
        let thread = builder.spawn(move || engine.run(&inputs))?;
        nodes.host(crate::SERVICE, PeerReplicas(sender.clone()));
        Ok(Replicas { sender, status, thread: Some(thread) })
    }

    /// A node is joined.
    pub fn joined(&self, peer: PeerNode) {
        self.send(Input::Joined(peer));
    }

    /// A node is lost.
    pub fn lost(&self, peer: PeerNode) {
        self.send(Input::Lost(peer));
    }

    /// What a registry says: the revision and the record, after a write the new revision; revision 0
    /// where there is none, or it was another one than was expected. Nothing where nobody knows.
    pub fn record(&self, token: u64, answer: Option<(u64, Vec<u8>)>) {
        self.send(Input::Record(token, answer));
    }

    /// This node lives another life from now on, if it does: the registry had declared it dead.
    pub fn lives(&self, life: u64) {
        self.send(Input::Lives(life));
    }

    /// Makes a region.
    pub fn make(&self, draft: Draft, then: impl FnOnce(Result<Opened, Failure>) + Send + 'static) {
        self.send(Input::Make(draft, Box::new(then)));
    }

    /// Finds a region.
    pub fn open(&self, key: String, then: impl FnOnce(Result<Opened, Failure>) + Send + 'static) {
        self.send(Input::Open(key, Box::new(then)));
    }

    /// Frees a region that was found.
    pub fn free(
        &self,
        region: Identity,
        user: u32,
        then: impl FnOnce(Result<(), Fault>) + Send + 'static,
    ) {
        self.send(Input::Free(region, user, Box::new(then)));
    }

    /// What is here, for people: as it was a second ago at most.
    pub fn status(&self) -> Vec<ReplicaStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The way for operations.
    pub fn submitter(&self) -> Submitter {
        Submitter(self.sender.clone())
    }

    fn send(&self, input: Input) {
        // Where nobody takes it the thread has ended with the process.
        let _ = self.sender.send(input);
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        self.send(Input::End);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Submits operations from any thread.
#[derive(Clone)]
pub struct Submitter(Sender<Input>);

impl Submitter {
    /// An operation on a region that was found, as a user. `then` is called once, on the thread.
    pub fn submit(
        &self,
        region: Identity,
        user: u32,
        action: Action,
        then: impl FnOnce(Result<Answered, Failed>) + Send + 'static,
    ) {
        let _ = self.0.send(Input::Submit(region, user, action, Box::new(then)));
    }
}

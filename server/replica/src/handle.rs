//! The way to the thread, from any other one; nothing here waits.

use std::io;
use std::sync::mpsc::{channel, Sender};
use std::sync::PoisonError;
use std::thread::JoinHandle;

use heliostat_server_node::{Caller, Nodes, PeerNode};
use heliostat_service_replica::{Action, Alter, Answered, Failed, Fault, Identity};

use crate::engine::Engine;
use crate::input::Input;
use crate::peers::PeerReplicas;
use crate::request::{Draft, Failure, Limits, NotAltered, Opened, ReplicaStatus, Shown, Starting};

/// The thread. Dropped it ends.
pub struct Replicas {
    sender: Sender<Input>,
    status: Shown,
    thread: Option<JoinHandle<()>>,
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

    /// Alters who may use a region that was found, as a user.
    pub fn alter(
        &self,
        region: Identity,
        user: u32,
        alter: Alter,
        then: impl FnOnce(Result<(), NotAltered>) + Send + 'static,
    ) {
        self.send(Input::Alter(region, user, alter, Box::new(then)));
    }

    /// So much this node gives from now on; what there is stays.
    pub fn set_limits(&self, limits: Limits) {
        self.send(Input::Limits(limits));
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

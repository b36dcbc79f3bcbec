//! Regions on several nodes: the thread that has them, who waits for it, and which handles there are.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, PoisonError, RwLock};

use heliostat_abi::memory::peer::PeerHandle;
use heliostat_abi::memory::{MemoryName, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_server_memory::Replicated;
use heliostat_server_replica::{AskRecord, Failure, Fault, Identity, NotAltered, Opened, Replicas};
use rustix::event::{eventfd, EventfdFlags};

use crate::state::asks::Waiter;

/// What the daemon keeps of regions on several nodes.
pub struct ReplicatedRegions {
    /// The thread.
    pub replicas: Replicas,
    /// The way for operations of server loops.
    pub operations: Arc<dyn Replicated>,
    /// Handles of this node's sessions, as those operations name them.
    pub handles: HandleTable,
    /// What the thread tells.
    pub events: Receiver<ReplicaEvent>,
    /// The end by which it does.
    pub news: News,
    /// Who waits for it.
    pub waiting: HashMap<u64, WaitsForReplica>,
    last: u64,
}

/// What the thread tells.
pub enum ReplicaEvent {
    /// A region was found or made, or not.
    Opened(u64, Result<Opened, Failure>),
    /// A region was freed, or not.
    Freed(u64, Result<(), Fault>),
    /// It was altered who may use a region, or not.
    Altered(u64, Result<(), NotAltered>),
    /// The registry is to be asked.
    Ask(AskRecord),
}

/// Tells the daemon something, from any thread.
#[derive(Clone)]
pub struct News {
    sender: Sender<ReplicaEvent>,
    /// Rings when there is something.
    pub bell: Arc<OwnedFd>,
}

/// A session that waits.
#[derive(Clone)]
pub struct WaitsForReplica {
    /// Which, and for the answer to which request.
    pub waiter: Waiter,
    /// As which user.
    pub uid: u32,
    /// For a handle with these rights, or the end of a handle.
    pub wanted: WantedOfReplica,
}

/// For what a session waits.
#[derive(Clone)]
pub enum WantedOfReplica {
    /// A handle on the region of a name.
    Handle(Rights, MemoryName),
    /// The end of a handle's region.
    End(ObjectId),
    /// That it is altered who may use one.
    Altered,
}

/// Where a handle leads.
#[derive(Clone)]
pub struct ReplicatedHandle {
    /// To which region.
    pub region: Identity,
    /// As which user.
    pub user: u32,
    /// What it allows.
    pub rights: Rights,
    /// How long the region is.
    pub bytes: u64,
    /// Its name.
    pub name: MemoryName,
}

/// All handles, for the daemon and the loops.
#[derive(Clone, Default)]
pub struct HandleTable(Arc<RwLock<HashMap<u64, ReplicatedHandle>>>);

impl HandleTable {
    /// Takes one in.
    pub fn insert(&self, number: u64, handle: ReplicatedHandle) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(number, handle);
    }

    /// One of them.
    pub fn get(&self, number: u64) -> Option<ReplicatedHandle> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Takes one out.
    pub fn remove(&self, number: u64) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
}

/// By which number a handle is known.
pub fn number_of(handle: PeerHandle) -> u64 {
    u64::from(handle.session.generation) << 32 | u64::from(handle.session.index)
}

impl News {
    /// Tells it; the daemon hears it soon.
    pub fn tell(&self, event: ReplicaEvent) {
        // Where nobody listens any more the process is ending.
        let _ = self.sender.send(event);
        // It fails only when the counter is full, and then it rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// A way, and its other end.
    ///
    /// # Errors
    /// The kernel gives no descriptor.
    pub fn create() -> std::io::Result<(News, Receiver<ReplicaEvent>)> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, events) = channel();
        Ok((News { sender, bell }, events))
    }
}

impl ReplicatedRegions {
    /// Of a thread that runs.
    pub fn new(
        replicas: Replicas,
        operations: Arc<dyn Replicated>,
        handles: HandleTable,
        (news, events): (News, Receiver<ReplicaEvent>),
    ) -> ReplicatedRegions {
        let waiting = HashMap::new();
        ReplicatedRegions { replicas, operations, handles, events, news, waiting, last: 0 }
    }

    /// A number that nothing else has here.
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A session waits for nothing any more; for what it did. The thread may do it all the same.
    pub fn give_up(&mut self, session: ObjectId) -> Vec<Waiter> {
        self.take_waiters(|waiter| waiter.session == session)
    }

    /// Those whose time to wait is over.
    pub fn expire(&mut self, now_ns: u64) -> Vec<Waiter> {
        self.take_waiters(|waiter| waiter.until_ns <= now_ns)
    }

    /// When the first has waited long enough.
    pub fn next_ns(&self) -> Option<u64> {
        self.waiting.values().map(|it| it.waiter.until_ns).min()
    }

    fn take_waiters(&mut self, is_meant: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let all = self.waiting.values().map(|it| it.waiter);
        let meant: Vec<_> = all.filter(|waiter| is_meant(waiter)).collect();
        self.waiting.retain(|_, it| !is_meant(&it.waiter));
        meant
    }
}

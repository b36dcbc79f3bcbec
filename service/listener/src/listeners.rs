//! Listeners, their workers, and the sessions that take from each worker's queue.
//!
//! ```text
//! none --Join with a rule, Create--> shared --the last worker leaves--> empty --after a while--> none
//!                                      ^                                  |  (a lasting one stays)
//!                                      '-------------Join-----------------'
//! ```
//! An empty listener keeps its address for a while, so that a program that starts anew loses nobody
//! who connects meanwhile.

use std::collections::{BTreeMap, HashMap, HashSet};

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::listener::limits::{
    HOLDERS_PER_WORKER_MAX, LISTENERS_MAX, SOCKETS_PER_LISTENER_MAX, WORKERS_MAX,
};
use heliostat_abi::listener::Rule;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_service_grant::{Full, Grants, Holder, Limit, Quota, QuotaTable, Revoked, Shares};

use crate::refusal::{Reason, Refusal};

/// How long a listener without workers keeps its address.
pub const LINGER_NS: u64 = 2_000_000_000;
/// How long one does whose connections nobody has taken: a program that its last worker executes may
/// begin slowly, and they are in no backlog that it has.
pub const LINGER_HELD_NS: u64 = 10_000_000_000;

/// A listening address in its network namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Endpoint {
    /// The kernel's cookie of the namespace.
    pub namespace: u64,
    /// The bound address, canonical.
    pub address: NetAddress,
}

/// How many there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Workers that one session is.
    pub workers_per_session: usize,
    /// Listeners.
    pub listeners: Shares,
    /// Workers.
    pub workers: Shares,
}

/// A session that wants to be a worker, and what the kernel says of the socket that it showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joining {
    /// Who.
    pub session: ObjectId,
    /// Whose share it counts against.
    pub holder: Holder,
    /// Where the socket listens.
    pub endpoint: Endpoint,
    /// Whose the kernel holds it to be.
    pub owner_uid: u32,
    /// The kernel's cookie of it.
    pub socket: u64,
    /// By which rule the address is shared, where it is not yet.
    pub rule: Option<Rule>,
    /// How many workers it may have.
    pub workers_max: usize,
}

/// A new worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joined {
    /// Of which listener.
    pub listener: ObjectId,
    /// Which.
    pub worker: ObjectId,
    /// Its place among the listener's workers.
    pub place: u32,
    /// How many there are with it.
    pub workers: u32,
    /// The listener is new.
    pub is_first: bool,
    /// Its socket is one more of the listener's.
    pub brings_socket: bool,
}

/// What the daemon has to carry out, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A worker is one no more: what lies in its queue is others'.
    WorkerEnds {
        /// Of which listener.
        listener: ObjectId,
        /// Which.
        worker: ObjectId,
    },
    /// A worker that lives is one no more: where there is no other it takes all there is along.
    WorkerDismissed {
        /// Of which listener.
        listener: ObjectId,
        /// Which.
        worker: ObjectId,
    },
    /// A listener is given up, and its workers with it, which live: its sockets are closed.
    ListenerEnds(ObjectId),
}

#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) endpoint: Endpoint,
    pub(crate) owner_uid: u32,
    pub(crate) rule: Rule,
    /// Made by a command: it stays without workers.
    pub(crate) is_lasting: bool,
    pub(crate) places: BTreeMap<u32, ObjectId>,
    pub(crate) sockets: HashSet<u64>,
    /// Whose share its sockets count against.
    pub(crate) holder: Holder,
    pub(crate) empty_since_ns: u64,
    /// When it is looked at next while it has no worker.
    pub(crate) look_at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Worker {
    pub(crate) listener: ObjectId,
    pub(crate) place: u32,
}

/// The service.
#[derive(Clone, Debug)]
pub struct Listeners {
    pub(crate) listeners: QuotaTable<Listener>,
    pub(crate) by_endpoint: HashMap<Endpoint, ObjectId>,
    pub(crate) workers: Grants<Worker>,
    /// Listening sockets, by whose listener they are of: there is no other limit than each listener's.
    pub(crate) sockets: Quota,
    pub(crate) revoked: Revoked,
}

impl Limits {
    fn workers(&self) -> Limit {
        Limit { per_session: self.workers_per_session, shares: self.workers }
    }
}

impl Listeners {
    /// A service that knows nobody yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            listeners: QuotaTable::new(LISTENERS_MAX, limits.listeners),
            by_endpoint: HashMap::new(),
            workers: Grants::new(Thing::ListenerWorkers, WORKERS_MAX, limits.workers()),
            sockets: Quota::new(Shares::whole((LISTENERS_MAX * SOCKETS_PER_LISTENER_MAX) as u64)),
            revoked: Revoked::default(),
        }
    }

    /// New limits for what is asked from now on; what was granted stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.listeners.set_shares(limits.listeners);
        self.workers.set_limit(limits.workers());
    }

    /// A session becomes a worker of the listener of a socket, which is made where there is none and a
    /// rule is given.
    ///
    /// As the kernel lets only one user's sockets share an address, a listener is one user's; whoever
    /// has inherited its socket has shown that as well.
    pub fn join(&mut self, joining: Joining) -> Result<Joined, Refusal> {
        self.revoked.check(joining.session)?;
        let address = joining.endpoint.address;
        let known = self.by_endpoint.get(&joining.endpoint).copied();
        let (listener, is_first) = match known {
            Some(id) => (id, false),
            None => {
                let rule = joining.rule.ok_or(Reason::NotShared { address })?;
                self.workers.check(joining.session)?;
                let made = self.make(joining.holder, joining.endpoint, joining.owner_uid, rule);
                (made?, true)
            }
        };
        let joined = self.admit(listener, is_first, joining);
        if joined.is_err() && is_first {
            self.remove_listener(listener);
        }
        joined
    }

    fn admit(&mut self, id: ObjectId, is_first: bool, joining: Joining) -> Result<Joined, Refusal> {
        let address = joining.endpoint.address;
        let listener = self.listeners.get(id).ok_or(Reason::NotShared { address })?;
        let brings_socket = !listener.sockets.contains(&joining.socket);
        if brings_socket && listener.owner_uid != joining.owner_uid {
            return Err(Reason::NotOwner { address }.into());
        }
        let full = |thing, limit: usize| Full::of(thing, Side::Object, limit as u64);
        if listener.places.len() >= joining.workers_max {
            return Err(full(Thing::ListenerWorkers, joining.workers_max).into());
        }
        if brings_socket && listener.sockets.len() >= SOCKETS_PER_LISTENER_MAX {
            return Err(full(Thing::ListenerSockets, SOCKETS_PER_LISTENER_MAX).into());
        }
        let place = free_place(&listener.places);
        let worker = Worker { listener: id, place };
        let worker = self.workers.grant(joining.session, joining.holder, worker)?;
        let Some(listener) = self.listeners.get_mut(id) else { unreachable!("looked up above") };
        listener.places.insert(place, worker);
        if listener.sockets.insert(joining.socket) {
            self.sockets.take_anyway(listener.holder, 1);
        }
        let workers = listener.places.len() as u32;
        Ok(Joined { listener: id, worker, place, workers, is_first, brings_socket })
    }

    /// Makes a listener that stays without workers. Its socket is told by `has_socket`.
    pub fn create(
        &mut self,
        holder: Holder,
        endpoint: Endpoint,
        owner_uid: u32,
        rule: Rule,
    ) -> Result<ObjectId, Refusal> {
        if self.by_endpoint.contains_key(&endpoint) {
            return Err(Reason::Exists { address: endpoint.address }.into());
        }
        let id = self.make(holder, endpoint, owner_uid, rule)?;
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.is_lasting = true;
        }
        Ok(id)
    }

    /// A listener has this socket, by the kernel's cookie.
    pub fn has_socket(&mut self, listener: ObjectId, socket: u64) {
        if let Some(listener) = self.listeners.get_mut(listener) {
            if listener.sockets.insert(socket) {
                self.sockets.take_anyway(listener.holder, 1);
            }
        }
    }

    fn make(
        &mut self,
        holder: Holder,
        endpoint: Endpoint,
        owner_uid: u32,
        rule: Rule,
    ) -> Result<ObjectId, Refusal> {
        let listener = Listener {
            endpoint,
            owner_uid,
            rule,
            is_lasting: false,
            places: BTreeMap::new(),
            sockets: HashSet::new(),
            holder,
            empty_since_ns: 0,
            look_at_ns: 0,
        };
        let made = self.listeners.insert(holder, listener);
        let id = made.map_err(|it| Full::shared(Thing::SharedListeners, it))?;
        self.by_endpoint.insert(endpoint, id);
        Ok(id)
    }

    /// The listener on an address; one that takes all addresses of its port comes after one of its own.
    pub fn find(&self, endpoint: Endpoint) -> Result<ObjectId, Refusal> {
        let known = self.by_endpoint.get(&endpoint).copied();
        Ok(known.ok_or(Reason::NotShared { address: endpoint.address })?)
    }

    /// Whose a listener is.
    pub fn owner(&self, listener: ObjectId) -> Option<u32> {
        self.listeners.get(listener).map(|it| it.owner_uid)
    }

    /// Another rule for connections to come.
    pub fn set_rule(&mut self, listener: ObjectId, rule: Rule) {
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.rule = rule;
        }
    }

    /// The listener of a worker.
    pub fn listener_of(&self, worker: ObjectId) -> Result<ObjectId, Refusal> {
        Ok(self.workers.get(worker).ok_or(Reason::NotWorker { worker })?.listener)
    }

    /// The listener of a worker that is the session's.
    pub fn own_worker(&self, session: ObjectId, worker: ObjectId) -> Result<ObjectId, Refusal> {
        match self.workers.has(session, worker) {
            true => self.listener_of(worker),
            false => Err(Reason::NotWorker { worker }.into()),
        }
    }

    /// Another session takes from a worker's queue, which it has inherited. `uid` is its user.
    pub fn hold(&mut self, session: ObjectId, uid: u32, worker: ObjectId) -> Result<(), Refusal> {
        self.revoked.check(session)?;
        let listener = self.listener_of(worker)?;
        if self.owner(listener) != Some(uid) && uid != 0 {
            return Err(Reason::NotWorker { worker }.into());
        }
        if self.workers.sessions(worker).count() >= HOLDERS_PER_WORKER_MAX {
            let limit = HOLDERS_PER_WORKER_MAX as u64;
            return Err(Full::of(Thing::WorkerHolders, Side::Object, limit).into());
        }
        Ok(self.workers.share(session, worker)?)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.listeners.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// How many workers there are, those of all listeners together.
    pub fn worker_count(&self) -> usize {
        self.workers.len()
    }

    /// How many a session is.
    pub fn workers_of(&self, session: ObjectId) -> Vec<ObjectId> {
        self.workers.of(session).collect()
    }

    /// Who has how much.
    pub fn quotas(&self) -> [(Thing, &Quota); 3] {
        let listeners = (Thing::SharedListeners, self.listeners.quota());
        [listeners, self.workers.quota(), (Thing::ListenerSockets, &self.sockets)]
    }
}

impl Listener {
    /// Its last worker is gone.
    pub(crate) fn is_left(&mut self, now_ns: u64) {
        (self.empty_since_ns, self.look_at_ns) = (now_ns, now_ns.saturating_add(LINGER_NS));
    }

    /// When it may end.
    pub(crate) fn ends_at_ns(&self) -> Option<u64> {
        (self.places.is_empty() && !self.is_lasting).then_some(self.look_at_ns)
    }

    /// Keeps its address for the sake of connections that nobody has taken; false where that was long.
    pub(crate) fn waits_on(&mut self, now_ns: u64) -> bool {
        let last_ns = self.empty_since_ns.saturating_add(LINGER_HELD_NS);
        self.look_at_ns = now_ns.saturating_add(LINGER_NS).min(last_ns);
        now_ns < last_ns
    }
}

/// The smallest place that nobody has: who starts anew has the place that it had.
fn free_place(places: &BTreeMap<u32, ObjectId>) -> u32 {
    (0..)
        .zip(places.keys())
        .find(|(free, taken)| free != *taken)
        .map_or(places.len() as u32, |it| it.0)
}

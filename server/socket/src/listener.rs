//! Listeners, which sessions on all loops may share.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_abi::listener::rule::Peek;
use heliostat_abi::listener::Rule;
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_service_listener::{Member, MemberTurns, Turn, BOUND_NS};
use rustix::io::Errno;
use rustix::net::{acceptfrom_with, SocketFlags};

use super::address::from_any;
use super::arrival::Arrival;
use super::budget::{Budget, Slot};
use super::polled::Polled;

/// Connections that wait for the member that the rule names, or that came back because whoever they
/// were for had left; more are not accepted before these have found somebody.
const READY_MAX: usize = 64;
/// When a connection is accepted again for which there was no descriptor.
const AGAIN_NS: u64 = 1_000_000;

/// One listening socket.
pub(crate) struct Listener {
    pub socket: OwnedFd,
    /// By which it is found; none where it is one session's alone.
    pub key: Option<ListenerKey>,
    pub address: NetAddress,
    /// Of its user: where a connection that is nobody's yet counts.
    pub budget: Arc<Budget>,
    /// Members that poll it.
    pub polled: Polled,
    _slot: Slot,
    state: Mutex<State>,
}

/// By which sessions find the listener that they share: user and address.
pub(crate) type ListenerKey = (u32, NetAddress);

struct State {
    shares: MemberTurns,
    /// Accepted, and nobody's yet, in the order in which it was known whose they should be.
    ready: VecDeque<Arrival>,
}

/// What is next at a listener.
pub(crate) enum Next {
    /// A connection, and whose it is, on which loop.
    Given(Member, usize, Arrival),
    /// A connection whose first bytes decide.
    Peeked(Arrival, Peek),
    /// Nothing now; perhaps at this time, whatever happens.
    Nothing(Option<u64>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A loop that ended inside has ended all loops.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    pub fn new(
        socket: OwnedFd,
        key: Option<ListenerKey>,
        address: NetAddress,
        (budget, slot): (Arc<Budget>, Slot),
    ) -> Arc<Listener> {
        let shares = MemberTurns::new(Rule::LeastLoad, RandomState::new().hash_one(address));
        let state = Mutex::new(State { shares, ready: VecDeque::new() });
        let polled = Polled::default();
        Arc::new(Listener { socket, key, address, budget, polled, _slot: slot, state })
    }

    /// A member joins, and perhaps says by which rule connections to come are shared out.
    pub fn join(&self, member: Member, on: usize, rule: Option<Rule>) {
        let mut state = lock(&self.state);
        state.shares.join(member, on);
        if let Some(rule) = rule {
            state.shares.set_rule(rule);
        }
    }

    /// A member leaves; whether it was the last.
    pub fn leave(&self, member: Member) -> bool {
        self.polled.remove(member);
        let mut state = lock(&self.state);
        state.shares.leave(member);
        state.shares.is_empty()
    }

    pub fn wait(&self, member: Member) {
        lock(&self.state).shares.wait(member);
    }

    /// A member waits for one less.
    pub fn give_up(&self, member: Member) {
        lock(&self.state).shares.give_up(member);
    }

    /// Whether a connection that was accepted waits for somebody.
    pub fn has_ready(&self) -> bool {
        !lock(&self.state).ready.is_empty()
    }

    pub fn ended(&self, member: Member) {
        lock(&self.state).shares.ended(member);
    }

    /// The next connection and the member that waits for it. The kernel is asked for one only while
    /// somebody waits.
    pub fn next(&self, now_ns: u64) -> Next {
        let mut state = lock(&self.state);
        let mut until_ns = None;
        for at in 0..state.ready.len() {
            match state.choose(at, now_ns) {
                Turn::Of(member, on) => {
                    if let Some(arrival) = state.ready.remove(at) {
                        return Next::Given(member, on, arrival);
                    }
                }
                Turn::Later => {
                    let late_ns = state.ready[at].since_ns + BOUND_NS;
                    until_ns = Some(until_ns.map_or(late_ns, |other: u64| other.min(late_ns)));
                }
                Turn::Nobody => return Next::Nothing(None),
            }
        }
        while state.ready.len() < READY_MAX && state.shares.is_waited_for() {
            let arrival = match self.accept(now_ns) {
                Ok(Some(arrival)) => arrival,
                Ok(None) => break,
                Err(_) => {
                    let again_ns = now_ns + AGAIN_NS;
                    until_ns = Some(until_ns.map_or(again_ns, |other: u64| other.min(again_ns)));
                    break;
                }
            };
            let rule = state.shares.rule();
            if let Some(peek) = rule.peek() {
                return Next::Peeked(arrival, peek);
            }
            let arrival = arrival.by_rule(rule);
            match state.shares.choose(arrival.key()) {
                Turn::Of(member, on) => return Next::Given(member, on, arrival),
                Turn::Later | Turn::Nobody => {
                    let late_ns = arrival.since_ns + BOUND_NS;
                    until_ns = Some(until_ns.map_or(late_ns, |other: u64| other.min(late_ns)));
                    state.ready.push_back(arrival);
                }
            }
        }
        Next::Nothing(until_ns)
    }

    /// One that the kernel has. A peer that has gone already is none, and the next one's turn.
    ///
    /// # Errors
    /// There is no descriptor or no memory for it: it lies in the backlog, and no edge tells of it again.
    fn accept(&self, now_ns: u64) -> Result<Option<Arrival>, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match acceptfrom_with(&self.socket, flags) {
                Ok((socket, peer)) => {
                    return Ok(Some(Arrival::new(socket, peer.and_then(from_any), now_ns)));
                }
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    return Err(errno);
                }
                Err(_) => return Ok(None),
            }
        }
    }

    /// It is known by what it is decided whose this connection is.
    pub fn put_ready(&self, arrival: Arrival) {
        lock(&self.state).ready.push_back(arrival);
    }

    /// A connection could not be delivered: it is the next one's. There are never more of them than
    /// Accepts were waited for.
    pub fn give_back(&self, member: Member, arrival: Arrival) {
        let mut state = lock(&self.state);
        state.shares.ended(member);
        state.ready.push_front(arrival);
    }

    fn state(&self) -> ListenerMembers {
        let state = lock(&self.state);
        let (rule, members) = (state.shares.rule(), state.shares.each().collect());
        ListenerMembers { address: self.address, rule, kept: state.ready.len(), members }
    }
}

impl State {
    /// Whose a connection is that was accepted; where it has waited for too long, somebody else's.
    fn choose(&mut self, at: usize, now_ns: u64) -> Turn {
        let arrival = &self.ready[at];
        let is_late = now_ns >= arrival.since_ns + BOUND_NS;
        let mut turn = self.shares.choose(arrival.key());
        // Each is passed over once, so that somebody who waits is found.
        while turn == Turn::Later && is_late {
            self.shares.pass_over(arrival.key());
            turn = self.shares.choose(arrival.key());
        }
        turn
    }
}

/// A shared listener, for people.
pub struct ListenerMembers {
    /// Where it listens.
    pub address: NetAddress,
    /// By which rule connections are shared out.
    pub rule: Rule,
    /// Connections that wait for the member that the rule names.
    pub kept: usize,
    /// Each member's session, with how many connections it has and waits for.
    pub members: Vec<(ObjectId, u32, u32)>,
}

/// The shared listeners of all loops.
#[derive(Default)]
pub struct Listeners(Mutex<HashMap<ListenerKey, Arc<Listener>>>);

impl Listeners {
    /// Joins the one at an address, or the one that `open` makes there. Nobody leaves one meanwhile,
    /// and one that was made in vain is not there.
    pub(crate) fn share<T>(
        &self,
        key: ListenerKey,
        open: impl FnOnce() -> Result<Arc<Listener>, i32>,
        join: impl FnOnce(&Arc<Listener>) -> Result<T, i32>,
    ) -> Result<T, i32> {
        let mut all = lock(&self.0);
        if let Some(found) = all.get(&key) {
            return join(found);
        }
        let made = open()?;
        let joined = join(&made)?;
        all.insert(made.key.unwrap_or(key), made);
        Ok(joined)
    }

    /// A member leaves a listener, which ends with its last one.
    pub(crate) fn leave(&self, listener: &Listener, member: Member) {
        // Locked first, or somebody might find it and join when it has been given up.
        let mut all = lock(&self.0);
        if !listener.leave(member) {
            return;
        }
        if let Some(key) = listener.key {
            all.remove(&key);
        }
    }

    /// Each of them.
    pub fn each(&self) -> Vec<ListenerMembers> {
        lock(&self.0).values().map(|listener| listener.state()).collect()
    }
}

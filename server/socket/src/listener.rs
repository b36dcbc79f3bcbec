//! Listeners, which sessions on all loops may share.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_service_socket::{Member, Rule, Shares};
use rustix::io::Errno;
use rustix::net::{acceptfrom_with, SocketFlags};

use super::address::from_any;

/// Connections that came back because whoever they were for had left; more are not accepted before
/// these have found somebody.
const RETURNED_MAX: usize = 64;

/// One listening socket.
pub(crate) struct Listener {
    pub socket: OwnedFd,
    /// By which it is found; none where it is one session's alone.
    pub key: Option<Key>,
    pub address: NetAddress,
    state: Mutex<State>,
}

/// By which sessions find the listener that they share: user and address.
pub(crate) type Key = (u32, NetAddress);

#[derive(Default)]
struct State {
    shares: Shares,
    /// Accepted, and whoever it was for did not wait any more.
    returned: VecDeque<(OwnedFd, Option<NetAddress>)>,
}

/// A connection, and whose it is.
pub(crate) struct Next {
    pub member: Member,
    pub on: usize,
    pub socket: OwnedFd,
    pub peer: Option<NetAddress>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A loop that ended inside has ended all loops.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    pub fn new(socket: OwnedFd, key: Option<Key>, address: NetAddress) -> Arc<Listener> {
        let state = State { shares: Shares::new(Rule::LeastLoad), returned: VecDeque::new() };
        Arc::new(Listener { socket, key, address, state: Mutex::new(state) })
    }

    pub fn join(&self, member: Member, on: usize) {
        lock(&self.state).shares.join(member, on);
    }

    /// A member leaves; whether it was the last.
    pub fn leave(&self, member: Member) -> bool {
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
    pub fn has_returned(&self) -> bool {
        !lock(&self.state).returned.is_empty()
    }

    pub fn ended(&self, member: Member) {
        lock(&self.state).shares.ended(member);
    }

    /// The next connection and the member that waits for it; `None` while there is none of one.
    pub fn next(&self) -> Option<Next> {
        let mut state = lock(&self.state);
        let (member, on) = state.shares.choose()?;
        match state.returned.pop_front().or_else(|| self.accept()) {
            Some((socket, peer)) => Some(Next { member, on, socket, peer }),
            None => {
                state.shares.ended(member);
                state.shares.wait(member);
                None
            }
        }
    }

    /// One that the kernel has. A peer that has gone already is none, and the next one's turn.
    fn accept(&self) -> Option<(OwnedFd, Option<NetAddress>)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            match acceptfrom_with(&self.socket, flags) {
                Ok((socket, peer)) => return Some((socket, peer.and_then(from_any))),
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                // Nothing there; or no descriptor, which the next edge or Accept tries again.
                Err(_) => return None,
            }
        }
    }

    /// A connection could not be delivered: it is the next one's.
    pub fn give_back(&self, member: Member, socket: OwnedFd, peer: Option<NetAddress>) {
        let mut state = lock(&self.state);
        state.shares.ended(member);
        if state.returned.len() < RETURNED_MAX {
            state.returned.push_back((socket, peer));
        }
    }

    fn state(&self) -> ListenerMembers {
        let state = lock(&self.state);
        ListenerMembers { address: self.address, members: state.shares.each().collect() }
    }
}

/// A shared listener, for people.
pub struct ListenerMembers {
    /// Where it listens.
    pub address: NetAddress,
    /// Each member's session, with how many connections it has and waits for.
    pub members: Vec<(ObjectId, u32, u32)>,
}

/// The shared listeners of all loops.
#[derive(Default)]
pub struct Listeners(Mutex<HashMap<Key, Arc<Listener>>>);

impl Listeners {
    /// The one at an address, or the one that `open` makes there.
    pub(crate) fn find_or(
        &self,
        key: Key,
        open: impl FnOnce() -> Result<Arc<Listener>, i32>,
    ) -> Result<Arc<Listener>, i32> {
        let mut all = lock(&self.0);
        if let Some(found) = all.get(&key) {
            return Ok(found.clone());
        }
        let made = open()?;
        all.insert(made.key.unwrap_or(key), made.clone());
        Ok(made)
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

//! Members that poll a listener: they are told of what waits there and no edge tells of.
//!
//! A connection whose first bytes were awaited, or that came back, is ready when the kernel's queue is
//! empty. Who polls says so here before it looks whether one is ready, and who makes one ready looks here
//! afterwards: one of the two sees the other.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use heliostat_service_listener::Member;

/// Members that poll, and the loops that have their sessions.
#[derive(Default)]
pub(crate) struct Polled(Mutex<BTreeMap<Member, usize>>);

impl Polled {
    /// A member polls.
    pub fn add(&self, member: Member, on: usize) {
        self.lock().insert(member, on);
    }

    /// A member has left.
    pub fn remove(&self, member: Member) {
        self.lock().remove(&member);
    }

    /// All who poll; they are told once.
    pub fn take(&self) -> BTreeMap<Member, usize> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Member, usize>> {
        // A loop that ended inside has ended all loops.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

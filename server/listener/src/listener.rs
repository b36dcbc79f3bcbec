//! One shared listener, as the thread has it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;
use heliostat_service_listener::Balance;

use crate::held::HeldConnections;
use crate::plugin::Plugin;
use crate::worker::Worker;

/// What is counted of a listener.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections given to a worker, again where they were taken back.
    pub given: u64,
    /// Connections taken back from a worker that had not taken them.
    pub taken_back: u64,
    /// Clients that were silent beyond the deadline, and were given by load.
    pub silent: u64,
    /// Connections on which the plug-in said nothing, or nothing of use, in time.
    pub unanswered: u64,
    /// Records of the plug-in that were none.
    pub garbage: u64,
}

/// A listener.
pub struct SharedListener {
    /// The decision.
    pub balance: Balance,
    /// Its listening sockets, each with its token.
    pub sockets: Vec<(u64, OwnedFd)>,
    /// Its workers.
    pub workers: BTreeMap<ObjectId, Worker>,
    /// Connections that nobody has yet.
    pub held: HeldConnections,
    /// Who is asked, where somebody is.
    pub plugin: Option<Plugin>,
    /// Whether connections are accepted now; otherwise they stay with the kernel.
    pub is_open: bool,
    /// After a failure to accept: not before this.
    pub pause_until_ns: u64,
    /// What is counted.
    pub counts: Counts,
}

impl SharedListener {
    /// One without sockets and workers.
    pub fn new(rule: Rule, seed: u64) -> SharedListener {
        SharedListener {
            balance: Balance::new(rule, seed),
            sockets: Vec::new(),
            workers: BTreeMap::new(),
            held: HeldConnections::default(),
            plugin: None,
            is_open: false,
            pause_until_ns: 0,
            counts: Counts::default(),
        }
    }

    /// Looks at what the workers and the kernel say now.
    pub fn refresh(&mut self, now_ns: u64) {
        for (id, worker) in &self.workers {
            let Some(seat) = self.balance.seat_mut(*id) else { continue };
            // Its word first: what it has closed by now it has taken before the kernel is asked.
            let (closed, weight) = worker.told();
            if seat.untaken() > 0 {
                seat.see_untaken(worker.queue.untaken(), now_ns);
            }
            seat.hear(closed, weight, now_ns);
        }
    }

    /// Whether something has to be looked at again without an event: a queue that is not emptied.
    pub fn has_untaken(&self) -> bool {
        self.balance.seats().iter().any(|seat| seat.untaken() > 0)
    }
}

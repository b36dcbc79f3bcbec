//! The shared listener, as its thread has it.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;
use heliostat_service_listener::{Balance, Standing};
use tracing::warn;

use crate::closing::{Foreign, Owner};
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

/// A listening socket.
pub struct Listening {
    /// Its poll token.
    pub token: u64,
    /// It.
    pub fd: Arc<Foreign>,
    /// A thread accepts on it: meanwhile nobody waits for its connections.
    pub is_away: bool,
}

/// A listener.
pub struct SharedListener {
    /// Which, for the log.
    pub id: ObjectId,
    /// Whose it is.
    pub owner: Owner,
    /// The decision.
    pub balance: Balance,
    /// Its listening sockets.
    pub sockets: Vec<Listening>,
    /// Its workers.
    pub workers: BTreeMap<ObjectId, Worker>,
    /// Connections that nobody has yet.
    pub held: HeldConnections,
    /// Who is asked, where somebody is.
    pub plugin: Option<Plugin>,
    /// Whether connections are accepted now; otherwise they stay with the kernel.
    pub is_open: bool,
    /// Its owner has as many connections that nobody has taken as there may be.
    pub lacks_share: bool,
    /// Connections of it that count against its owner's share.
    pub counted: u64,
    /// After a failure to accept: not before this.
    pub pause_until_ns: u64,
    /// What is counted.
    pub counts: Counts,
}

impl SharedListener {
    /// One without sockets and workers.
    pub fn new(id: ObjectId, owner: Owner, rule: Rule) -> SharedListener {
        // Random by the keys of the standard library's hasher.
        let seed = RandomState::new().hash_one(id.index);
        SharedListener {
            id,
            owner,
            balance: Balance::new(rule, seed),
            sockets: Vec::new(),
            workers: BTreeMap::new(),
            held: HeldConnections::default(),
            plugin: None,
            is_open: false,
            lacks_share: false,
            counted: 0,
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

    /// Puts what nobody has yet into its workers' queues by turns, however full they are; those that
    /// drain get nothing, and those that have not waited yet where nobody has.
    pub fn part_with_all(&mut self) {
        let of = |standing| {
            let seats = self.balance.seats().iter().filter(move |it| it.standing == standing);
            seats.map(|it| it.worker).collect::<VecDeque<ObjectId>>()
        };
        let mut turns = of(Standing::Ready);
        if turns.is_empty() {
            turns = of(Standing::Joined);
        }
        let mut lost = 0;
        for (handed, fd) in std::mem::take(&mut self.held.unplaced) {
            let is_given = (0..turns.len()).any(|_| {
                turns.rotate_left(1);
                let worker = turns.back().and_then(|id| self.workers.get(id));
                worker.is_some_and(|worker| worker.queue.put(&handed, &fd).is_ok())
            });
            lost += u64::from(!is_given);
        }
        if lost > 0 {
            warn!(connections = lost, "no worker had room for what a shared listener had left");
        }
    }

    /// Whether something has to be looked at again without an event: a queue that is not emptied.
    pub fn has_untaken(&self) -> bool {
        self.balance.seats().iter().any(|seat| seat.untaken() > 0)
    }
}

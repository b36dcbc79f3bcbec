//! Who takes the next connection: the workers of one listener, and the rule.
//!
//! A worker has no more than [`QUEUE_MAX`] connections that it has not taken. Where all have as many
//! nobody is chosen, and the connection stays with the kernel until one is taken: the later it is
//! decided who takes a connection, the better it is known who is free.

use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;

use crate::choice::{Candidate, Choice, Key, BOUND_NS};
use crate::seat::{Seat, Standing};

/// Connections that a worker has been given and has not taken: so many that a program that takes all
/// it finds at once need not wait in between, and no more are decided too early.
pub const QUEUE_MAX: u64 = 8;
/// A worker that takes nothing for so long is passed over.
const TAKE_NS: u64 = 200_000_000;

/// The workers of one listener.
#[derive(Clone, Debug)]
pub struct Balance {
    choice: Choice,
    /// In order of place.
    seats: Vec<Seat>,
}

impl Balance {
    /// A listener without workers.
    pub fn new(rule: Rule, seed: u64) -> Balance {
        Balance { choice: Choice::new(rule, seed), seats: Vec::new() }
    }

    /// The rule.
    pub fn rule(&self) -> Rule {
        self.choice.rule()
    }

    /// Another rule for connections to come.
    pub fn set_rule(&mut self, rule: Rule) {
        self.choice.set_rule(rule);
    }

    /// The workers, in order of place.
    pub fn seats(&self) -> &[Seat] {
        &self.seats
    }

    /// One more worker.
    pub fn add(&mut self, seat: Seat) {
        let at = self.seats.partition_point(|it| it.place < seat.place);
        self.seats.insert(at, seat);
    }

    /// One less.
    pub fn remove(&mut self, worker: ObjectId) {
        self.seats.retain(|seat| seat.worker != worker);
    }

    /// One worker, to change.
    pub fn seat_mut(&mut self, worker: ObjectId) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|seat| seat.worker == worker)
    }

    /// Whether anybody is given connections.
    pub fn is_served(&self) -> bool {
        self.seats.iter().any(|seat| seat.standing == Standing::Ready)
    }

    /// Who takes a connection; nobody while all have as many untaken as may be. Who was passed over
    /// comes after all others, but for one that is tried again.
    pub fn choose(&mut self, key: Key<'_>, now_ns: u64) -> Option<ObjectId> {
        let has_room =
            |seat: &&Seat| seat.standing == Standing::Ready && seat.untaken() < QUEUE_MAX;
        let mut awake = self.seats.iter().filter(has_room).filter(|it| !it.is_passed_over(now_ns));
        let chosen = self.choice.best(key, &mut awake);
        let chosen =
            chosen.or_else(|| self.choice.best(key, self.seats.iter().filter(has_room)))?;
        let (worker, place) = (chosen.worker, chosen.place);
        self.choice.took(place);
        Some(worker)
    }

    /// Workers that have left something in their queues for too long although another has room and
    /// has nothing to take: what they have not taken is better given to those.
    pub fn overdue(&self, now_ns: u64) -> Vec<ObjectId> {
        let deadline = if self.choice.is_bound() { BOUND_NS } else { TAKE_NS };
        let is_free = |seat: &Seat| {
            let is_up = seat.standing == Standing::Ready && !seat.is_passed_over(now_ns);
            is_up && seat.untaken() == 0
        };
        if !self.seats.iter().any(is_free) {
            return Vec::new();
        }
        let late = self.seats.iter().filter(|seat| seat.is_overdue(now_ns, deadline));
        late.map(|seat| seat.worker).collect()
    }
}

impl Candidate for &Seat {
    fn place(&self) -> u32 {
        self.place
    }

    fn load(&self) -> u64 {
        self.load.value()
    }
}

//! Who takes the next connection: the workers of one listener, and the rule.
//!
//! A worker has no more than [`QUEUE_MAX`] connections that it has not taken. Where all have as many
//! nobody is chosen, and the connection stays with the kernel until one is taken: the later it is
//! decided who takes a connection, the better it is known who is free.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};

use heliostat_abi::listener::Rule;
use heliostat_abi::name::ObjectId;

use crate::seat::{Seat, Standing};

/// Connections that a worker has been given and has not taken: so many that a program that takes all
/// it finds at once need not wait in between, and no more are decided too early.
pub const QUEUE_MAX: u64 = 8;
/// A worker that takes nothing for so long is passed over.
const TAKE_NS: u64 = 200_000_000;
/// The same where the rule says which worker it is to be.
const TAKE_BOUND_NS: u64 = 1_000_000_000;

/// What a decision may go by, beside load and turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key<'a> {
    /// Nothing.
    None,
    /// Bytes: those of an address, or the first of a connection. Equal ones go to one worker.
    Bytes(&'a [u8]),
    /// The place that a plug-in has named.
    Place(u32),
}

/// The workers of one listener.
#[derive(Clone, Debug)]
pub struct Balance {
    rule: Rule,
    /// In order of place.
    seats: Vec<Seat>,
    /// The place whose turn it is, or the next one.
    turn: u32,
    /// So that nobody outside can aim at one worker.
    seed: u64,
}

impl Balance {
    /// A listener without workers.
    pub fn new(rule: Rule, seed: u64) -> Balance {
        Balance { rule, seats: Vec::new(), turn: 0, seed }
    }

    /// The rule.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Another rule for connections to come.
    pub fn set_rule(&mut self, rule: Rule) {
        self.rule = rule;
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
        let best = |seats: &mut dyn Iterator<Item = &Seat>| self.best(key, seats);
        let mut awake = self.seats.iter().filter(has_room).filter(|it| !it.is_passed_over(now_ns));
        let chosen = best(&mut awake).or_else(|| best(&mut self.seats.iter().filter(has_room)))?;
        self.turn = chosen.1 + 1;
        Some(chosen.0)
    }

    fn best(
        &self,
        key: Key<'_>,
        seats: &mut dyn Iterator<Item = &Seat>,
    ) -> Option<(ObjectId, u32)> {
        let distance = |seat: &Seat| seat.place.wrapping_sub(self.turn);
        let by_load = |seat: &Seat| (seat.load.value(), distance(seat));
        let found = match (self.rule, key) {
            (Rule::RoundRobin, _) => seats.min_by_key(|seat| distance(seat)),
            (Rule::Address | Rule::Content(_), Key::Bytes(bytes)) => {
                seats.max_by_key(|seat| (self.weight(seat.place, bytes), Reverse(seat.place)))
            }
            (Rule::Plugin(_), Key::Place(place)) => {
                seats.min_by_key(|seat| (seat.place != place, by_load(seat)))
            }
            _ => seats.min_by_key(|seat| by_load(seat)),
        };
        found.map(|seat| (seat.worker, seat.place))
    }

    /// Rendezvous hashing: who leaves takes only its own keys along, to all others alike.
    fn weight(&self, place: u32, bytes: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, place, bytes).hash(&mut hasher);
        hasher.finish()
    }

    /// Workers that have left something in their queues for too long although another has room and
    /// has nothing to take: what they have not taken is better given to those.
    pub fn overdue(&self, now_ns: u64) -> Vec<ObjectId> {
        let is_bound = matches!(self.rule, Rule::Address | Rule::Content(_) | Rule::Plugin(_));
        let deadline = if is_bound { TAKE_BOUND_NS } else { TAKE_NS };
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

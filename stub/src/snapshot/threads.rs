//! Versions of memory that many threads write: a barrier for threads that go in step, a gate for
//! threads that do not.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use heliostat_base::{call, process};
use heliostat_ring::gate;

use super::named::NamedRegion;
use super::outcome::{PublishError, Published};
use super::region::Region;

/// What makes versions: a region, with or without a name.
pub trait Publisher: Send {
    /// Makes a version while nobody writes.
    fn publish_now(&mut self) -> Result<Published, PublishError>;
}

impl Publisher for Region {
    fn publish_now(&mut self) -> Result<Published, PublishError> {
        self.publish()
    }
}

impl Publisher for NamedRegion {
    fn publish_now(&mut self) -> Result<Published, PublishError> {
        self.publish()
    }
}

/// A thread that was waited for in vain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// Its name, as the thread was called when it joined.
    pub name: String,
    /// Its number, 0 for one that never joined.
    pub tid: i32,
    /// It has ended without leaving.
    pub is_dead: bool,
}

impl Missing {
    fn new((name, tid): &(String, i32)) -> Self {
        Self { name: name.clone(), tid: *tid, is_dead: !call::thread_exists(*tid) }
    }
}

/// Why no version was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StepError {
    /// These threads did not come, or go out, in time.
    Late(Vec<Missing>),
    /// All places are taken.
    NoPlace {
        /// Writers there may be.
        limit: usize,
    },
    /// The version could not be made.
    Publish(PublishError),
}

impl std::fmt::Display for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Late(missing) => {
                f.write_str("waited in vain for")?;
                missing.iter().try_for_each(|it| {
                    let end = if it.is_dead { ", which has ended" } else { "" };
                    write!(f, " {} (thread {}{end})", it.name, it.tid)
                })
            }
            Self::NoPlace { limit } => write!(f, "all {limit} writers have joined"),
            Self::Publish(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for StepError {}

fn here() -> (String, i32) {
    let name = std::thread::current().name().unwrap_or("unnamed").to_owned();
    (name, process::tid())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Round<R> {
    publisher: R,
    /// Of each place: who has it, and whether it has arrived.
    places: Vec<Option<((String, i32), bool)>>,
    /// Writers that the next version waits for, joined or not.
    expected: usize,
    number: u64,
    outcome: Option<Result<Published, PublishError>>,
}

impl<R: Publisher> Round<R> {
    /// Publishes if everybody has arrived.
    fn finish(&mut self) -> bool {
        let arrived = self.places.iter().flatten().filter(|place| place.1).count();
        let is_whole = arrived == self.expected && arrived > 0;
        if is_whole {
            self.outcome = Some(self.publisher.publish_now());
            self.places.iter_mut().flatten().for_each(|place| place.1 = false);
            self.number += 1;
        }
        is_whole
    }

    fn missing(&self) -> Vec<Missing> {
        let joined = self.places.iter().flatten();
        let late = joined.clone().filter(|place| !place.1).map(|place| Missing::new(&place.0));
        let never = Missing { name: "a writer that never joined".into(), tid: 0, is_dead: false };
        let absent = self.expected.saturating_sub(joined.count());
        late.chain(std::iter::repeat_n(never, absent)).collect()
    }
}

/// For threads that go in step: the last to arrive publishes, then all go on.
pub struct Barrier<R>(Mutex<Round<R>>, Condvar);

impl<R: Publisher> Barrier<R> {
    /// A barrier for so many writers, each of which has to `join`.
    pub fn new(publisher: R, writers: usize) -> Self {
        let places = (0..writers).map(|_| None).collect();
        let round = Round { publisher, places, expected: writers, number: 0, outcome: None };
        Self(Mutex::new(round), Condvar::new())
    }

    /// Makes the calling thread one of the writers.
    pub fn join(&self) -> Result<Member<'_, R>, StepError> {
        let mut round = lock(&self.0);
        let limit = round.places.len();
        let joined = round.places.iter().flatten().count();
        let free = round.places.iter().position(Option::is_none);
        let place = free.filter(|_| joined < round.expected).ok_or(StepError::NoPlace { limit })?;
        round.places[place] = Some((here(), false));
        Ok(Member { barrier: self, place })
    }
}

/// One writer of a barrier. Dropped, it is not waited for any more.
pub struct Member<'a, R: Publisher> {
    barrier: &'a Barrier<R>,
    place: usize,
}

impl<R: Publisher> Member<'_, R> {
    /// Waits until all writers have arrived and the version is made, `limit` at most. After `Late`
    /// this writer has not arrived, and the barrier is as if it had not been called.
    pub fn arrive(&self, limit: Option<Duration>) -> Result<Published, StepError> {
        let ends = limit.map(|limit| Instant::now() + limit);
        let mut round = lock(&self.barrier.0);
        let number = round.number;
        self.set_arrived(&mut round, true);
        if round.finish() {
            self.barrier.1.notify_all();
        }
        while round.number == number {
            let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                let missing = round.missing();
                self.set_arrived(&mut round, false);
                return Err(StepError::Late(missing));
            }
            let (signal, left) = (&self.barrier.1, left.unwrap_or(Duration::from_secs(3600)));
            round = signal.wait_timeout(round, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        // Nobody gets to the end of the next round before this one has arrived there.
        let outcome = round.outcome.clone().unwrap_or(Err(PublishError::Full { alive: 0 }));
        outcome.map_err(StepError::Publish)
    }

    fn set_arrived(&self, round: &mut Round<R>, arrived: bool) {
        if let Some(place) = &mut round.places[self.place] {
            place.1 = arrived;
        }
    }
}

impl<R: Publisher> Drop for Member<'_, R> {
    fn drop(&mut self) {
        let mut round = lock(&self.barrier.0);
        round.places[self.place] = None;
        round.expected -= 1;
        // It may have been the one that all others waited for.
        if round.finish() {
            self.barrier.1.notify_all();
        }
    }
}

/// For threads without a common step: each writes between `write` and the end of its guard, which
/// costs a word of its own, and `publish` waits until nobody is between.
pub struct Gate<R> {
    gate: gate::Gate,
    publisher: Mutex<R>,
    places: Mutex<Vec<Option<(String, i32)>>>,
}

impl<R: Publisher> Gate<R> {
    /// A gate for so many writers, each of which has to `join`.
    pub fn new(publisher: R, writers: usize) -> Self {
        let places = Mutex::new((0..writers).map(|_| None).collect());
        Self { gate: gate::Gate::new(writers), publisher: Mutex::new(publisher), places }
    }

    /// Makes the calling thread one of the writers.
    pub fn join(&self) -> Result<Writer<'_, R>, StepError> {
        let mut places = lock(&self.places);
        let limit = places.len();
        let place = places.iter().position(Option::is_none);
        let place = place.ok_or(StepError::NoPlace { limit })?;
        places[place] = Some(here());
        Ok(Writer { gate: self, place })
    }

    /// Waits until nobody writes, `limit` at most, makes a version and lets go on. A thread that
    /// holds a guard itself would wait for itself.
    pub fn publish(&self, limit: Option<Duration>) -> Result<Published, StepError> {
        let mut publisher = lock(&self.publisher);
        if !self.gate.shut(limit) {
            let places = lock(&self.places);
            let inside = places.iter().enumerate().filter(|place| self.gate.is_inside(place.0));
            let late = inside.filter_map(|(_, who)| who.as_ref().map(Missing::new)).collect();
            return Err(StepError::Late(late));
        }
        let outcome = publisher.publish_now();
        self.gate.open();
        outcome.map_err(StepError::Publish)
    }
}

/// One writer of a gate.
pub struct Writer<'a, R: Publisher> {
    gate: &'a Gate<R>,
    place: usize,
}

impl<R: Publisher> Writer<'_, R> {
    /// Waits while a version is made; then this thread may write until the guard is dropped.
    pub fn write(&mut self) -> WriteGuard<'_> {
        self.gate.gate.enter(self.place);
        WriteGuard { gate: &self.gate.gate, place: self.place }
    }
}

impl<R: Publisher> Drop for Writer<'_, R> {
    fn drop(&mut self) {
        lock(&self.gate.places)[self.place] = None;
    }
}

/// While it lives, no version is made.
pub struct WriteGuard<'a> {
    gate: &'a gate::Gate,
    place: usize,
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.gate.leave(self.place);
    }
}

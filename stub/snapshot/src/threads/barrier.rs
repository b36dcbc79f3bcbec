//! For threads that go in step: the last to arrive at its quiescent point publishes.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{here, lock, Missing, Publisher, StepError};
use crate::outcome::{PublishError, Published};

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
        // A limit beyond what the clock can tell is none.
        let ends = limit.and_then(|limit| Instant::now().checked_add(limit));
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

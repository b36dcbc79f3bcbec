//! For threads without a common step: a version is made while nobody is between two words.

use std::sync::Mutex;
use std::time::Duration;

use heliostat_ring::gate;

use super::{here, lock, Missing, Publisher, StepError};
use crate::outcome::Published;

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

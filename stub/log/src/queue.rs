//! A queue by its place: a log whose entries are handed out, and go when they are acknowledged.

use std::ops::Deref;
use std::sync::Arc;

use heliostat_backend_log::{Appended, LogError, Queue as Plain};
use heliostat_base::event::Event;

use crate::error::OpenError;
use crate::log::Log;
use crate::place::Place;

/// A queue in a log that is used for nothing else. Clones are handles of the same one, for any thread:
/// any number of producers and consumers of one process.
#[derive(Clone, Debug)]
pub struct Queue {
    log: Log,
    queue: Arc<Plain>,
}

impl Queue {
    /// Makes a queue of so many bytes, as [`Log::create`] does a log.
    ///
    /// # Errors
    /// As there.
    pub fn create(place: impl Into<Place>, bytes: u64) -> Result<Queue, OpenError> {
        Log::create(place, bytes).map(Queue::of)
    }

    /// Opens a queue. What was handed out before and whose acknowledgement is not durable comes again.
    ///
    /// # Errors
    /// As for [`Log::open`].
    pub fn open(place: impl Into<Place>) -> Result<Queue, OpenError> {
        Log::open(place).map(Queue::of)
    }

    /// Opens a queue, or makes one of so many bytes where there is nothing.
    ///
    /// # Errors
    /// As for `open` and `create`.
    pub fn open_or_create(place: impl Into<Place>, bytes: u64) -> Result<Queue, OpenError> {
        Log::open_or_create(place, bytes).map(Queue::of)
    }

    /// Uses a log as a queue.
    pub fn of(log: Log) -> Queue {
        let queue = Arc::new(Plain::new((*log).clone()));
        Queue { log, queue }
    }

    /// Appends an entry and returns at once, as [`Log::append`] does. It can be taken when it is
    /// durable.
    ///
    /// # Errors
    /// As there.
    pub fn push(&self, payload: &[u8]) -> Result<Appended, LogError> {
        self.log.append(payload)
    }

    /// A descriptor that becomes readable when there may be more to take, or the log has failed.
    ///
    /// # Errors
    /// As for [`Log::event`].
    pub fn event(&self) -> Result<Event, LogError> {
        self.log.event()
    }

    /// The log underneath.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Lets nobody push any more, waits for what is under way, and makes durable what was
    /// acknowledged.
    ///
    /// # Errors
    /// As for [`Log::close`].
    pub fn close(self) -> Result<(), LogError> {
        self.log.close()
    }
}

/// Everything else a queue does by itself.
impl Deref for Queue {
    type Target = Plain;

    fn deref(&self) -> &Plain {
        &self.queue
    }
}

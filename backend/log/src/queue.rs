//! A queue: a log whose entries are handed out in order, and go when they are acknowledged.
//!
//! ```text
//! push -> log -> pop (handed out) -> acknowledge -> the log's begin moves on
//!                   ^      |
//!                   +------+  given back, or a crash before the acknowledgement was durable
//! ```
//!
//! The durable position of the consumers is the begin in the log's header; what they have acknowledged
//! out of order are its marks, a bit for each of the next 2,048 entries. So an acknowledgement that
//! is durable is never forgotten, and an entry is handed out again only if its own is not.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::LogError;
use crate::format::{Marks, Position};
use crate::log::Log;
use crate::reader::{Entry, Reader};
use crate::reservation::Appended;
use crate::waiting::Slot;

/// An entry that was handed out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// What to acknowledge.
    pub position: Position,
    /// What was pushed.
    pub payload: Vec<u8>,
}

/// A queue in a log that is used for nothing else. For any number of producers and consumers.
pub struct Queue {
    log: Log,
    consumers: Mutex<Consumers>,
}

struct Consumers {
    reader: Reader,
    begin: Position,
    marks: Marks,
    /// Handed out once and not acknowledged, by sequence number.
    outstanding: BTreeMap<u64, Position>,
    /// Of those, the ones to hand out again.
    returned: VecDeque<Position>,
}

impl Queue {
    /// Uses a log as a queue. What was handed out before and not acknowledged comes again.
    pub fn new(log: Log) -> Queue {
        log.core.become_queue();
        let (begin, marks) = {
            let space = log.core.space();
            (space.begin, space.marks)
        };
        let reader = Reader::new(log.core.clone(), begin);
        let (outstanding, returned) = (BTreeMap::new(), VecDeque::new());
        let consumers = Consumers { reader, begin, marks, outstanding, returned };
        Queue { log, consumers: Mutex::new(consumers) }
    }

    /// The log underneath.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Appends an entry, as [`Log::append`] does.
    ///
    /// # Errors
    /// As there.
    pub fn push(&self, payload: &[u8]) -> Result<Appended, LogError> {
        self.log.append(payload)
    }

    /// Takes the next durable entry that nobody has, or none.
    ///
    /// # Errors
    /// So many are handed out that no more may be, or the entry is damaged.
    pub fn pop(&self) -> Result<Option<Item>, LogError> {
        let mut consumers = self.consumers();
        if let Some(position) = consumers.returned.pop_front() {
            if !consumers.has_mark(position) {
                consumers.returned.push_front(position);
                return Err(LogError::Taken { limit: Marks::ENTRIES });
            }
            let again = self.log.read_from(position).and_then(|mut reader| reader.read());
            if again.is_err() {
                consumers.returned.push_front(position);
            }
            return Ok(again?.map(Item::from));
        }
        consumers.next()
    }

    /// Takes the next entry, and waits for one at most so long. Drives the device if nobody does.
    ///
    /// # Errors
    /// As for `pop`, or the log has failed.
    pub fn pop_wait(&self, timeout: Duration) -> Result<Option<Item>, LogError> {
        let until = Instant::now().checked_add(timeout);
        let core = &self.log.core;
        // It is asked while the device is driven, and who has the lock may wait for the device.
        let has_more = || match self.consumers.try_lock() {
            Ok(consumers) => {
                let is_behind = consumers.reader.position().at < core.durable();
                (is_behind || !consumers.returned.is_empty()).then_some(())
            }
            Err(_) => Some(()),
        };
        loop {
            if let Some(item) = self.pop()? {
                return Ok(Some(item));
            }
            if core.wait_until(Slot::Any, until, has_more)?.is_none() {
                return Ok(None);
            }
        }
    }

    /// Says that an entry was dealt with. Returns at once; it becomes durable with the next header
    /// block, and a crash before that has the entry handed out again.
    ///
    /// # Errors
    /// The entry is not handed out.
    pub fn acknowledge(&self, position: Position) -> Result<(), LogError> {
        let mut consumers = self.consumers();
        consumers.acknowledge(position)?;
        self.log.core.advance(consumers.begin, consumers.marks);
        Ok(())
    }

    /// The same, and waits until it is durable. Acknowledgements of several consumers share a write.
    ///
    /// # Errors
    /// As for `acknowledge`, or the log has failed.
    pub fn acknowledge_sync(&self, position: Position) -> Result<(), LogError> {
        self.acknowledge(position)?;
        self.log.checkpoint()
    }

    /// Gives an entry back, for the next who takes one.
    ///
    /// # Errors
    /// The entry is not handed out.
    pub fn give_back(&self, position: Position) -> Result<(), LogError> {
        let mut consumers = self.consumers();
        let is_out = consumers.outstanding.get(&position.sequence) == Some(&position);
        if !is_out || consumers.returned.contains(&position) {
            return Err(LogError::NotTaken { position });
        }
        consumers.returned.push_back(position);
        drop(consumers);
        self.log.core.notices.ring();
        self.log.core.waiting.wake(Slot::Any);
        Ok(())
    }

    fn consumers(&self) -> MutexGuard<'_, Consumers> {
        self.consumers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Consumers {
    fn next(&mut self) -> Result<Option<Item>, LogError> {
        loop {
            if !self.has_mark(self.reader.position()) {
                return Err(LogError::Taken { limit: Marks::ENTRIES });
            }
            let Some(entry) = self.reader.read()? else {
                return Ok(None);
            };
            if !self.marks.has(self.offset(entry.position)) {
                self.outstanding.insert(entry.position.sequence, entry.position);
                if self.has_mark(entry.position) {
                    return Ok(Some(Item::from(entry)));
                }
                // Fillers lay before it.
                self.returned.push_back(entry.position);
                return Err(LogError::Taken { limit: Marks::ENTRIES });
            }
            self.settle();
        }
    }

    fn acknowledge(&mut self, position: Position) -> Result<(), LogError> {
        let is_out = self.outstanding.get(&position.sequence) == Some(&position);
        if !is_out || self.returned.contains(&position) {
            return Err(LogError::NotTaken { position });
        }
        self.outstanding.remove(&position.sequence);
        self.marks.set(self.offset(position));
        self.settle();
        Ok(())
    }

    fn offset(&self, position: Position) -> u64 {
        position.sequence.saturating_sub(self.begin.sequence)
    }

    /// Whether an entry is close enough to the begin to be acknowledged out of order.
    fn has_mark(&self, position: Position) -> bool {
        self.offset(position) < Marks::ENTRIES
    }

    /// Moves the begin to the first entry that is still wanted.
    fn settle(&mut self) {
        let first = self.outstanding.values().next().copied();
        let begin = first.unwrap_or(self.reader.position());
        self.marks = self.marks.after(begin.sequence - self.begin.sequence);
        self.begin = begin;
    }
}

impl From<Entry> for Item {
    fn from(entry: Entry) -> Item {
        Item { position: entry.position, payload: entry.payload }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("log", &self.log).finish_non_exhaustive()
    }
}

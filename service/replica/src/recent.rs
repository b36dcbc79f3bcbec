//! The requests that were done last, so that none is done twice.

use std::collections::{HashMap, VecDeque};

use crate::placement::RequestId;

/// How many are kept for each region.
pub const RECENT_MAX: usize = 4096;

/// Requests with their entries and answers. Equal on all replicas, since it follows from the entries.
#[derive(Clone, Debug)]
pub struct Recent {
    order: VecDeque<(u64, RequestId)>,
    found: HashMap<RequestId, (u64, u64)>,
    /// Requests of this entry and before are forgotten, or were never known here.
    forgotten: u64,
    most: usize,
}

/// What is known of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// It was done by this entry, and a word was this.
    Done(u64, u64),
    /// It was not done.
    New,
    /// It may have been done by an entry that is forgotten.
    Forgotten,
}

impl Recent {
    /// Nothing is known of entries up to this one.
    pub fn after(entry: u64, most: usize) -> Recent {
        Recent { order: VecDeque::new(), found: HashMap::new(), forgotten: entry, most }
    }

    /// Keeps a request that an entry has done.
    pub fn keep(&mut self, entry: u64, id: RequestId, word: u64) {
        self.order.push_back((entry, id));
        self.found.insert(id, (entry, word));
        while self.order.len() > self.most {
            if let Some((old, id)) = self.order.pop_front() {
                self.found.remove(&id);
                self.forgotten = old;
            }
        }
    }

    /// What is known of a request that was first made after the entry `floor` was answered.
    pub(crate) fn look(&self, id: RequestId, floor: u64) -> Known {
        match self.found.get(&id) {
            Some((entry, word)) => Known::Done(*entry, *word),
            None if floor >= self.forgotten => Known::New,
            None => Known::Forgotten,
        }
    }
}

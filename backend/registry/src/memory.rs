//! The registry of one process: a shared store, and users that can lose what they ask and are told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::key::Key;
use crate::registry::{Event, Operation, Outcome, Registry, WatchId, Why};
use crate::registry::{OPERATIONS_MAX, WATCHES_MAX};
use crate::store::{LeaseId, Limits, Store, Watched};

/// A store that several users have, on any threads.
#[derive(Clone, Debug)]
pub struct SharedStore(Arc<Mutex<Store>>);

impl SharedStore {
    /// As [`Store::new`].
    pub fn new(first: u64, limits: Limits) -> SharedStore {
        SharedStore(Arc::new(Mutex::new(Store::new(first, limits))))
    }

    /// The store, for as long as it takes to do one operation.
    pub fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which of the next operations are lost, and where: 0 for none. Tests set it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Loss {
    /// Everything arrives.
    #[default]
    None,
    /// What is asked does not reach the store.
    Requests,
    /// It is done, and nobody hears of it.
    Answers,
}

/// One user of a store in this process.
#[derive(Debug)]
pub struct Memory {
    store: SharedStore,
    lease: LeaseId,
    loss: Loss,
    begun: VecDeque<(u64, Operation, u64)>,
    /// What was lost: told at the deadline, with its token.
    lost: BTreeMap<(u64, u64), Outcome>,
    watches: BTreeMap<WatchId, (Key, u64)>,
    last_watch: u64,
    events: VecDeque<Event>,
}

impl Memory {
    /// A user whose lease has this name.
    pub fn new(store: SharedStore, lease: LeaseId) -> Memory {
        Memory {
            store,
            lease,
            loss: Loss::None,
            begun: VecDeque::new(),
            lost: BTreeMap::new(),
            watches: BTreeMap::new(),
            last_watch: 0,
            events: VecDeque::new(),
        }
    }

    /// Loses from now on what is said.
    pub fn lose(&mut self, loss: Loss) {
        self.loss = loss;
    }

    fn carry_out(&mut self, now_ns: u64) {
        while let Some((token, operation, deadline_ns)) = self.begun.pop_front() {
            let is_read = matches!(operation, Operation::Get { .. } | Operation::List { .. });
            if deadline_ns <= now_ns {
                self.events.push_back(ended(token, Outcome::NotDone(Why::Deadline)));
                continue;
            }
            let outcome = match self.loss {
                Loss::Requests => None,
                Loss::Answers => {
                    self.store.lock().apply(self.lease, operation, now_ns);
                    None
                }
                Loss::None => Some(self.store.lock().apply(self.lease, operation, now_ns)),
            };
            let in_vain = if is_read { Outcome::NotDone } else { Outcome::Unknown };
            match outcome {
                Some(outcome) => self.events.push_back(ended(token, outcome)),
                None => {
                    self.lost.insert((deadline_ns, token), in_vain(Why::Deadline));
                }
            }
        }
        while self.lost.first_key_value().is_some_and(|((due, _), _)| *due <= now_ns) {
            if let Some(((_, token), outcome)) = self.lost.pop_first() {
                self.events.push_back(ended(token, outcome));
            }
        }
    }

    fn look(&mut self, now_ns: u64) {
        if self.loss != Loss::None {
            return;
        }
        let mut store = self.store.lock();
        store.pass_time(now_ns);
        let (mut broken, events) = (Vec::new(), &mut self.events);
        for (watch, (prefix, after)) in &mut self.watches {
            match store.changes(prefix, *after) {
                Watched::Changes { changes, upto } => {
                    *after = upto;
                    let told = changes.into_iter();
                    events.extend(told.map(|change| Event::Changed { watch: *watch, change }));
                }
                Watched::Broken => broken.push(*watch),
            }
        }
        for watch in broken {
            self.watches.remove(&watch);
            let why = "changes are not kept so long".to_owned();
            events.push_back(Event::Broken { watch, why });
        }
    }
}

fn ended(token: u64, outcome: Outcome) -> Event {
    Event::Ended { token, outcome }
}

impl Registry for Memory {
    fn begin(&mut self, token: u64, operation: Operation, deadline_ns: u64) {
        if self.begun.len() + self.lost.len() >= OPERATIONS_MAX {
            let full = Why::Full { what: "operations", limit: OPERATIONS_MAX };
            return self.events.push_back(ended(token, Outcome::NotDone(full)));
        }
        self.begun.push_back((token, operation, deadline_ns));
    }

    fn watch(&mut self, prefix: Key, after: u64) -> Option<WatchId> {
        if self.watches.len() >= WATCHES_MAX {
            return None;
        }
        self.last_watch += 1;
        let watch = WatchId(self.last_watch);
        self.watches.insert(watch, (prefix, after));
        Some(watch)
    }

    fn unwatch(&mut self, watch: WatchId) {
        self.watches.remove(&watch);
        self.events
            .retain(|event| !matches!(event, Event::Changed { watch: of, .. } if *of == watch));
    }

    fn next_event(&mut self, now_ns: u64) -> Option<Event> {
        self.carry_out(now_ns);
        if self.events.is_empty() {
            self.look(now_ns);
        }
        self.events.pop_front()
    }
}

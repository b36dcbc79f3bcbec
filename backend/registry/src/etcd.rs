//! A registry in etcd, by its JSON gateway.
//!
//! ```text
//! begin --> work thread: range, txn, lease/grant ---+
//!       --> keep thread: lease/keepalive -----------+--> the next endpoint that answers
//! watch --> a thread each: a stream of changes -----+
//! ```
//! A keep-alive has a thread of its own, so that it never waits behind a slow operation; it is not in
//! order with others. Each operation has a connection of its own: what went wrong on it says whether it
//! was sent. A watch is begun anew every few seconds behind the last change that it told, so that a
//! connection which died silently is noticed. All threads sleep where nothing happens.

mod access;
mod client;
mod failure;
mod json;
mod request;
mod watch;

use std::collections::BTreeMap;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use heliostat_base::clock::monotonic_ns;

use crate::key::Key;
use crate::registry::{Event, Operation, Outcome, Registry, WatchId, Why};
use crate::registry::{OPERATIONS_MAX, WATCHES_MAX};
pub use access::{Access, Credentials};
use client::Client;
pub use client::{Endpoint, Endpoints};

/// How long the end of a registry waits for its lease to be ended.
const END_NS_MAX: u64 = 500_000_000;

/// Wakes whoever takes events.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// Sends events, and wakes.
#[derive(Clone)]
pub(crate) struct Told {
    sender: Sender<Event>,
    bell: Bell,
}

/// Which lease there is now, for both threads that speak of it.
pub(crate) type CurrentLease = Arc<Mutex<Option<i64>>>;

struct Begun {
    token: Option<u64>,
    operation: Operation,
    deadline_ns: u64,
}

/// A user of etcd. Dropped it ends its lease, which takes half a second at most.
pub struct Etcd {
    client: Client,
    told: Told,
    events: Receiver<Event>,
    work: Sender<Begun>,
    keep: Sender<Begun>,
    /// The work thread is over when its other end is gone.
    is_over: Receiver<()>,
    waiting: usize,
    watches: BTreeMap<WatchId, watch::Ending>,
    last_watch: u64,
}

impl Etcd {
    /// Starts the threads; nothing is asked of etcd yet.
    ///
    /// # Errors
    /// The system gave no thread.
    pub fn start(endpoints: Endpoints, bell: Bell) -> std::io::Result<Etcd> {
        let client = Client::new(endpoints);
        let (sender, events) = channel();
        let told = Told { sender, bell };
        let lease = CurrentLease::default();
        let (over, is_over) = channel();
        let work = start("registry", client.clone(), lease.clone(), told.clone(), Some(over))?;
        let keep = start("registry-lease", client.clone(), lease, told.clone(), None)?;
        let (watches, last_watch, waiting) = (BTreeMap::new(), 0, 0);
        Ok(Etcd { client, told, events, work, keep, is_over, waiting, watches, last_watch })
    }

    /// Asks once whether etcd answers, and waits for it: for the start, and for people.
    ///
    /// # Errors
    /// None of the endpoints answers as etcd does: each with its reason, in words.
    pub fn check(endpoints: Endpoints, deadline_ns: u64) -> Result<u64, String> {
        let operation = Operation::Get { key: Key::default() };
        match request::carry_out(
            &Client::new(endpoints),
            &CurrentLease::default(),
            operation,
            deadline_ns,
        ) {
            Outcome::Found(record) => Ok(record.revision),
            Outcome::Absent { revision } => Ok(revision),
            Outcome::NotDone(why) | Outcome::Unknown(why) => Err(why.to_string()),
            other => Err(format!("{other:?}")),
        }
    }
}

fn start(
    name: &str,
    client: Client,
    lease: CurrentLease,
    told: Told,
    over: Option<Sender<()>>,
) -> std::io::Result<Sender<Begun>> {
    let (sender, begun) = channel::<Begun>();
    Builder::new().name(name.to_owned()).spawn(move || {
        while let Ok(Begun { token, operation, deadline_ns }) = begun.recv() {
            let outcome = request::carry_out(&client, &lease, operation, deadline_ns);
            if let Some(token) = token {
                told.tell(Event::Ended { token, outcome });
            }
        }
        drop(over);
    })?;
    Ok(sender)
}

impl Told {
    /// Whether somebody listens still.
    pub(crate) fn tell(&self, event: Event) -> bool {
        let is_heard = self.sender.send(event).is_ok();
        (self.bell)();
        is_heard
    }
}

impl Registry for Etcd {
    fn begin(&mut self, token: u64, operation: Operation, deadline_ns: u64) {
        let full = Why::Full { what: "operations", limit: OPERATIONS_MAX };
        self.waiting += 1;
        if self.waiting > OPERATIONS_MAX {
            self.told.tell(Event::Ended { token, outcome: Outcome::NotDone(full) });
            return;
        }
        let is_keep = operation == Operation::KeepAlive;
        let thread = if is_keep { &self.keep } else { &self.work };
        if thread.send(Begun { token: Some(token), operation, deadline_ns }).is_err() {
            let gone = Why::Unreachable("its thread has ended".to_owned());
            self.told.tell(Event::Ended { token, outcome: Outcome::NotDone(gone) });
        }
    }

    fn watch(&mut self, prefix: Key, after: u64) -> Option<WatchId> {
        if self.watches.len() >= WATCHES_MAX {
            return None;
        }
        self.last_watch += 1;
        let id = WatchId(self.last_watch);
        let ending = watch::start(self.client.clone(), id, prefix, after, self.told.clone());
        self.watches.insert(id, ending);
        Some(id)
    }

    fn unwatch(&mut self, watch: WatchId) {
        if let Some(ending) = self.watches.remove(&watch) {
            ending.end();
        }
    }

    fn next_event(&mut self, _now_ns: u64) -> Option<Event> {
        loop {
            match self.events.try_recv().ok()? {
                Event::Ended { token, outcome } => {
                    self.waiting = self.waiting.saturating_sub(1);
                    return Some(Event::Ended { token, outcome });
                }
                Event::Changed { watch, .. } if !self.watches.contains_key(&watch) => {}
                Event::Broken { watch, .. } if self.watches.remove(&watch).is_none() => {}
                event => return Some(event),
            }
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        std::mem::take(&mut self.watches).into_values().for_each(watch::Ending::end);
        let deadline_ns = monotonic_ns().saturating_add(END_NS_MAX);
        let last = Begun { token: None, operation: Operation::EndLease, deadline_ns };
        let (closed, _) = channel();
        // A thread that is gone has nothing to end.
        let _ = std::mem::replace(&mut self.work, closed).send(last);
        // It says nothing: its end is what is waited for, not longer than that.
        let _ = self.is_over.recv_timeout(Duration::from_nanos(END_NS_MAX));
    }
}

/// The lease now.
pub(crate) fn current(lease: &CurrentLease) -> Option<i64> {
    *lease.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Another lease from now on.
pub(crate) fn set_current(lease: &CurrentLease, id: Option<i64>) {
    *lease.lock().unwrap_or_else(PoisonError::into_inner) = id;
}

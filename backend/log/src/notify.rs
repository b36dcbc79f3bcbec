//! Who is to be told when a position is acknowledged: callbacks, futures, a descriptor.
//!
//! What is due is collected while the device is driven, and told when the driver has given its role
//! back, so that a callback may use the log. There are never more than entries in the window.

use std::collections::BTreeMap;
use std::sync::{OnceLock, PoisonError};
use std::task::Waker;

use heliostat_base::event::Event;
use heliostat_base::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};

use crate::error::LogError;

/// Whom to tell, and how.
pub(crate) enum Notice {
    /// Called once.
    Call(Box<dyn FnOnce(Result<(), LogError>) + Send>),
    /// The task looks for itself.
    Wake(Waker),
}

type Outcome = Result<(), LogError>;

#[derive(Default)]
struct Lists {
    /// By the position that is to be acknowledged, and by who wants to know.
    pending: BTreeMap<(u64, u64), Notice>,
    ready: Vec<(Notice, Outcome)>,
}

/// All of one log.
#[derive(Default)]
pub(crate) struct Notices {
    lists: Mutex<Lists>,
    /// Pending and ready ones, for looks without the lock.
    count: AtomicU32,
    ready: AtomicU32,
    next_number: AtomicU64,
    event: OnceLock<Event>,
}

impl Notices {
    /// A number for somebody who wants to know.
    pub(crate) fn number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells somebody at a position, instead of what was to be told to the same before. The caller
    /// looks afterwards whether that is acknowledged already.
    pub(crate) fn add(&self, at: u64, number: u64, notice: Notice) {
        if self.lists().pending.insert((at, number), notice).is_none() {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Forgets somebody.
    pub(crate) fn remove(&self, at: u64, number: u64) {
        if self.lists().pending.remove(&(at, number)).is_some() {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Collects whom to tell that everything before `durable` is acknowledged.
    pub(crate) fn tell(&self, durable: u64) {
        self.ring();
        // Who adds himself looks at the durable end after that, so one of both sees the other.
        heliostat_base::sync::full_fence();
        if self.count.load(Ordering::SeqCst) > 0 {
            self.collect(durable, Ok(()));
        }
    }

    /// Makes the descriptor readable, if anybody has it.
    pub(crate) fn ring(&self) {
        if let Some(event) = self.event.get() {
            // A full counter is readable, and nothing else can go wrong with a descriptor of ours.
            let _ = event.ring();
        }
    }

    /// Collects everybody, to be told that nothing more is acknowledged.
    pub(crate) fn fail(&self, error: LogError) {
        self.ring();
        self.collect(u64::MAX, Err(error));
    }

    /// Whether somebody is to be told something.
    pub(crate) fn has_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) > 0
    }

    /// Tells everybody whose time has come.
    pub(crate) fn deliver(&self) {
        while self.has_ready() {
            let ready = std::mem::take(&mut self.lists().ready);
            self.ready.fetch_sub(ready.len() as u32, Ordering::SeqCst);
            self.count.fetch_sub(ready.len() as u32, Ordering::SeqCst);
            for (notice, outcome) in ready {
                match notice {
                    Notice::Call(call) => call(outcome),
                    Notice::Wake(waker) => waker.wake(),
                }
            }
        }
    }

    /// The descriptor that becomes readable when something was acknowledged.
    pub(crate) fn event(&self) -> Result<Event, LogError> {
        let to_error = |errno: heliostat_base::sys::Errno| LogError::System { errno: errno.0 };
        let ours = match self.event.get() {
            Some(event) => event,
            None => {
                let made = Event::create().map_err(to_error)?;
                self.event.get_or_init(|| made)
            }
        };
        ours.duplicate().map_err(to_error)
    }

    fn collect(&self, durable: u64, outcome: Outcome) {
        let mut lists = self.lists();
        let later = match durable.checked_add(1) {
            Some(next) => lists.pending.split_off(&(next, 0)),
            None => BTreeMap::new(),
        };
        let due = std::mem::replace(&mut lists.pending, later);
        self.ready.fetch_add(due.len() as u32, Ordering::SeqCst);
        lists.ready.extend(due.into_values().map(|notice| (notice, outcome)));
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Which operations are on their way, how those that have ended did, and who wants to know.
//!
//! Its lock is the last that is taken: whoever has a session with a server loop may call it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use heliostat_base::event::Event;

use super::{make_event, Completed, Failure, MemoryError};
use crate::delegated::After;
use crate::work::About;
use crate::Region;

/// All operations of one `Operations`.
pub(super) struct Ends {
    limit: usize,
    state: Mutex<State>,
    event: OnceLock<Event>,
}

#[derive(Default)]
struct State {
    last: u64,
    all: HashMap<u64, Entry>,
    /// Those that have ended and whoever takes first may have.
    ready: VecDeque<u64>,
    /// Those that `ready` will have had.
    awaited: usize,
}

struct Entry {
    region: Arc<Region>,
    about: About,
    /// Its number in the session with the loop.
    job: Option<u64>,
    ended: Option<(Ended, Vec<u8>)>,
    whose: Whose,
}

/// Who is told of an end.
enum Whose {
    Anybodys,
    Future(Option<Waker>),
    Nobodys,
}

/// For whom operations begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Taker {
    /// Whoever takes first.
    Anybody,
    /// A future of each, from the beginning.
    Future,
}

/// How an operation has ended.
pub(super) enum Ended {
    /// With this.
    Told(Result<u64, MemoryError>),
    /// The loop, or the session with it, has failed; what that means its region says.
    Failed(Failure),
    /// It never came to the loop.
    Refused(MemoryError),
}

impl Ends {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default(), event: OnceLock::new() }
    }

    /// Takes operations in, all or none, for whoever is to be told of them; returns their numbers.
    pub(super) fn begin(
        &self,
        of_each: Vec<(Arc<Region>, About)>,
        taker: Taker,
    ) -> Result<Vec<u64>, MemoryError> {
        let mut state = self.lock();
        if state.all.len().saturating_add(of_each.len()) > self.limit {
            return Err(MemoryError::Full { limit: self.limit });
        }
        if taker == Taker::Anybody {
            state.awaited += of_each.len();
        }
        let take_in = |(region, about)| {
            let (job, ended) = (None, None);
            let whose = match taker {
                Taker::Anybody => Whose::Anybodys,
                Taker::Future => Whose::Future(None),
            };
            state.last += 1;
            let number = state.last;
            state.all.insert(number, Entry { region, about, job, ended, whose });
            number
        };
        Ok(of_each.into_iter().map(take_in).collect())
    }

    /// These have the numbers `jobs` in the session with the loop.
    pub(super) fn note_jobs(&self, numbers: &[u64], jobs: &[u64]) {
        let mut state = self.lock();
        for (number, job) in numbers.iter().zip(jobs) {
            if let Some(entry) = state.all.get_mut(number) {
                entry.job = Some(*job);
            }
        }
    }

    /// An operation has ended. The first end counts. Whoever is woken by it, and what is dropped with
    /// it, is left for when nobody has a lock.
    pub(super) fn end(&self, number: u64, ended: Ended, bytes: Vec<u8>, after: &mut After) {
        let mut state = self.lock();
        let Some(entry) = state.all.get_mut(&number).filter(|entry| entry.ended.is_none()) else {
            return;
        };
        entry.ended = Some((ended, bytes));
        match &mut entry.whose {
            Whose::Anybodys => {
                state.ready.push_back(number);
                if let Some(event) = self.event.get() {
                    // A full counter is readable.
                    let _ = event.ring();
                }
            }
            Whose::Future(waker) => after.wake(waker.take()),
            // Its region may give its handle back.
            Whose::Nobodys => after.drop_later(state.all.remove(&number)),
        }
    }

    /// Takes an end that is anybody's.
    pub(super) fn take(&self) -> Option<Completed> {
        let mut state = self.lock();
        let number = state.ready.pop_front()?;
        state.awaited -= 1;
        self.quiet(&state);
        let entry = state.all.remove(&number)?;
        drop(state);
        entry.completed(number)
    }

    /// Whether `take` has something to tell, or will have.
    pub(super) fn is_awaited(&self) -> bool {
        self.lock().awaited > 0
    }

    /// Keeps an operation for a future; false where it was told of, or is another one's.
    pub(super) fn claim(&self, number: u64) -> bool {
        let mut state = self.lock();
        let entry = state.all.get_mut(&number);
        let Some(entry) = entry.filter(|entry| matches!(entry.whose, Whose::Anybodys)) else {
            return false;
        };
        entry.whose = Whose::Future(None);
        let is_ready = entry.ended.is_some();
        state.awaited -= 1;
        if is_ready {
            state.ready.retain(|other| *other != number);
            self.quiet(&state);
        }
        true
    }

    /// Takes the end of an operation that a future has; where it has none, `waker` is woken by it.
    pub(super) fn take_of(&self, number: u64, waker: Option<&Waker>) -> Option<Completed> {
        let mut waker = waker.cloned();
        let mut state = self.lock();
        let entry = state.all.get_mut(&number)?;
        if entry.ended.is_none() {
            if let (Some(waker), Whose::Future(Some(kept))) = (&mut waker, &mut entry.whose) {
                std::mem::swap(kept, waker);
            } else if let Whose::Future(kept @ None) = &mut entry.whose {
                *kept = waker.take();
            }
            // The one that was kept before may do anything where it is dropped: not under the lock.
            drop(state);
            return None;
        }
        let entry = state.all.remove(&number)?;
        drop(state);
        entry.completed(number)
    }

    /// The number that an operation on its way has in the session with the loop.
    pub(super) fn job(&self, number: u64) -> Option<u64> {
        let state = self.lock();
        state.all.get(&number).filter(|entry| entry.ended.is_none())?.job
    }

    /// A future is dropped: nobody wants to know. Returns what is to be cancelled.
    pub(super) fn give_up(&self, number: u64) -> Option<u64> {
        let mut state = self.lock();
        let entry = state.all.get_mut(&number)?;
        let was = std::mem::replace(&mut entry.whose, Whose::Nobodys);
        let (job, is_over) = (entry.job, entry.ended.is_some());
        let gone = is_over.then(|| state.all.remove(&number));
        drop(state);
        // A waker may do anything, and a region gives its handle back.
        drop((was, gone));
        job.filter(|_| !is_over)
    }

    /// The same for all.
    pub(super) fn give_all_up(&self) -> Vec<u64> {
        let numbers: Vec<_> = self.lock().all.keys().copied().collect();
        numbers.into_iter().filter_map(|number| self.give_up(number)).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.lock().all.len()
    }

    /// What is readable while there are ends to take; made at its first use.
    pub(super) fn event(&self) -> Result<&Event, MemoryError> {
        let state = self.lock();
        let event = match self.event.get() {
            Some(event) => return Ok(event),
            None => make_event()?,
        };
        if !state.ready.is_empty() {
            event.ring().map_err(MemoryError::Event)?;
        }
        Ok(self.event.get_or_init(|| event))
    }

    /// Whether somebody waits for `event`.
    pub(super) fn is_watched(&self) -> bool {
        self.event.get().is_some()
    }

    /// There may be nothing to take any more.
    fn quiet(&self, state: &State) {
        if state.ready.is_empty() {
            if let Some(event) = self.event.get() {
                // One that cannot be read stays readable: whoever looks finds nothing.
                let _ = event.drain();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// What its end means. May ask the control plane, for the length that a region has.
    fn completed(self, number: u64) -> Option<Completed> {
        let (ended, bytes) = self.ended?;
        let result = match ended {
            Ended::Told(result) => result,
            Ended::Failed(failure) => Err(self.about.explain(&self.region, failure)),
            Ended::Refused(error) => Err(self.region.of_control(error)),
        };
        Some(Completed { number, result, bytes })
    }
}

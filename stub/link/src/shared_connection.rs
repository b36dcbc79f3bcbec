//! A session with a server loop that many threads of a process use at once.
//!
//! ```text
//! begin ---> submission ring (one lock, held for a push)
//! wait ----> the first who waits leads: it takes completions for all, and sleeps on the bell
//!            the others sleep until theirs is there, or until nobody leads
//! perform -> who is alone asks in the call's line, and leads while it waits for the answer
//! ```
//! A thread that waits holds no lock that another one needs to begin something.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{
    call_words, Completion, Operation, CALL_DECLINED, COMPLETION_AT, COMPLETION_RECORD_BYTES,
};
use heliostat_abi::name::ObjectId;
use heliostat_client::session::Standing;
use heliostat_client::NodePage;
use heliostat_ring::doorbell::Patience;
use heliostat_ring::{
    Refresh, ReserveError, RingMemory, SpscConsumer, SpscProducer, TakeError, WaitError,
};

use super::call::CallLine;
use super::record::push_encoded;
use super::server_connection::is_kept;
use super::{LinkError, SharedError};

/// A session's rings and call line, for any thread of the process.
pub struct SharedConnection {
    submissions: Mutex<SpscProducer>,
    /// Locked by who leads.
    receiving: Mutex<Receiving>,
    state: Mutex<State>,
    /// A completion of somebody's is there, or nobody leads.
    news: Condvar,
    epoch: u64,
    session: ObjectId,
    node: Arc<NodePage>,
}

struct Receiving {
    completions: SpscConsumer,
    call: CallLine,
}

#[derive(Default)]
struct State {
    is_led: bool,
    /// Operations that were begun and not waited for to their end.
    under_way: usize,
    done: HashMap<u64, Completion>,
    sleepers: usize,
    last_tag: u64,
    failed: Option<SharedError>,
}

/// Whose completion is waited for.
#[derive(Clone, Copy)]
enum Own<'a> {
    Tag(u64),
    Any(&'a dyn Fn(u64) -> bool),
}

impl Own<'_> {
    fn is(self, tag: u64) -> bool {
        match self {
            Own::Tag(own) => own == tag,
            Own::Any(is_meant) => is_meant(tag),
        }
    }

    /// Takes it from what others have found.
    fn take_from(self, state: &mut State) -> Option<Completion> {
        let tag = match self {
            Own::Tag(tag) => tag,
            Own::Any(is_meant) => *state.done.keys().find(|tag| is_meant(**tag))?,
        };
        let done = state.done.remove(&tag)?;
        state.under_way -= 1;
        Some(done)
    }
}

impl SharedConnection {
    /// Attaches the rings that the control plane has made for a session, which nobody has used yet.
    ///
    /// # Errors
    /// They are none, or cannot be mapped.
    pub fn attach(standing: Standing, rings: &impl AsRawFd) -> Result<Self, LinkError> {
        let rings = rings.as_raw_fd();
        let memory = |at| RingMemory::attach(rings, at).map_err(LinkError::Ring);
        let submissions = memory(0)?.spsc_producer(Refresh::Lazy).map_err(LinkError::Ring)?;
        let completions = memory(COMPLETION_AT)?.spsc_consumer(Refresh::Lazy);
        let completions = completions.map_err(LinkError::Ring)?;
        let call = CallLine::attach(rings).map_err(LinkError::Memory)?;
        Ok(SharedConnection {
            submissions: Mutex::new(submissions),
            receiving: Mutex::new(Receiving { completions, call }),
            state: Mutex::default(),
            news: Condvar::new(),
            epoch: standing.epoch,
            session: standing.id,
            node: standing.node,
        })
    }

    /// Counts sessions of this process, as in `session::Standing`.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the control plane lives and has not revoked the session.
    pub fn is_kept(&self) -> bool {
        is_kept(&self.node, self.session)
    }

    /// Has an operation done and waits for its end: its completion. Its tag is chosen here.
    ///
    /// # Errors
    /// See [`SharedError`].
    pub fn perform(&self, asked: &Operation) -> Result<Completion, SharedError> {
        if let Some(answered) = self.call(asked)? {
            return Ok(Completion { result: answered, ..Completion::default() });
        }
        let tag = self.begin(asked)?;
        self.wait(tag)
    }

    /// Asks in one line where nothing else is under way; `None` where the ring has to be used.
    fn call(&self, asked: &Operation) -> Result<Option<i64>, SharedError> {
        let Some((words, more)) = call_words(asked) else { return Ok(None) };
        let mut state = self.state();
        if let Some(failed) = state.failed {
            return Err(failed);
        }
        if state.is_led || state.under_way > 0 {
            return Ok(None);
        }
        (state.is_led, state.under_way) = (true, 1);
        drop(state);
        let mut receiving = lock(&self.receiving);
        receiving.call.ask_more(words, more);
        lock(&self.submissions).ring();
        let answer = match receiving.call.look() {
            Some(answer) => Ok(answer),
            None => self.await_answer(&mut receiving),
        };
        drop(receiving);
        self.stop_leading(answer.err(), 1);
        Ok(Some(answer?).filter(|answer| *answer != CALL_DECLINED))
    }

    fn await_answer(&self, receiving: &mut Receiving) -> Result<i64, SharedError> {
        loop {
            if let Some(answer) = receiving.call.take() {
                return Ok(answer);
            }
            self.take_for_others(receiving, None)?;
            let Receiving { completions, call } = receiving;
            let lives = || self.is_kept();
            completions
                .wait_or(&Patience::ENDLESS, &lives, || call.is_answered())
                .map_err(|_: WaitError| SharedError::Gone)?;
        }
    }

    /// Begins an operation: its tag, by which it is waited for, and cancelled. Does not wait.
    ///
    /// # Errors
    /// `Full`: nothing was begun. Others as `perform`.
    pub fn begin(&self, asked: &Operation) -> Result<u64, SharedError> {
        let tag = self.next_tag();
        self.begin_as(tag, asked).map(|()| tag)
    }

    /// A tag for the next operation, for a caller who has to know it before the operation can end.
    pub fn next_tag(&self) -> u64 {
        let mut state = self.state();
        state.last_tag += 1;
        state.last_tag
    }

    /// Begins an operation under a tag of `next_tag`, each of which is for one.
    ///
    /// # Errors
    /// As `begin`.
    pub fn begin_as(&self, tag: u64, asked: &Operation) -> Result<(), SharedError> {
        {
            let mut state = self.state();
            if let Some(failed) = state.failed {
                return Err(failed);
            }
            state.under_way += 1;
        }
        let pushed = self.push(&Operation { tag, ..*asked });
        if pushed.is_err() {
            self.state().under_way -= 1;
        }
        pushed
    }

    fn push(&self, asked: &Operation) -> Result<(), SharedError> {
        let mut submissions = lock(&self.submissions);
        let pushed = push_encoded(asked, |record| match submissions.reserve(record.len()) {
            Ok(mut slot) => {
                slot.copy_in(0, record);
                slot.commit_quiet();
                Ok(true)
            }
            Err(ReserveError::Full) => Ok(false),
            Err(_) => Err(SharedError::Link(LinkError::Corrupt)),
        });
        match pushed? {
            true => submissions.ring(),
            false => return Err(SharedError::Full),
        }
        Ok(())
    }

    /// Waits for the completion of what was begun, once for each tag.
    ///
    /// # Errors
    /// As `perform`.
    pub fn wait(&self, tag: u64) -> Result<Completion, SharedError> {
        loop {
            if let Some(done) = self.wait_until(Own::Tag(tag), None)? {
                return Ok(done);
            }
        }
    }

    /// The same for so long at most; `None` where it was not there by then, and is to be waited for again.
    ///
    /// # Errors
    /// As `perform`.
    pub fn wait_within(
        &self,
        tag: u64,
        limit: Duration,
    ) -> Result<Option<Completion>, SharedError> {
        self.wait_until(Own::Tag(tag), Instant::now().checked_add(limit))
    }

    /// Waits for the completion of any operation whose tag is meant, for so long at most; `None` where
    /// there was none by then. Each such tag was begun, and is waited for by nobody else.
    ///
    /// # Errors
    /// As `perform`.
    pub fn wait_for_any(
        &self,
        is_meant: &dyn Fn(u64) -> bool,
        limit: Duration,
    ) -> Result<Option<Completion>, SharedError> {
        self.wait_until(Own::Any(is_meant), Instant::now().checked_add(limit))
    }

    /// The same of what is there, without a wait.
    ///
    /// # Errors
    /// As `perform`.
    pub fn take_any(
        &self,
        is_meant: &dyn Fn(u64) -> bool,
    ) -> Result<Option<Completion>, SharedError> {
        let own = Own::Any(is_meant);
        let mut state = self.state();
        if let Some(done) = own.take_from(&mut state) {
            return Ok(Some(done));
        }
        // Who leads takes what is there by itself.
        if state.is_led || state.failed.is_some() {
            return state.failed.map_or(Ok(None), Err);
        }
        state.is_led = true;
        drop(state);
        let mut receiving = lock(&self.receiving);
        let found = self.take_for_others(&mut receiving, Some(own));
        drop(receiving);
        self.stop_leading(found.err(), usize::from(found != Ok(None)));
        found
    }

    fn wait_until(
        &self,
        own: Own<'_>,
        until: Option<Instant>,
    ) -> Result<Option<Completion>, SharedError> {
        let mut state = self.state();
        loop {
            if let Some(done) = own.take_from(&mut state) {
                return Ok(Some(done));
            }
            if let Some(failed) = state.failed {
                return Err(failed);
            }
            if !state.is_led {
                state.is_led = true;
                drop(state);
                return self.lead(own, until);
            }
            let left = until.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            state.sleepers += 1;
            state = match left {
                None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.news.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleepers -= 1;
        }
    }

    fn lead(
        &self,
        own: Own<'_>,
        until: Option<Instant>,
    ) -> Result<Option<Completion>, SharedError> {
        let mut receiving = lock(&self.receiving);
        let found = self.await_own(&mut receiving, own, until);
        drop(receiving);
        // What was not there yet is under way still.
        self.stop_leading(found.err(), usize::from(found != Ok(None)));
        found
    }

    fn await_own(
        &self,
        receiving: &mut Receiving,
        own: Own<'_>,
        until: Option<Instant>,
    ) -> Result<Option<Completion>, SharedError> {
        loop {
            if let Some(found) = self.take_for_others(receiving, Some(own))? {
                return Ok(Some(found));
            }
            let lives = || self.is_kept();
            let left = until.map(|at| at.saturating_duration_since(Instant::now()));
            let patience = left.map_or(Patience::ENDLESS, Patience::up_to);
            match receiving.completions.wait(&patience, &lives) {
                Err(WaitError::TimedOut) => return Ok(None),
                waited => waited.map_err(|_| SharedError::Gone)?,
            }
        }
    }

    /// Takes what is there: a completion that is the leader's own, and for others theirs.
    fn take_for_others(
        &self,
        receiving: &mut Receiving,
        own: Option<Own<'_>>,
    ) -> Result<Option<Completion>, SharedError> {
        let mut record = [0; COMPLETION_RECORD_BYTES];
        loop {
            let found = match receiving.completions.poll(&mut record) {
                Ok(COMPLETION_RECORD_BYTES) => Completion::decode(&record),
                Err(TakeError::Empty) => return Ok(None),
                _ => None,
            };
            let found = found.ok_or(SharedError::Link(LinkError::Corrupt))?;
            if own.is_some_and(|own| own.is(found.tag)) {
                return Ok(Some(found));
            }
            let mut state = self.state();
            state.done.insert(found.tag, found);
            self.unlock_with_news(state);
        }
    }

    fn stop_leading(&self, failed: Option<SharedError>, ended: usize) {
        let mut state = self.state();
        state.is_led = false;
        state.under_way -= ended;
        state.failed = state.failed.or(failed);
        self.unlock_with_news(state);
    }

    fn unlock_with_news(&self, state: MutexGuard<'_, State>) {
        let has_sleepers = state.sleepers > 0;
        drop(state);
        if has_sleepers {
            self.news.notify_all();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

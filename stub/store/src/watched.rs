//! A thread that hears of completions for a device of the emulated way, so that a descriptor tells of them.
//!
//! ```text
//! begun: its tag is expected ---> the thread waits for what is expected, with the other waiters of the process
//!                                          | a completion
//!                                          '--> kept, the descriptor is readable --> reap takes it
//! ```
//! It begins when somebody asks for the descriptor, sleeps where nothing is under way, and ends with the
//! device.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use heliostat_abi::file::delegated::Completion;
use heliostat_base::event::Event;
use heliostat_stub_link::SharedError;

use crate::link::Link;

/// How long one wait of the thread's lasts: it looks then whether the device is there still.
const LOOK: Duration = Duration::from_millis(200);

/// What the thread has heard, and the thread.
pub(crate) struct Watch {
    heard: Arc<Heard>,
    /// The descriptor, for those who sleep elsewhere.
    told: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

struct Heard {
    link: Arc<Link>,
    state: Mutex<State>,
    /// There is something to wait for, or something has come.
    news: Condvar,
    event: Event,
}

#[derive(Default)]
struct State {
    expected: HashSet<u64>,
    arrived: Vec<Completion>,
    failed: Option<SharedError>,
    is_over: bool,
}

impl Watch {
    /// Begins to hear of these operations, and of those that are expected later.
    ///
    /// # Errors
    /// The system has no descriptor, or no thread.
    pub(crate) fn begin(
        link: Arc<Link>,
        expected: impl Iterator<Item = u64>,
    ) -> std::io::Result<Watch> {
        let event = Event::create().map_err(|errno| std::io::Error::from_raw_os_error(errno.0))?;
        let told = Arc::new(event.as_fd().try_clone_to_owned()?);
        let state = Mutex::new(State { expected: expected.collect(), ..State::default() });
        let heard = Arc::new(Heard { link, state, news: Condvar::new(), event });
        let its = heard.clone();
        let named = std::thread::Builder::new().name("heliostat-area".into());
        let thread = named.spawn(move || its.hear())?;
        Ok(Watch { heard, told, thread: Some(thread) })
    }

    /// Readable while there is something to take.
    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        self.told.clone()
    }

    /// An operation is about to begin under this tag.
    pub(crate) fn expect(&self, tag: u64) {
        self.heard.state().expected.insert(tag);
        self.heard.news.notify_all();
    }

    /// It was not begun.
    pub(crate) fn give_up(&self, tag: u64) {
        self.heard.state().expected.remove(&tag);
    }

    /// Ends, and tells what it has heard that nobody has taken.
    pub(crate) fn end(mut self) -> Vec<Completion> {
        self.join();
        std::mem::take(&mut self.heard.state().arrived)
    }

    fn join(&mut self) {
        self.heard.state().is_over = true;
        self.heard.news.notify_all();
        // It ends within one look.
        let _ = self.thread.take().map(JoinHandle::join);
    }

    /// Takes a completion, and waits for the first for so long, or not at all.
    ///
    /// # Errors
    /// The session has ended.
    pub(crate) fn take(&self, wait: Option<Duration>) -> Result<Option<Completion>, SharedError> {
        let mut state = self.heard.state();
        if let (true, None, Some(wait)) = (state.arrived.is_empty(), state.failed, wait) {
            let nothing = |state: &mut State| state.arrived.is_empty() && state.failed.is_none();
            let waited = self.heard.news.wait_timeout_while(state, wait, nothing);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(found) = state.arrived.pop() {
            return Ok(Some(found));
        }
        // Under the lock, so that no ring is lost. Of a session that has ended it stays readable.
        match state.failed {
            Some(failed) => Err(failed),
            None => {
                let _ = self.heard.event.drain();
                Ok(None)
            }
        }
    }
}

impl Heard {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self) {
        while self.has_work() {
            let is_meant = |tag: u64| self.state().expected.contains(&tag);
            match self.link.connection.wait_for_any(&is_meant, LOOK) {
                Ok(None) => {}
                Ok(Some(ended)) => {
                    let mut state = self.state();
                    state.expected.remove(&ended.tag);
                    state.arrived.push(ended);
                    self.tell(state);
                }
                Err(error) => {
                    let mut state = self.state();
                    state.failed = Some(error);
                    return self.tell(state);
                }
            }
        }
    }

    /// Sleeps until something is under way; false when the device is gone.
    fn has_work(&self) -> bool {
        let idle = |state: &mut State| state.expected.is_empty() && !state.is_over;
        let state = self.news.wait_while(self.state(), idle);
        !state.unwrap_or_else(PoisonError::into_inner).is_over
    }

    fn tell(&self, state: MutexGuard<'_, State>) {
        // A full counter is readable, too.
        let _ = self.event.ring();
        drop(state);
        self.news.notify_all();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.join();
    }
}

//! What is held for a moment only: the version that `current` was, until it is opened.
//!
//! Between the look at a name and its opening a fast producer might retire the version. A thread lets
//! go what was not opened in time; it ends when it has nothing left, so that idle costs nothing.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long: an opening follows its look within microseconds. A pin keeps a place of the producer's.
const MOMENT: Duration = Duration::from_millis(100);
/// Most that is held at once; more is let go earlier.
const HELD_MAX: usize = 64;

type Held = Arc<dyn Any + Send + Sync>;

/// What is held, oldest first.
#[derive(Clone, Default)]
pub(crate) struct Brief(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    held: VecDeque<(Instant, Held)>,
    is_watched: bool,
}

impl Brief {
    /// Holds something for a moment. Where the machine gives no thread, nothing is held.
    pub(crate) fn hold(&self, what: Held) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.held.push_back((Instant::now() + MOMENT, what));
        if state.held.len() > HELD_MAX {
            state.held.pop_front();
        }
        if !state.is_watched {
            let here = self.clone();
            let watch = thread::Builder::new().name("brief".into()).spawn(move || here.watch());
            match watch {
                Ok(_) => state.is_watched = true,
                Err(_) => state.held.clear(),
            }
        }
    }

    fn watch(&self) {
        while let Some(ends) = self.let_go() {
            thread::sleep(ends.saturating_duration_since(Instant::now()));
        }
    }

    /// Lets go what was held long enough; when the next is, or nothing and the thread has ended.
    fn let_go(&self) -> Option<Instant> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        while state.held.front().is_some_and(|(ends, _)| *ends <= now) {
            state.held.pop_front();
        }
        let next = state.held.front().map(|(ends, _)| *ends);
        state.is_watched = next.is_some();
        next
    }
}

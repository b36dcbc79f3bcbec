//! The line of a thread: claimed at its first offloaded call, taken from it when it has ended.
//!
//! libc ends threads without telling us, so a line says whose it is, and who finds none free looks for
//! one whose thread is gone. A child of a fork finds all lines free.

use std::cell::Cell;

use heliostat_base::call;
use heliostat_base::sync::AtomicU32;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_ring::request::{Requests, LINES_MAX};

use crate::thread;

thread_local! {
    /// Its number plus one.
    static MINE: Cell<u32> = const { Cell::new(0) };
    /// Calls that go by before a thread without a line looks for one again.
    static REST: Cell<u32> = const { Cell::new(0) };
}

/// Where the next one looks first.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// See [`REST`].
const REST_CALLS: u32 = 1024;

/// This thread's line, if it has one that is idle. One that is not belongs to a call which a signal
/// handler has interrupted.
#[inline]
pub fn mine(requests: &Requests) -> Option<usize> {
    let mine = MINE.with(Cell::get);
    let line = (mine as usize).wrapping_sub(1);
    if mine != 0 && requests.owner(line) == thread::tid() as u32 {
        return requests.is_idle(line).then_some(line);
    }
    claim(requests)
}

#[cold]
fn claim(requests: &Requests) -> Option<usize> {
    let rest = REST.with(Cell::get);
    if rest > 0 {
        REST.with(|cell| cell.set(rest - 1));
        return None;
    }
    let tid = thread::tid() as u32;
    let first = NEXT.fetch_add(1, Relaxed) as usize;
    let places = || (0..LINES_MAX).map(|step| (first + step) % LINES_MAX);
    let is_free = |line: &usize| requests.owner(*line) == 0 && requests.pass(*line, 0, tid);
    let found = places().find(is_free).or_else(|| {
        places().find(|line| {
            let owner = requests.owner(*line);
            let is_gone = owner != 0 && !call::thread_exists(owner as i32);
            is_gone && requests.is_idle(*line) && requests.pass(*line, owner, tid)
        })
    });
    match found {
        Some(line) => MINE.with(|mine| mine.set(line as u32 + 1)),
        None => REST.with(|cell| cell.set(REST_CALLS)),
    }
    found
}

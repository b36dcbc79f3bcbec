//! Calls that change what the log counts on, while they are under way.
//!
//! Before such a call the log is emptied; the change itself comes after that, and between the two another
//! thread's flush could keep its file anew. So no file is begun to be kept while one is under way. Its end
//! is seen by the next call of its thread.

use std::cell::Cell;

use heliostat_base::sync::AtomicU32;
use heliostat_base::sync::Ordering::{AcqRel, Acquire, Release};

use super::{clear, raise, CHANGING};
use crate::thread;

thread_local! {
    static IS_UNDER_WAY: Cell<bool> = const { Cell::new(false) };
}
/// Threads with one.
static UNDER_WAY: AtomicU32 = AtomicU32::new(0);

/// This thread is about to make one.
pub fn begin() {
    if !IS_UNDER_WAY.replace(true) {
        UNDER_WAY.fetch_add(1, AcqRel);
        raise(CHANGING);
    }
}

/// This thread makes another call. A handler's calls tell nothing of the one that it has interrupted.
#[inline]
pub fn end() {
    if IS_UNDER_WAY.get() && !thread::is_in_handler() {
        end_it();
    }
}

#[cold]
fn end_it() {
    IS_UNDER_WAY.set(false);
    let fewer = |count: u32| Some(count.saturating_sub(1)); // a forked child begins with none
    let _ = UNDER_WAY.fetch_update(AcqRel, Acquire, fewer);
    if !is_any() {
        clear(CHANGING);
    }
    if is_any() {
        raise(CHANGING); // begun meanwhile
    }
}

/// Whether some thread has one under way.
pub fn is_any() -> bool {
    UNDER_WAY.load(Acquire) > 0
}

/// The other threads are the parent's.
pub fn reset_in_forked_child() {
    UNDER_WAY.store(0, Release);
    clear(CHANGING);
}

/// For tests that keep files, or must not.
#[cfg(test)]
pub static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_under_way_until_its_thread_makes_another_call() {
        let _alone = ALONE.lock();
        begin();
        begin();
        std::thread::spawn(end).join().expect("another thread");
        assert!(is_any());
        thread::run_handler(true, end);
        assert!(is_any(), "the handler has interrupted it");
        end();
        assert!(!is_any());
    }
}

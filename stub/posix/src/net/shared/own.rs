//! Hidden numbers of listening sockets, which the program must not close.

use heliostat_base::lock::Lock;
use heliostat_base::sync::AtomicBool;
use heliostat_base::sync::Ordering::{Relaxed, Release};

static NUMBERS: Lock<Vec<i32>> = Lock::new(Vec::new());
static IS_USED: AtomicBool = AtomicBool::new(false);

/// One more.
pub fn add(fd: i32) {
    NUMBERS.lock().push(fd);
    IS_USED.store(true, Release);
}

/// One less.
pub fn remove(fd: i32) {
    NUMBERS.lock().retain(|it| *it != fd);
}

/// True for one of them.
#[inline]
pub fn owns(fd: i32) -> bool {
    IS_USED.load(Relaxed) && fd >= 0 && NUMBERS.lock().contains(&fd)
}

/// All of them.
pub fn own_fds() -> Vec<u32> {
    match IS_USED.load(Relaxed) {
        true => NUMBERS.lock().iter().filter_map(|fd| u32::try_from(*fd).ok()).collect(),
        false => Vec::new(),
    }
}

//! A poll or select on an epoll descriptor itself: ready when something in the set is.

use heliostat_base::sync::Ordering::Release;

use super::interest::Interest;
use super::life;
use super::sets::{SETS, SETS_MAX};

/// True when a direct stream in the set is ready.
pub fn is_ready(index: u32) -> bool {
    SETS[index as usize % SETS_MAX].inner.lock().all().any(Interest::is_ready)
}

/// Before a poll on the set itself: what the kernel's set has of shadows tells only of news.
pub fn calm(epoll: i32, index: u32) {
    let mut inner = SETS[index as usize % SETS_MAX].inner.lock();
    inner.calm(epoll);
    let taken_bells = std::mem::take(&mut inner.taken_bells);
    drop(inner);
    taken_bells.into_iter().for_each(life::repeat_bell);
}

/// The set's streams ring bells from now on, because a poll on the set itself sleeps; for how long that
/// may sleep at once.
pub fn arm(epoll: i32, index: u32) -> Option<u64> {
    let set = &SETS[index as usize % SETS_MAX];
    set.sleepers.fetch_add(1, Release);
    set.inner.lock().arm_hot(epoll)
}

/// That poll is over.
pub fn disarm(epoll: i32, index: u32) {
    let set = &SETS[index as usize % SETS_MAX];
    let others_sleep = set.sleepers.fetch_sub(1, Release) > 1;
    set.inner.lock().wake_hot(epoll, others_sleep);
}

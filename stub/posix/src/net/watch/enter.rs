//! An interest enters a set, or changes: it is looked at from then on, also by threads that sleep.

use heliostat_base::lock::Guard;
use heliostat_base::sync::Ordering::Acquire;

use super::life;
use super::set::Interests;
use super::sets::{Set, SETS};
use crate::net::socket;
use crate::Answer;

/// Connection `index` is in the set, at `place`.
pub fn enter_socket(epoll: i32, set_index: u32, index: u32, place: usize) -> Answer {
    let set = &SETS[set_index as usize];
    socket::at(index).sets.lock().insert(set_index);
    let answer = put(epoll, set, set.inner.lock(), place);
    if socket::at(index).is_native() {
        // Another thread took it off the direct path before it could see this set.
        life::became_native(index);
    }
    answer
}

/// An interest was added or changed: it is looked at from now on.
pub fn put(epoll: i32, set: &Set, mut inner: Guard<'_, Interests>, place: usize) -> Answer {
    if inner.at(place)?.is_unwatched() {
        if let Err(errno) = inner.watch_kernels(epoll, place) {
            return Some(Err(errno));
        }
    }
    inner.heat(place);
    if let Some(interest) = inner.at(place) {
        interest.join();
    }
    kick_if_asleep(epoll, set, inner, place);
    Some(Ok(0))
}

/// Another thread sleeps in the kernel and does not look at what was just put in.
fn kick_if_asleep(epoll: i32, set: &Set, mut inner: Guard<'_, Interests>, place: usize) {
    if set.sleepers.load(Acquire) > 0 {
        inner.remind(epoll, place);
    }
}

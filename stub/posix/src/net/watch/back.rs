//! Epoll sets when a carried connection comes back from its loop.

use super::enter;
use super::life::{places_of, sets_of};

/// Connection `index` has come back, and its program reads on in the ring: threads that sleep in its sets
/// hear of all else from the kernel.
pub fn came_back(index: u32) {
    for (epoll, set) in sets_of(index) {
        let places = places_of(&mut set.inner.lock(), index);
        for place in places {
            let mut inner = set.inner.lock();
            if inner.at(place).is_some_and(|interest| interest.is_active) {
                let _ = enter::put(epoll, set, inner, place);
            }
        }
    }
}

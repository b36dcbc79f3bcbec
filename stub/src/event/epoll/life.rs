//! Epoll sets when descriptors, connections and processes come and go.

use std::sync::atomic::Ordering::{Relaxed, Release};

use heliostat_base::call;

use super::control::put;
use super::{mark, Set, SETS, SETS_MAX, USED};
use crate::event::interest::Interest;
use crate::net::socket;
use crate::table::{self, Kind};

/// Connection `index` went native: the kernel reports it from now on, we only translate data.
pub fn became_native(index: u32) {
    for (epoll, set) in sets_of(index) {
        let mut inner = set.inner.lock();
        for place in 0..inner.len() {
            let Some(interest) = inner.at(place) else { continue };
            if interest.socket != index || interest.stream.is_none() {
                continue;
            }
            interest.disarm();
            interest.stream = None;
            if interest.is_active {
                put(epoll, set, inner, place);
                inner = set.inner.lock();
            } else {
                inner.remove(epoll, place);
            }
        }
    }
}

/// The kernel's sets forget the shadow of connection `index`, whose descriptor becomes another
/// file; `became_native` puts that one in.
pub fn withdraw_shadow(index: u32) {
    for (epoll, set) in sets_of(index) {
        let mut inner = set.inner.lock();
        for place in 0..inner.len() {
            let Some(interest) = inner.at(place) else { continue };
            if interest.socket == index && std::mem::take(&mut interest.in_kernel) {
                let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, interest.fd, None);
            }
        }
    }
}

/// The sets that hold connection `index`, with a descriptor of each.
fn sets_of(index: u32) -> Vec<(i32, &'static Set)> {
    let sets = socket::at(index).sets.lock().clone();
    table::walk(0, u32::MAX)
        .filter_map(|(fd, kind)| match kind {
            Kind::Epoll(set) if sets.contains(&set) => Some((fd, &SETS[set as usize])),
            _ => None,
        })
        .collect()
}

/// Connection `index` closes in this process.
pub fn forget_socket(index: u32) {
    if socket::at(index).sets.lock().is_empty() {
        return;
    }
    for (epoll, set) in sets_of(index) {
        let mut inner = set.inner.lock();
        for place in 0..inner.len() {
            if inner.at(place).is_some_and(|interest| interest.socket == index) {
                inner.remove(epoll, place);
            }
        }
    }
}

/// One more descriptor refers to the set (dup).
pub fn retain(index: u32) {
    SETS[index as usize % SETS_MAX].inner.lock().descriptors += 1;
}

/// Before the kernel closes one of the set's descriptors.
pub fn closing(index: u32) {
    let index = index as usize % SETS_MAX;
    let mut inner = SETS[index].inner.lock();
    inner.descriptors = inner.descriptors.saturating_sub(1);
    if inner.descriptors > 0 {
        return;
    }
    let interests = inner.take_all();
    drop(inner);
    for mut interest in interests {
        interest.disarm();
        socket::at(interest.socket).sets.lock().retain(|set| *set as usize != index);
    }
    USED.lock()[index] = false;
}

/// For poll and select over an epoll descriptor: is a direct stream in it ready?
pub fn is_ready(index: u32) -> bool {
    SETS[index as usize % SETS_MAX].inner.lock().all().any(Interest::is_ready)
}

/// The set's streams ring bells from now on, because a poll on the set itself sleeps.
pub fn arm(epoll: i32, index: u32) {
    let set = &SETS[index as usize % SETS_MAX];
    set.sleepers.fetch_add(1, Release);
    set.inner.lock().arm_hot(epoll, mark());
}

/// That poll is over.
pub fn disarm(epoll: i32, index: u32) {
    let set = &SETS[index as usize % SETS_MAX];
    let others_sleep = set.sleepers.fetch_sub(1, Release) > 1;
    set.inner.lock().wake_hot(epoll, mark(), others_sleep);
}

/// In the child of a fork: frees what other threads held.
pub fn reset_in_forked_child() {
    USED.reset_in_forked_child();
    for (index, used) in USED.lock().iter().enumerate() {
        if *used {
            SETS[index].inner.reset_in_forked_child();
            SETS[index].sleepers.store(0, Relaxed);
        }
    }
}

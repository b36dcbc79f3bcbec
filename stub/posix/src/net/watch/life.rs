//! Epoll sets when descriptors, connections and processes come and go.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use heliostat_base::call;

use super::interest::Interest;
use super::set::Interests;
use super::sets::{Set, SETS, SETS_MAX, USED};
use super::{early, family};
use crate::net::socket;
use crate::table::{self, DescriptorKind};

/// Connection `index` went native: from now on the kernel reports it, as the program asked for it.
pub fn became_native(index: u32) {
    for (epoll, set) in sets_of(index) {
        let mut inner = set.inner.lock();
        for place in places_of(&mut inner, index) {
            let Some(interest) = inner.take(place) else { continue };
            if interest.is_active {
                let op = if interest.in_kernel { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
                let _ = call::epoll_ctl(epoll, op, interest.fd, Some(interest.kernel_event()));
            } else if interest.in_kernel {
                let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, interest.fd, None);
            }
        }
    }
}

/// The kernel's sets forget the shadow of connection `index`, whose descriptor becomes another
/// file; `became_native` puts that one in.
pub fn withdraw_shadow(index: u32) {
    for (epoll, set) in sets_of(index) {
        let mut inner = set.inner.lock();
        for place in places_of(&mut inner, index) {
            let Some(interest) = inner.at(place) else { continue };
            if std::mem::take(&mut interest.in_kernel) {
                let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, interest.fd, None);
            }
        }
    }
}

/// Somebody took a bell of connection `index` off its shadow: a set that the bell was for too, and that has
/// not asked the kernel since, would not hear of it.
#[cold]
pub fn repeat_bell(index: u32) {
    for (epoll, set) in sets_of(index) {
        let mut inner = set.inner.lock();
        let sleeps = set.sleepers.load(Acquire) > 0;
        for place in places_of(&mut inner, index) {
            let relies =
                |interest: &mut Interest| interest.is_active && (sleeps || !interest.is_hot);
            if inner.at(place).is_some_and(relies) {
                inner.remind(epoll, place);
            }
        }
    }
}

/// Connection `index` has come back, and is read from its ring first: all else is the kernel's to report.
pub fn came_back(index: u32) {
    for (epoll, set) in sets_of(index) {
        let mut inner = set.inner.lock();
        for place in places_of(&mut inner, index) {
            if inner.at(place).is_some_and(|interest| interest.is_active) {
                let _ = inner.watch_kernels(epoll, place);
                inner.heat(place);
            }
        }
    }
}

/// Places of the interests in connection `index`.
fn places_of(inner: &mut Interests, index: u32) -> Vec<usize> {
    let places = 0..inner.len();
    let is_it = |place: &usize| inner.at(*place).is_some_and(|interest| interest.socket == index);
    places.filter(is_it).collect()
}

/// The sets that hold connection `index`, with a descriptor of each.
fn sets_of(index: u32) -> Vec<(i32, &'static Set)> {
    let mut sets = socket::at(index).sets.lock().clone();
    if sets.is_empty() {
        return Vec::new();
    }
    table::walk(0, u32::MAX)
        .filter_map(|(fd, kind)| match kind {
            DescriptorKind::Epoll(set) if sets.remove(&set) => Some((fd, &SETS[set as usize])),
            _ => None,
        })
        .collect()
}

/// Connection `index` closes in this process. Where another one uses the set, what the kernel has
/// of it is not ours to take out: it goes when the last descriptor of the connection does.
pub fn forget_socket(index: u32) {
    for (epoll, set) in sets_of(index) {
        let mut inner = set.inner.lock();
        for place in places_of(&mut inner, index) {
            match family::is_own(set) {
                true => inner.remove(epoll, place),
                false => _ = inner.take(place),
            }
        }
    }
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
    family::leave(&SETS[index]);
    early::forget_set(index as u32);
    for mut interest in interests {
        interest.disarm();
        socket::at(interest.socket).sets.lock().retain(|set| *set as usize != index);
    }
    USED.lock()[index] = false;
}

/// In the child of a fork: frees what other threads held.
pub fn reset_in_forked_child() {
    early::reset_in_forked_child();
    USED.reset_in_forked_child();
    for (index, used) in USED.lock().iter().enumerate() {
        if *used {
            SETS[index].inner.reset_in_forked_child();
            SETS[index].sleepers.store(0, Relaxed);
        }
    }
}

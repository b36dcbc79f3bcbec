//! epoll sets that hold direct streams beside the kernel's own descriptors.
//!
//! The kernel's epoll descriptor stays what the program sleeps in. A direct stream is in it
//! through its shadow, edge-triggered, under event data that only we use: upper half `MARK`, lower
//! half the interest's place. All other descriptors are in it as the program put them.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::OnceLock;

use heliostat_base::lock::{Guard, Lock};
use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};

use super::interest::Interest;
use super::set::{Interests, SHADOW_EVENTS};
use crate::net::{connect, demote, socket, wait};
use crate::table::{self, Kind};
use crate::thread::{Critical, Interrupts};
use crate::{fail, Answer};
use heliostat_abi::code::Native;
use heliostat_abi::report::Counter;

/// Epoll sets with direct streams in one process; streams put into further ones go native.
const SETS_MAX: usize = 1024;
/// While there is work, every so-manieth wait asks the kernel too (140 ns each).
const KERNEL_EVERY: u32 = 16;
const KERNEL_EVENTS: usize = 128;

static SETS: [Set; SETS_MAX] = [const { Set::new() }; SETS_MAX];
static USED: Lock<[bool; SETS_MAX]> = Lock::new([false; SETS_MAX]);

struct Set {
    inner: Lock<Interests>,
    /// Threads asleep in the kernel for this set.
    sleepers: AtomicU32,
}

impl Set {
    const fn new() -> Self {
        Self { inner: Lock::new(Interests::new()), sleepers: AtomicU32::new(0) }
    }
}

/// Upper half of our event data: random per process, so that no program meets it by design.
fn mark() -> u64 {
    static MARK: OnceLock<u64> = OnceLock::new();
    *MARK.get_or_init(|| (clock::cycles().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 | 1) << 32)
}

fn kernel_event(events: u32, place: usize) -> libc::epoll_event {
    libc::epoll_event { events, u64: mark() | place as u64 }
}

fn set_of(epoll: i32) -> Option<&'static Set> {
    match table::kind(epoll) {
        Kind::Epoll(index) => SETS.get(index as usize),
        _ => None,
    }
}

fn set_for(epoll: i32) -> Option<u32> {
    if let Kind::Epoll(index) = table::kind(epoll) {
        return Some(index);
    }
    let mut used = USED.lock();
    let index = used.iter().position(|used| !used)?;
    used[index] = true;
    let mut set = SETS[index].inner.lock();
    *set = Interests::new();
    set.descriptors = 1;
    table::set(epoll, Kind::Epoll(index as u32)).then_some(index as u32)
}

/// epoll_ctl(2). `None`: the kernel does it, and nothing of it concerns us.
pub fn control(epoll: i32, op: i32, fd: i32, event: Option<libc::epoll_event>) -> Answer {
    let kind = table::kind(fd);
    let _critical = Critical::enter();
    match (op, kind, event) {
        (libc::EPOLL_CTL_ADD, Kind::Socket(index), Some(event)) => add(epoll, fd, index, event),
        (libc::EPOLL_CTL_ADD, Kind::Unknown, _) => {
            let answer = call::epoll_ctl(epoll, op, fd, event);
            if answer.is_ok() {
                table::set(fd, Kind::Polled);
            }
            Some(answer)
        }
        (libc::EPOLL_CTL_MOD, Kind::Socket(_), Some(event)) => modify(epoll, fd, event),
        (libc::EPOLL_CTL_DEL, Kind::Socket(_), _) => delete(epoll, fd),
        _ => None,
    }
}

fn add(epoll: i32, fd: i32, index: u32, event: libc::epoll_event) -> Answer {
    if let Some(set) = set_of(epoll) {
        let mut inner = set.inner.lock();
        if let Some(place) = inner.place_of(fd) {
            let interest = inner.at(place)?;
            if interest.is_active {
                return fail(libc::EEXIST);
            }
            let generation = socket::at(index).generation();
            if interest.socket == index && interest.generation == generation {
                interest.modify(event);
                return put(epoll, set, inner, place);
            }
            inner.remove(epoll, place);
        }
    }
    let stream = socket::at(index).stream()?;
    let Some(set_index) = set_for(epoll) else {
        demote::leave(fd, index, Native::TableFull);
        return None;
    };
    let set = &SETS[set_index as usize];
    let mut inner = set.inner.lock();
    let is_first = inner.is_empty();
    let place = inner.insert(Interest::new(fd, index, Some(stream), event));
    if is_first {
        // Only the kernel knows whether `epoll` is an epoll descriptor at all.
        if let Err(errno) = inner.register(epoll, mark(), place) {
            inner.remove(epoll, place);
            drop(inner);
            table::set(epoll, Kind::Unknown);
            USED.lock()[set_index as usize] = false;
            return Some(Err(errno));
        }
    }
    let mut sets = socket::at(index).sets.lock();
    if !sets.contains(&set_index) {
        sets.push(set_index);
    }
    drop(sets);
    put(epoll, set, inner, place)
}

fn modify(epoll: i32, fd: i32, event: libc::epoll_event) -> Answer {
    let set = set_of(epoll)?;
    let mut inner = set.inner.lock();
    let place = inner.place_of(fd)?;
    let interest = inner.at(place)?;
    if !interest.is_active {
        return fail(libc::ENOENT);
    }
    interest.modify(event);
    put(epoll, set, inner, place)
}

/// An interest was added or changed: it is looked at from now on, or the kernel is told.
fn put(epoll: i32, set: &Set, mut inner: Guard<'_, Interests>, place: usize) -> Answer {
    let interest = inner.at(place)?;
    if interest.stream.is_none() {
        let op = if interest.in_kernel { libc::EPOLL_CTL_MOD } else { libc::EPOLL_CTL_ADD };
        let event = kernel_event(interest.events, place);
        interest.in_kernel = true;
        return Some(call::epoll_ctl(epoll, op, interest.fd, Some(event)));
    }
    inner.heat(place);
    kick_if_asleep(epoll, set, inner, place);
    Some(Ok(0))
}

fn delete(epoll: i32, fd: i32) -> Answer {
    let set = set_of(epoll)?;
    let mut inner = set.inner.lock();
    let place = inner.place_of(fd)?;
    let interest = inner.at(place)?;
    if !interest.is_active {
        return fail(libc::ENOENT);
    }
    interest.is_active = false;
    if interest.stream.is_none() {
        inner.remove(epoll, place);
    }
    Some(Ok(0))
}

/// Another thread sleeps in the kernel and does not look at what was just put in: the interest
/// is armed, and if it is ready already, the kernel is made to report its shadow, by asking
/// once for "writable", which it is.
fn kick_if_asleep(epoll: i32, set: &Set, mut inner: Guard<'_, Interests>, place: usize) {
    if set.sleepers.load(Acquire) == 0 || inner.register(epoll, mark(), place).is_err() {
        return;
    }
    let Some(interest) = inner.at(place) else { return };
    interest.arm();
    if interest.is_ready() {
        let event = kernel_event(SHADOW_EVENTS | libc::EPOLLOUT as u32, place);
        let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, interest.fd, Some(event));
    }
}

/// epoll_wait(2) family. `None`: no direct stream was ever in this set.
pub fn wait(
    epoll: i32,
    out: &mut [libc::epoll_event],
    timeout_ns: Option<u64>,
    mask: Option<u64>,
) -> Answer {
    let set = set_of(epoll)?;
    if out.is_empty() {
        return fail(libc::EINVAL);
    }
    let found = collect(epoll, set, out, timeout_ns == Some(0));
    if found > 0 || timeout_ns == Some(0) {
        return Some(Ok(found));
    }
    let interrupts = Interrupts::now();
    let ends = timeout_ns.map(|ns| clock::monotonic_ns().saturating_add(ns));
    loop {
        let mut found = 0;
        let ready = mask.is_none()
            && wait::spin(
                || {
                    found = collect(epoll, set, out, false);
                    found > 0
                },
                || interrupts.any_since() || is_past(ends),
            );
        if ready {
            return Some(Ok(found));
        }
        if interrupts.any_since() {
            return fail(libc::EINTR);
        }
        match sleep(epoll, set, out, ends, mask) {
            Ok(0) if !is_past(ends) => {}
            answer => return Some(answer),
        }
    }
}

fn is_past(ends: Option<u64>) -> bool {
    ends.is_some_and(|ends| clock::monotonic_ns() >= ends)
}

/// One look: the hot interests, and the kernel when it is due.
fn collect(epoll: i32, set: &Set, out: &mut [libc::epoll_event], ask_kernel: bool) -> usize {
    let _critical = Critical::enter();
    let mut switched = Vec::new();
    let mut inner = set.inner.lock();
    inner.turn = inner.turn.wrapping_add(1);
    let is_due = ask_kernel || inner.kernel_had_news || inner.turn % KERNEL_EVERY == 0;
    let mut found = 0;
    // Now and then the kernel's events go first, so that neither side can starve the other.
    if is_due && inner.turn % 2 == 0 {
        found = ask(epoll, &mut inner, out);
        found += inner.scan(epoll, mark(), &mut out[found..], &mut switched);
    } else {
        found += inner.scan(epoll, mark(), out, &mut switched);
        if is_due && found < out.len() {
            found += ask(epoll, &mut inner, &mut out[found..]);
        }
    }
    drop(inner);
    for (fd, index) in switched {
        demote::leave(fd, index, Native::PeerAsked);
    }
    found
}

fn ask(epoll: i32, inner: &mut Interests, out: &mut [libc::epoll_event]) -> usize {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; KERNEL_EVENTS];
    let limit = out.len().min(KERNEL_EVENTS);
    let count = call::epoll_wait(epoll, &mut events[..limit], Some(0), None).unwrap_or(0);
    inner.kernel_had_news = count > 0;
    inner.sort(mark(), &events[..count], out)
}

/// Sleeps in the kernel's epoll with every hot interest armed; 0 means look again.
fn sleep(
    epoll: i32,
    set: &Set,
    out: &mut [libc::epoll_event],
    ends: Option<u64>,
    mask: Option<u64>,
) -> Result<usize, Errno> {
    set.sleepers.fetch_add(1, Release);
    let armed = {
        let _critical = Critical::enter();
        let mut inner = set.inner.lock();
        inner.arm_hot(epoll, mark());
        let is_quiet = !inner.hot().any(Interest::is_ready);
        (is_quiet, offers_limit(&inner))
    };
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; KERNEL_EVENTS];
    let limit = out.len().min(KERNEL_EVENTS);
    let left = ends.map(|ends| ends.saturating_sub(clock::monotonic_ns()));
    let timeout = match armed {
        (false, _) => Some(0),
        (true, Some(offer)) => Some(left.map_or(offer, |left| left.min(offer))),
        (true, None) => left,
    };
    if timeout != Some(0) {
        crate::report::count(Counter::Sleeps);
    }
    let answer = call::epoll_wait(epoll, &mut events[..limit], timeout, mask);
    set.sleepers.fetch_sub(1, Release);
    let _critical = Critical::enter();
    let mut inner = set.inner.lock();
    inner.wake_hot(epoll, mark());
    let mut found = inner.sort(mark(), &events[..answer?], out);
    let mut switched = Vec::new();
    found += inner.scan(epoll, mark(), &mut out[found..], &mut switched);
    let late = late_offers(&inner);
    drop(inner);
    for (fd, index) in switched {
        demote::leave(fd, index, Native::PeerAsked);
    }
    for (fd, index, stream) in late {
        connect::give_up_late_offer(fd, index, &stream);
    }
    Ok(found)
}

/// How long an unclaimed offer among the hot interests may still wait.
fn offers_limit(inner: &Interests) -> Option<u64> {
    unclaimed(inner)
        .map(|(_, index, stream)| connect::offer_left_ns(socket::at(index), &stream).unwrap_or(1))
        .min()
}

fn late_offers(inner: &Interests) -> Vec<(i32, u32, socket::Stream)> {
    unclaimed(inner)
        .filter(|(_, index, stream)| connect::offer_left_ns(socket::at(*index), stream).is_none())
        .collect()
}

fn unclaimed(inner: &Interests) -> impl Iterator<Item = (i32, u32, socket::Stream)> + '_ {
    inner.hot().filter_map(|interest| {
        let is_unclaimed = socket::at(interest.socket).unclaimed.load(Relaxed);
        let stream = interest.stream.clone()?;
        is_unclaimed.then_some((interest.fd, interest.socket, stream))
    })
}

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
    for interest in interests {
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
    set.sleepers.fetch_sub(1, Release);
    set.inner.lock().wake_hot(epoll, mark());
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

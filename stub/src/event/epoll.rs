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

use super::interest::{Interest, Look};
use crate::net::{connect, demote, shadow, socket, wait};
use crate::table::{self, Kind};
use crate::thread::{Critical, Interrupts};
use crate::{fail, Answer};
use heliostat_abi::code::Native;
use heliostat_abi::report::Counter;

/// Epoll sets with direct streams in one process; streams put into further ones go native.
const SETS_MAX: usize = 1024;
/// While there is work, every so-manieth wait asks the kernel too (140 ns each).
const KERNEL_EVERY: u32 = 16;
/// An interest that gave nothing so often turns cold, if the hot list is worth shortening.
const QUIET_LOOKS_MAX: u32 = 20_000;
/// A hot list of this length is never worth shortening.
const HOT_FEW: usize = 64;
const KERNEL_EVENTS: usize = 128;
const SHADOW_EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

static SETS: [Set; SETS_MAX] = [const { Set::new() }; SETS_MAX];
static USED: Lock<[bool; SETS_MAX]> = Lock::new([false; SETS_MAX]);

struct Set {
    inner: Lock<Interests>,
    /// Threads asleep in the kernel for this set.
    sleepers: AtomicU32,
}

struct Interests {
    places: Vec<Option<Interest>>,
    hot: Vec<u32>,
    descriptors: u32,
    turn: u32,
    kernel_had_news: bool,
    next: usize,
}

impl Set {
    const fn new() -> Self {
        let inner = Interests {
            places: Vec::new(),
            hot: Vec::new(),
            descriptors: 0,
            turn: 0,
            kernel_had_news: false,
            next: 0,
        };
        Self { inner: Lock::new(inner), sleepers: AtomicU32::new(0) }
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
    (set.places, set.hot, set.descriptors) = (Vec::new(), Vec::new(), 1);
    table::set(epoll, Kind::Epoll(index as u32)).then_some(index as u32)
}

/// epoll_ctl(2). `None`: the kernel does it, and nothing of it concerns us.
pub fn control(epoll: i32, op: i32, fd: i32, event: Option<libc::epoll_event>) -> Answer {
    let _critical = Critical::enter();
    let stream = match table::kind(fd) {
        Kind::Socket(index) => socket::at(index).stream().map(|stream| (index, stream)),
        _ => None,
    };
    match (op, stream, event) {
        (libc::EPOLL_CTL_ADD, Some((index, stream)), Some(event)) => {
            Some(add(epoll, fd, index, stream, event))
        }
        (libc::EPOLL_CTL_ADD, None, _) => {
            if table::is_unknown(fd) && call::epoll_ctl(epoll, op, fd, event).is_ok() {
                table::set(fd, Kind::Polled);
                return Some(Ok(0));
            }
            None
        }
        (libc::EPOLL_CTL_MOD, _, Some(event)) => modify(epoll, fd, event),
        (libc::EPOLL_CTL_DEL, ..) => delete(epoll, fd),
        _ => None,
    }
}

fn add(
    epoll: i32,
    fd: i32,
    index: u32,
    stream: socket::Stream,
    event: libc::epoll_event,
) -> Result<usize, Errno> {
    let Some(set_index) = set_for(epoll) else {
        demote::leave(fd, index, Native::TableFull);
        return call::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, Some(event));
    };
    let set = &SETS[set_index as usize];
    let mut inner = set.inner.lock();
    if inner.place_of(fd).is_some() {
        return Err(Errno(libc::EEXIST));
    }
    let place = inner.vacant();
    let shadow_event = kernel_event(SHADOW_EVENTS, place);
    call::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, Some(shadow_event))?;
    inner.places[place] = Some(Interest::new(fd, index, Some(stream), event));
    inner.heat(place);
    socket::at(index).sets.lock().push(set_index);
    kick_if_asleep(epoll, set, inner, place);
    Ok(0)
}

fn modify(epoll: i32, fd: i32, event: libc::epoll_event) -> Answer {
    let set = set_of(epoll)?;
    let mut inner = set.inner.lock();
    let place = inner.place_of(fd)?;
    let interest = inner.places[place].as_mut()?;
    interest.modify(event);
    if interest.stream.is_none() {
        let translated = kernel_event(event.events, place);
        return Some(call::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, Some(translated)));
    }
    inner.heat(place);
    kick_if_asleep(epoll, set, inner, place);
    Some(Ok(0))
}

fn delete(epoll: i32, fd: i32) -> Answer {
    let set = set_of(epoll)?;
    let mut inner = set.inner.lock();
    let place = inner.place_of(fd)?;
    inner.remove(place);
    Some(call::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, None))
}

/// Another thread sleeps in the kernel and does not look at what was just put in: the interest
/// is armed, and if it is ready already, the kernel is made to report the shadow (a level-
/// triggered look at "writable", which it is, once).
fn kick_if_asleep(epoll: i32, set: &Set, inner: Guard<'_, Interests>, place: usize) {
    if set.sleepers.load(Acquire) == 0 {
        return;
    }
    let Some(interest) = &inner.places[place] else { return };
    interest.arm();
    if interest.is_ready() {
        let once = SHADOW_EVENTS | libc::EPOLLOUT as u32;
        let event = kernel_event(once, place);
        let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, interest.fd, Some(event));
    }
}

impl Interests {
    fn place_of(&self, fd: i32) -> Option<usize> {
        self.places
            .iter()
            .position(|place| place.as_ref().is_some_and(|interest| interest.fd == fd))
    }

    fn vacant(&mut self) -> usize {
        match self.places.iter().position(Option::is_none) {
            Some(place) => place,
            None => {
                self.places.push(None);
                self.places.len() - 1
            }
        }
    }

    fn heat(&mut self, place: usize) {
        let Some(interest) = &mut self.places[place] else { return };
        interest.quiet_looks = 0;
        interest.was_active = true;
        if !interest.is_hot && interest.stream.is_some() {
            interest.is_hot = true;
            self.hot.push(place as u32);
        }
    }

    fn remove(&mut self, place: usize) {
        if let Some(interest) = self.places[place].take() {
            interest.disarm();
            self.hot.retain(|hot| *hot as usize != place);
        }
    }

    /// Looks at every hot interest, starting where the last full answer ended.
    fn scan(&mut self, out: &mut [libc::epoll_event], switched: &mut Vec<(i32, u32)>) -> usize {
        let count = self.hot.len();
        if count == 0 {
            return 0;
        }
        let (mut found, mut cools) = (0, false);
        let first = self.next % count;
        for step in 0..count {
            if found == out.len() {
                self.next = first + step;
                break;
            }
            let place = self.hot[(first + step) % count] as usize;
            let Some(interest) = &mut self.places[place] else { continue };
            match interest.look() {
                Look::Ready(events) => {
                    out[found] = libc::epoll_event { events, u64: interest.data };
                    found += 1;
                    (interest.quiet_looks, interest.was_active) = (0, true);
                }
                Look::Quiet => {
                    interest.quiet_looks += 1;
                    cools |= interest.quiet_looks > QUIET_LOOKS_MAX;
                }
                Look::Switched => switched.push((interest.fd, interest.socket)),
            }
        }
        if cools && count > HOT_FEW {
            self.cool(|interest| interest.quiet_looks > QUIET_LOOKS_MAX);
        }
        found
    }

    /// Turns hot interests cold that `is_idle` picks.
    fn cool(&mut self, is_idle: impl Fn(&Interest) -> bool) {
        let places = &mut self.places;
        self.hot.retain(|place| {
            let Some(interest) = &mut places[*place as usize] else { return false };
            if !is_idle(interest) {
                return true;
            }
            interest.arm();
            interest.is_hot = interest.is_ready();
            if interest.is_hot {
                interest.disarm();
            }
            interest.quiet_looks = 0;
            interest.is_hot
        });
    }

    fn arm_hot(&self) {
        self.hot.iter().filter_map(|place| self.places[*place as usize].as_ref()).for_each(
            |interest| interest.arm(),
        );
    }

    /// After a sleep: few interests stay hot all, of many only those with something to do.
    fn wake_hot(&mut self) {
        if self.hot.len() > HOT_FEW {
            self.cool(|interest| !interest.was_active);
        }
        for place in &self.hot {
            if let Some(interest) = &mut self.places[*place as usize] {
                interest.disarm();
                interest.was_active = false;
            }
        }
    }

    /// Sorts the kernel's events: native ones go to `out`, shadows turn their interest hot.
    fn sort(&mut self, events: &[libc::epoll_event], out: &mut [libc::epoll_event]) -> usize {
        let mut found = 0;
        for event in events {
            let data = event.u64;
            let place = (data & 0xffff_ffff) as usize;
            let ours = data >> 32 == mark() >> 32 && place < self.places.len();
            match self.places.get(place).and_then(Option::as_ref) {
                Some(interest) if ours && interest.stream.is_some() => {
                    let socket = socket::at(interest.socket);
                    interest.disarm();
                    shadow::learn(interest.fd, socket, event.events);
                    interest.drain_bells(socket);
                    self.heat(place);
                }
                Some(interest) if ours => {
                    out[found] = libc::epoll_event { events: event.events, u64: interest.data };
                    found += 1;
                }
                _ if ours => {}
                _ => {
                    out[found] = *event;
                    found += 1;
                }
            }
        }
        found
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
        found += inner.scan(&mut out[found..], &mut switched);
    } else {
        found += inner.scan(out, &mut switched);
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
    inner.sort(&events[..count], out)
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
        let inner = set.inner.lock();
        inner.arm_hot();
        let is_quiet = !inner.hot.iter().any(|place| {
            inner.places[*place as usize].as_ref().is_some_and(Interest::is_ready)
        });
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
    inner.wake_hot();
    let mut found = inner.sort(&events[..answer?], out);
    let mut switched = Vec::new();
    found += inner.scan(&mut out[found..], &mut switched);
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
        .filter(|(_, index, stream)| {
            connect::offer_left_ns(socket::at(*index), stream).is_none()
        })
        .collect()
}

fn unclaimed(inner: &Interests) -> impl Iterator<Item = (i32, u32, socket::Stream)> + '_ {
    inner.hot.iter().filter_map(|place| {
        let interest = inner.places[*place as usize].as_ref()?;
        let is_unclaimed = socket::at(interest.socket).unclaimed.load(Relaxed);
        let stream = interest.stream.clone()?;
        is_unclaimed.then_some((interest.fd, interest.socket, stream))
    })
}

/// Connection `index` went native: the kernel reports it from now on, we only translate data.
pub fn became_native(_fd: i32, index: u32) {
    for (epoll, set) in sets_of(index) {
        let mut inner = set.inner.lock();
        for place in 0..inner.places.len() {
            let Some(interest) = &mut inner.places[place] else { continue };
            if interest.socket != index || interest.stream.is_none() {
                continue;
            }
            interest.disarm();
            interest.stream = None;
            interest.is_hot = false;
            let event = kernel_event(interest.events, place);
            let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, interest.fd, Some(event));
            inner.hot.retain(|hot| *hot as usize != place);
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
pub fn forget_socket(_fd: i32, index: u32) {
    if socket::at(index).sets.lock().is_empty() {
        return;
    }
    for (epoll, set) in sets_of(index) {
        let mut inner = set.inner.lock();
        for place in 0..inner.places.len() {
            let Some(interest) = &inner.places[place] else { continue };
            if interest.socket == index {
                let _ = call::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, interest.fd, None);
                inner.remove(place);
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
    let places = std::mem::take(&mut inner.places);
    inner.hot.clear();
    drop(inner);
    for interest in places.into_iter().flatten() {
        interest.disarm();
        socket::at(interest.socket).sets.lock().retain(|set| *set as usize != index);
    }
    USED.lock()[index] = false;
}

/// For poll and select over an epoll descriptor: is a direct stream in it ready?
pub fn is_ready(index: u32) -> bool {
    let inner = SETS[index as usize % SETS_MAX].inner.lock();
    inner.places.iter().flatten().any(Interest::is_ready)
}

/// The set's streams ring bells from now on, because a poll on the set itself sleeps.
pub fn arm(index: u32) {
    let set = &SETS[index as usize % SETS_MAX];
    set.sleepers.fetch_add(1, Release);
    set.inner.lock().arm_hot();
}

/// That poll is over.
pub fn disarm(index: u32) {
    let set = &SETS[index as usize % SETS_MAX];
    set.sleepers.fetch_sub(1, Release);
    set.inner.lock().wake_hot();
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

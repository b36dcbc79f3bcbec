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
/// While there is work, the kernel is asked this often (some 20 us): often enough to tell of
/// everything that is ready in one answer, seldom enough not to be felt (140 ns each).
const KERNEL_PAUSE_CYCLES: u64 = 40_000;
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

/// The set of an epoll descriptor, tracked from its first wait or its first direct stream on: a
/// thread that sleeps in it must be known when another puts a direct stream in.
fn set_for(epoll: i32) -> Option<u32> {
    let kind = table::kind(epoll);
    if let Kind::Epoll(index) = kind {
        return Some(index);
    }
    if !matches!(kind, Kind::Unknown | Kind::Polled) || epoll < 0 {
        return None;
    }
    let mut used = USED.lock();
    let index = used.iter().position(|used| !used)?;
    used[index] = true;
    let mut set = SETS[index].inner.lock();
    *set = Interests::new();
    set.descriptors = 1;
    set.is_nested = kind == Kind::Polled;
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
        (libc::EPOLL_CTL_ADD, Kind::Epoll(index), _) => {
            nest(index);
            None
        }
        (libc::EPOLL_CTL_MOD, Kind::Socket(_), Some(event)) => modify(epoll, fd, event),
        (libc::EPOLL_CTL_DEL, Kind::Socket(_), _) => delete(epoll, fd),
        _ => None,
    }
}

fn is_nested(epoll: i32) -> bool {
    set_of(epoll).is_some_and(|set| set.inner.lock().is_nested)
}

/// A set inside another set is looked at by the kernel alone: its streams go native.
fn nest(index: u32) {
    let mut inner = SETS[index as usize % SETS_MAX].inner.lock();
    inner.is_nested = true;
    let direct: Vec<(i32, u32)> = inner
        .all()
        .filter(|interest| interest.stream.is_some())
        .map(|interest| (interest.fd, interest.socket))
        .collect();
    drop(inner);
    for (fd, socket) in direct {
        demote::leave(fd, socket, Native::Call);
    }
}

fn add(epoll: i32, fd: i32, index: u32, event: libc::epoll_event) -> Answer {
    if table::kind(epoll) == Kind::Polled || is_nested(epoll) {
        demote::leave(fd, index, Native::Call);
        return None;
    }
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

/// What a wait came to.
pub enum Waited {
    /// The answer; `None` is the kernel's to give.
    Answer(Answer),
    /// Nothing yet: the caller makes the kernel's own wait on the set for at most so many ms (-1
    /// for ever), with no frame of ours on the stack, and gives its answer to `woken`.
    Sleep(i32),
}

/// epoll_wait(2) family: looks, and spins for a short while. `ends` is the monotonic time of the
/// timeout, 0 for one that is over at once. A wait with a signal mask goes to the kernel early,
/// because only the kernel can change the mask and wait in one step.
pub fn look(
    epoll: i32,
    out: &mut [libc::epoll_event],
    ends: Option<u64>,
    has_mask: bool,
) -> Waited {
    let Some(set) = set_for(epoll).and_then(|index| SETS.get(index as usize)) else {
        return Waited::Answer(None);
    };
    if out.is_empty() {
        return Waited::Answer(fail(libc::EINVAL));
    }
    let found = collect(epoll, set, out, ends == Some(0));
    if found > 0 || ends == Some(0) {
        return Waited::Answer(Some(Ok(found)));
    }
    let interrupts = Interrupts::now();
    let mut found = 0;
    let may_spin = !has_mask && set.inner.lock().has_hot();
    let is_ready = may_spin
        && wait::spin(
            || {
                found = collect(epoll, set, out, false);
                found > 0
            },
            || interrupts.any_since() || is_past(ends),
        );
    if is_ready {
        return Waited::Answer(Some(Ok(found)));
    }
    if interrupts.any_since() {
        return Waited::Answer(fail(libc::EINTR));
    }
    begin_sleep(epoll, set, ends)
}

/// Arms every hot interest; from here on a byte for any of them makes the kernel's set ready.
fn begin_sleep(epoll: i32, set: &Set, ends: Option<u64>) -> Waited {
    set.sleepers.fetch_add(1, Release);
    let _critical = Critical::enter();
    let mut inner = set.inner.lock();
    inner.arm_hot(epoll, mark());
    if inner.hot().any(Interest::is_ready) {
        return Waited::Sleep(0);
    }
    let left = ends.map(|ends| ends.saturating_sub(clock::monotonic_ns()));
    let offer = offers_limit(&inner);
    let ns = match (left, offer) {
        (Some(left), Some(offer)) => Some(left.min(offer)),
        (left, offer) => left.or(offer),
    };
    if inner.has_hot() {
        crate::report::count(Counter::Sleeps);
    }
    Waited::Sleep(ns.map_or(-1, |ns| ns.div_ceil(1_000_000).min(i32::MAX as u64) as i32))
}

/// After the kernel's wait, whose events lie in `out`: `None` means look again.
pub fn woken(
    epoll: i32,
    out: &mut [libc::epoll_event],
    answer: Result<usize, Errno>,
    ends: Option<u64>,
) -> Answer {
    let set = set_of(epoll)?;
    set.sleepers.fetch_sub(1, Release);
    if let Err(errno @ Errno(libc::EBADF | libc::EINVAL | libc::EFAULT)) = answer {
        return Some(Err(errno));
    }
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; KERNEL_EVENTS];
    let count = answer.unwrap_or(0).min(KERNEL_EVENTS).min(out.len());
    events[..count].copy_from_slice(&out[..count]);
    let _critical = Critical::enter();
    let mut inner = set.inner.lock();
    inner.wake_hot(epoll, mark());
    let mut found = inner.sort(mark(), &events[..count], out);
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
    match (found, answer) {
        (0, Err(errno)) => Some(Err(errno)),
        (0, Ok(_)) if !is_past(ends) => None,
        (found, _) => Some(Ok(found)),
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
    let now = clock::cycles();
    let is_due = ask_kernel
        || inner.kernel_had_news
        || now.wrapping_sub(inner.asked_at) > KERNEL_PAUSE_CYCLES;
    if is_due {
        inner.asked_at = now;
    }
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

//! epoll_wait(2): looks in memory and in the kernel, and prepares the sleep between.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{Relaxed, Release};

use libc::epoll_event;

use heliostat_abi::session::report::Counter;
use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};

use crate::event::poll;
use crate::flush;
use crate::net::watch::interest::Interest;
use crate::net::watch::set::Interests;
use crate::net::watch::sets::{set_for, set_of, Set, SETS};
use crate::net::watch::{family, life};
use crate::net::{commit, demote, early, shared_set};
use crate::thread::{Critical, Interrupts};
use crate::{fail, waiting, Answer};

/// While there is work, the kernel is asked this often (some 20 us): often enough to tell of
/// everything that is ready in one answer, seldom enough not to be felt (140 ns each).
const KERNEL_PAUSE_CYCLES: u64 = 40_000;
const KERNEL_EVENTS: usize = 128;

/// What a wait came to.
pub enum Waited {
    /// The answer; `None` is the kernel's to give.
    Answer(Answer),
    /// Nothing yet: the caller makes the kernel's own wait on the set for at most so many ms (-1
    /// for ever), with no frame of ours on the stack, and gives its answer to `woken`.
    Sleep(i32),
}

/// epoll_wait(2) family: looks, and spins for a short while. The events that are found are written
/// to the front of `out`; an empty one is an array that cannot be written. `ends` is the monotonic time
/// of the timeout, 0 for one that is over at once. A wait with a signal mask goes to the kernel early,
/// because only the kernel can change the mask and wait in one step.
pub fn look(
    epoll: i32,
    out: &mut [MaybeUninit<epoll_event>],
    ends: Option<u64>,
    has_mask: bool,
) -> Waited {
    let Some(index) = set_for(epoll) else {
        if flush::is_busy() {
            commit::settle();
        }
        return Waited::Answer(None);
    };
    let set = &SETS[index as usize];
    shared_set::enter(index, set);
    if out.is_empty() {
        if flush::is_busy() {
            commit::settle();
        }
        return look_only(epoll, set, ends);
    }
    let interrupts = Interrupts::now();
    let mut found = 0;
    if flush::is_busy() {
        let look = || {
            found = collect(epoll, set, out, false);
            found > 0
        };
        commit::outlast(ends, look, |rings| sleep_beside(epoll, rings));
    }
    let (has_hot, has_news) = has_hot_and_news(set);
    // What only the kernel has it tells as well when it is asked to wait.
    if found == 0 && (has_hot || has_news || ends == Some(0)) {
        found = collect(epoll, set, out, ends == Some(0));
    }
    if found > 0 || ends == Some(0) {
        return Waited::Answer(Some(Ok(found)));
    }
    // The look may have found that the last of them has gone native.
    let is_ready = has_hot
        && !has_mask
        && has_hot_and_news(set).0
        && waiting::look(
            &set.habit,
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

/// Sleeps until something is in the set, or a flush has ended.
#[cold]
fn sleep_beside(epoll: i32, rings: [i32; 2]) {
    poll::sleep_beside(
        &mut vec![libc::pollfd { fd: epoll, events: libc::POLLIN, revents: 0 }],
        rings,
    );
}

/// Whether there are streams that only a look in memory tells of; and whether the kernel had something when it
/// was asked last, or something is not told yet.
fn has_hot_and_news(set: &Set) -> (bool, bool) {
    let _critical = Critical::enter();
    let inner = set.inner.lock();
    (inner.has_hot(), inner.kernel_had_news || inner.native_found() > 0)
}

/// There is no room to tell anything: an error as soon as something is to be told, which stays for
/// the next wait, as in the kernel. What only the kernel has, it refuses itself.
#[cold]
fn look_only(epoll: i32, set: &Set, ends: Option<u64>) -> Waited {
    let critical = Critical::enter();
    let is_ready = set.inner.lock().hot().any(Interest::is_ready);
    drop(critical);
    match is_ready {
        true => Waited::Answer(fail(libc::EFAULT)),
        false => begin_sleep(epoll, set, ends),
    }
}

/// Arms every hot interest; from here on a byte for any of them makes the kernel's set ready.
fn begin_sleep(epoll: i32, set: &Set, ends: Option<u64>) -> Waited {
    set.sleepers.fetch_add(1, Release);
    let _critical = Critical::enter();
    let mut inner = set.inner.lock();
    let siblings = inner.arm_hot(epoll);
    if inner.hot().any(Interest::is_ready) {
        return Waited::Sleep(0);
    }
    let left = ends.map(|ends| ends.saturating_sub(clock::monotonic_ns()));
    let limits = [left, siblings, looks_limit(&inner), family::nap_limit(set, &inner)];
    let ns = limits.into_iter().flatten().min();
    if inner.has_hot() {
        crate::report::count(Counter::Sleeps);
        waiting::sleeps();
    }
    Waited::Sleep(ns.map_or(-1, |ns| ns.div_ceil(1_000_000).min(i32::MAX as u64) as i32))
}

/// After the kernel's wait, which gave `answer`: `None` means look again, otherwise the events are
/// written to the front of `out`.
pub fn woken(
    epoll: i32,
    answer: Result<&[epoll_event], Errno>,
    out: &mut [MaybeUninit<epoll_event>],
    ends: Option<u64>,
) -> Answer {
    let set = set_of(epoll)?;
    waiting::woke(&set.habit);
    let others_sleep = set.sleepers.fetch_sub(1, Release) > 1;
    if let Err(errno @ Errno(libc::EBADF | libc::EINVAL | libc::EFAULT)) = answer {
        return Some(Err(errno));
    }
    let events = answer.unwrap_or(&[]);
    // The program may have taken the room away meanwhile.
    let events = &events[..events.len().min(out.len())];
    let _critical = Critical::enter();
    let mut inner = set.inner.lock();
    inner.wake_hot(epoll, others_sleep);
    let (now, asked_at) = (clock::cycles(), inner.asked_at);
    inner.asked_at = now;
    inner.sort(events, asked_at, now, others_sleep);
    let mut switched = Vec::new();
    inner.scan(epoll, now, &mut switched);
    let found = inner.tell(out, now);
    let taken_bells = std::mem::take(&mut inner.taken_bells);
    drop(inner);
    taken_bells.into_iter().for_each(life::repeat_bell);
    for (fd, index) in switched {
        demote::follow(fd, index);
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
fn collect(epoll: i32, set: &Set, out: &mut [MaybeUninit<epoll_event>], ask_kernel: bool) -> usize {
    let _critical = Critical::enter();
    let mut switched = Vec::new();
    let mut inner = set.inner.lock();
    let now = clock::cycles();
    let is_due = ask_kernel
        || inner.kernel_had_news
        || now.wrapping_sub(inner.asked_at) > KERNEL_PAUSE_CYCLES;
    if is_due {
        inner.doubt(now, ask_kernel);
    }
    inner.scan(epoll, now, &mut switched);
    if is_due && ask(epoll, set, &mut inner, out.len(), now) {
        // A cold one rang.
        inner.scan(epoll, now, &mut switched);
    }
    if !switched.is_empty() {
        drop(inner);
        for (fd, index) in switched.drain(..) {
            demote::follow(fd, index);
        }
        inner = set.inner.lock();
        // What is native now the kernel answers for.
        let known = inner.native_found();
        ask(epoll, set, &mut inner, out.len().saturating_sub(known), now);
        inner.drop_repeated(known);
        inner.scan(epoll, now, &mut switched);
    }
    let found = inner.tell(out, now);
    let taken_bells = std::mem::take(&mut inner.taken_bells);
    drop(inner);
    taken_bells.into_iter().for_each(life::repeat_bell);
    for (fd, index) in switched {
        demote::follow(fd, index);
    }
    found
}

/// Asks the kernel, for no more than there is room for behind the streams that were ready before it
/// was asked last. What it tells has to be told by this wait.
fn ask(epoll: i32, set: &Set, inner: &mut Interests, room: usize, now: u64) -> bool {
    let asked_at = inner.asked_at;
    let limit = room.saturating_sub(inner.found.count_before(asked_at)).min(KERNEL_EVENTS);
    if limit == 0 {
        return false;
    }
    inner.asked_at = now;
    let mut events = [epoll_event { events: 0, u64: 0 }; KERNEL_EVENTS];
    let count = call::epoll_wait(epoll, &mut events[..limit], Some(0), None).unwrap_or(0);
    inner.kernel_had_news = count > 0;
    let others_sleep = set.sleepers.load(Relaxed) > 0;
    inner.sort(&events[..count], asked_at, now, others_sleep)
}

/// How long the next look may wait, where a stream among the hot interests gets no bell: for room,
/// or for bytes that are held back.
fn looks_limit(inner: &Interests) -> Option<u64> {
    let room = inner.hot().any(Interest::looks_for_room).then_some(early::BELL_PAUSE_NS);
    inner.hot().filter_map(Interest::held_for).chain(room).min()
}

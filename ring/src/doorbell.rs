//! How one side waits for the other: a short adaptive spin, then sleep; no bell for the awake.
//!
//! ```text
//! bell word   0 awake    1 sleeps on this word (futex)    2 sleeps in poll or epoll (eventfd)
//!
//!   sleeper                                   sender
//!   bell := 1 or 2                            publish (header or tail)
//!   full fence            [bell]              full fence            [bell]
//!   look again; if there is something:        bell == 0 ? nothing more to do
//!      do not sleep                           exchange bell with 0; if it was not 0: wake
//!   sleep while bell == 1
//! ```
//! Of the two fences one comes first. If the sleeper's does, the sender sees the bell; if the
//! sender's does, the sleeper sees what was published. Either way nobody sleeps past an element.
//! What is assumed of the peer: only its own sleep depends on it. A peer that never rings costs us
//! the time until our deadline or the next question to the probe, and nothing else.

use std::time::Duration;

use heliostat_base::event::Event;

use crate::error::WaitError;
use crate::probe::{Probe, PROBE_EVERY_MS};
use crate::sync::{full_fence, futex_wait, futex_wake_all, now_ns, pause, yield_now};
use crate::sync::{AtomicU32, Ordering};

const AWAKE: u32 = 0;
const ASLEEP_ON_WORD: u32 = 1;
const ASLEEP_IN_POLL: u32 = 2;

/// How long a waiting side looks before it sleeps. It must exceed the time of one wake-up (20 us
/// across cores here), or two sides that have slept once keep each other sleeping.
pub const SPIN_NS: u64 = 50_000;

/// Looks without a pause at the start of a wait: about one cache-line round trip. A pause here
/// would add half its length (20 ns) to every message between two cores.
#[cfg(not(loom))]
const EAGER_LOOKS: u32 = 64;
#[cfg(loom)]
const EAGER_LOOKS: u32 = 1;

/// How somebody is willing to wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Nanoseconds of looking before sleeping.
    pub spin_ns: u64,
    /// Give up after that many nanoseconds.
    pub timeout_ns: Option<u64>,
}

impl Patience {
    /// Spin as long as is usual here, then sleep for ever.
    pub const ENDLESS: Patience = Patience { spin_ns: SPIN_NS, timeout_ns: None };

    /// Spin as long as is usual here, and give up after `timeout`.
    pub fn up_to(timeout: Duration) -> Patience {
        let timeout_ns = timeout.as_nanos().min(u64::MAX as u128) as u64;
        Patience { spin_ns: SPIN_NS, timeout_ns: Some(timeout_ns) }
    }
}

/// Rings the bell of a side that said it sleeps. The caller has published before this call.
///
/// `event` is the sleeper's eventfd, where it gave us one.
#[inline(always)]
pub(crate) fn ring(bell: &AtomicU32, event: Option<&Event>) {
    full_fence(); // [bell]
    if bell.load(Ordering::Relaxed) != AWAKE {
        wake(bell, event);
    }
}

#[cold]
fn wake(bell: &AtomicU32, event: Option<&Event>) {
    // Whoever wins the exchange wakes; the others need not. A value that no sleeper writes is
    // treated as a sleeper on the word: waking nobody is harmless.
    match bell.swap(AWAKE, Ordering::AcqRel) {
        AWAKE => {}
        ASLEEP_IN_POLL => {
            if let Some(event) = event {
                // A full counter is readable, and a closed one has no reader: nothing to do.
                let _ = event.ring();
            }
        }
        _ => futex_wake_all(bell),
    }
}

/// Announces a sleep in poll: true if the caller may sleep, false if `ready` holds already.
///
/// After waking, and also if it does not sleep, the caller calls [`disarm`].
pub(crate) fn arm(bell: &AtomicU32, ready: impl FnOnce() -> bool) -> bool {
    bell.store(ASLEEP_IN_POLL, Ordering::Relaxed);
    full_fence(); // [bell]
    if ready() {
        disarm(bell);
        return false;
    }
    true
}

/// Announces a sleep on the word itself: its value, or nothing if `ready` holds already.
pub(crate) fn arm_word(bell: &AtomicU32, ready: impl FnOnce() -> bool) -> Option<u32> {
    bell.store(ASLEEP_ON_WORD, Ordering::Relaxed);
    full_fence(); // [bell]
    if ready() {
        disarm(bell);
        return None;
    }
    Some(ASLEEP_ON_WORD)
}

/// Takes back what [`arm`] and [`arm_word`] announced.
pub(crate) fn disarm(bell: &AtomicU32) {
    bell.store(AWAKE, Ordering::Relaxed);
}

/// Waits until `ready` holds: looks, spins, then sleeps on the bell's word.
pub(crate) fn wait(
    bell: &AtomicU32,
    patience: &Patience,
    probe: &dyn Probe,
    mut ready: impl FnMut() -> bool,
) -> Result<(), WaitError> {
    for _ in 0..EAGER_LOOKS {
        if ready() {
            return Ok(());
        }
    }
    let start_ns = now_ns();
    if spin(start_ns, patience, &mut ready) {
        return Ok(());
    }
    loop {
        if !probe.peer_alive() {
            // What the peer committed before it died is still there to be taken.
            return if ready() { Ok(()) } else { Err(WaitError::PeerGone) };
        }
        let slice = match slice_ns(start_ns, patience, probe) {
            Slice::Over => return Err(WaitError::TimedOut),
            Slice::Bounded(ns) => Some(Duration::from_nanos(ns)),
            Slice::Endless => None,
        };
        if sleep(bell, slice, &mut ready) {
            return Ok(());
        }
    }
}

/// Looks until the spin budget is spent; gives up the core after every eighth pause.
fn spin(start_ns: u64, patience: &Patience, ready: &mut impl FnMut() -> bool) -> bool {
    #[cfg(loom)]
    return {
        let _ = (start_ns, patience, yield_now as fn());
        pause();
        ready()
    };
    #[cfg(not(loom))]
    {
        let budget_ns = patience.spin_ns.min(patience.timeout_ns.unwrap_or(u64::MAX));
        loop {
            for _ in 0..heliostat_base::spin::PAUSES_PER_YIELD {
                pause();
                if ready() {
                    return true;
                }
            }
            if now_ns() - start_ns >= budget_ns {
                return false;
            }
            yield_now();
            if ready() {
                return true;
            }
        }
    }
}

/// One sleep on the word; true if `ready` holds afterwards.
fn sleep(bell: &AtomicU32, slice: Option<Duration>, ready: &mut impl FnMut() -> bool) -> bool {
    bell.store(ASLEEP_ON_WORD, Ordering::Relaxed);
    full_fence(); // [bell]
    if !ready() {
        futex_wait(bell, ASLEEP_ON_WORD, slice);
    }
    // Several threads may sleep on one word, and a sender's exchange wakes them all; therefore
    // nobody but a sender clears it while others may sleep. Clearing here could only make a
    // sender skip a bell that another thread has just announced, so the word is left as it is:
    // at worst the next message costs one futile wake.
    ready()
}

enum Slice {
    Over,
    Bounded(u64),
    Endless,
}

fn slice_ns(start_ns: u64, patience: &Patience, probe: &dyn Probe) -> Slice {
    let until_probe = probe.may_change().then_some(PROBE_EVERY_MS * 1_000_000);
    let until_deadline =
        patience.timeout_ns.map(|timeout| timeout.saturating_sub(now_ns() - start_ns));
    match (until_probe, until_deadline) {
        (_, Some(0)) => Slice::Over,
        (Some(a), Some(b)) => Slice::Bounded(a.min(b)),
        (Some(a), None) | (None, Some(a)) => Slice::Bounded(a),
        (None, None) => Slice::Endless,
    }
}

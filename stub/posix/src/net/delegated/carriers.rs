//! Channels to the network service: asked for once each, and one message for each connection.

use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sync::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use heliostat_abi::code::{Code, Native};
use heliostat_abi::session::node::State;
use heliostat_abi::session::record::{Reply, Request};
use heliostat_abi::stream::carry::Carry;
use heliostat_abi::stream::channel::direction::FULL;
use heliostat_abi::stream::delegated;
use heliostat_base::clock;
use heliostat_base::lock::Lock;
use heliostat_client::session::{self, Standing};
use heliostat_client::ControlError;

use super::hidden;
use crate::net::channel::{Channel, Slot};
use crate::net::requests;
use crate::net::socket::Stream;

/// Channels that one process asks for.
const CHANNELS_MAX: usize = 64;
/// After a refusal the control plane is not asked again for so long, and for twice as long after each further
/// one in a row: the connection that asks waits for the answer.
const REFUSED_NS: u64 = 1_000_000_000;
/// But for no longer: what it decides by may change.
const REFUSED_NS_MAX: u64 = 4 * REFUSED_NS;

static CARRIERS: Lock<Carriers> = Lock::new(Carriers { epoch: 0, all: Vec::new() });
/// Monotonic time until which it refuses.
static REFUSED_UNTIL_NS: AtomicU64 = AtomicU64::new(0);
/// How long the last refusal held; 0 after an answer that was none.
static REFUSED_FOR_NS: AtomicU64 = AtomicU64::new(0);

/// It does so since a limit is reached.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// See `configure`.
static WANTED: OnceLock<Carry> = OnceLock::new();

struct Carriers {
    /// The session that they were given to.
    epoch: u64,
    all: Vec<Carrier>,
}

/// A channel and the hidden descriptor of its link.
struct Carrier {
    channel: Arc<Channel>,
    link: i32,
}

/// Notes what the program was told to want; where nothing was said the measured rule decides.
pub fn configure(carry: Carry) {
    let _ = WANTED.set(carry);
}

/// Whether asking may bring something: no lock, no system call but the clock.
pub fn may_carry() -> bool {
    WANTED.get() != Some(&Carry::Never) && !is_refused()
}

fn is_refused() -> bool {
    clock::monotonic_ns() < REFUSED_UNTIL_NS.load(Relaxed)
}

/// Whether a limit is why it brings nothing.
pub fn is_full() -> bool {
    IS_FULL.load(Relaxed) && is_refused()
}

fn wait_after_refusal(pause: u64) {
    REFUSED_UNTIL_NS.store(clock::monotonic_ns() + pause, Relaxed);
}

/// Why a carried connection leaves: its loop may have had no share left for it, and so none for others.
pub fn reason_of(stream: &Stream, reason: Native) -> Native {
    if stream.incoming.flags() & FULL == 0 {
        return reason;
    }
    IS_FULL.store(true, Relaxed);
    wait_after_refusal(REFUSED_NS);
    Native::Full
}

/// A slot for a connection, with the link over which it is handed over, and this session.
pub fn take_slot() -> Option<(Slot, i32, Standing)> {
    let standing = requests::standing().ok()?;
    let mut carriers = CARRIERS.lock();
    if carriers.epoch != standing.epoch {
        carriers.epoch = standing.epoch;
        carriers.forget(|_| true);
    }
    carriers.forget(|carrier| carrier.channel.state() != State::Active);
    if let Some(found) = carriers.find() {
        return Some((found.0, found.1, standing));
    }
    // Another thread may have been refused while this one waited for the lock.
    if carriers.all.len() >= CHANNELS_MAX || is_refused() {
        return None;
    }
    match open(&standing) {
        Some(carrier) => {
            REFUSED_FOR_NS.store(0, Relaxed);
            carriers.all.push(carrier);
        }
        None => {
            let pause = (2 * REFUSED_FOR_NS.load(Relaxed)).clamp(REFUSED_NS, REFUSED_NS_MAX);
            REFUSED_FOR_NS.store(pause, Relaxed);
            wait_after_refusal(pause);
            return None;
        }
    }
    let (slot, link) = carriers.find()?;
    Some((slot, link, standing))
}

impl Carriers {
    fn find(&self) -> Option<(Slot, i32)> {
        self.all.iter().find_map(|it| Some((it.channel.take_slot()?, it.link)))
    }

    fn forget(&mut self, is_gone: impl Fn(&Carrier) -> bool) {
        self.all.retain(|carrier| {
            let is_gone = is_gone(carrier);
            if is_gone {
                hidden::close_hidden(carrier.link);
            }
            !is_gone
        });
    }
}

/// Nobody takes what is handed over on this link: the loop is gone, or its queue is full.
pub fn forget_link(link: i32) {
    CARRIERS.lock().forget(|carrier| carrier.link == link);
}

fn open(standing: &Standing) -> Option<Carrier> {
    let cores = match WANTED.get() {
        Some(Carry::On(cores)) => Some(*cores),
        _ => None,
    };
    let request = Request::Own(delegated::request(cores));
    let answer = session::ask_in(standing.epoch, &request, &[]);
    let is_full = matches!(answer, Err(ControlError::Refused { code: Code::Full, .. }));
    IS_FULL.store(is_full, Relaxed);
    let (reply, fds) = answer.ok()?;
    let Reply::Own(own) = reply else { return None };
    let entry = delegated::granted(&own).ok()?;
    let [memory, link] = <[_; 2]>::try_from(fds).ok()?;
    let channel = Channel::map(entry, &memory, &standing.node)?;
    let link = hidden::hide_owned(link).ok()?;
    Some(Carrier { channel, link })
}

/// In the child of a fork: the parent's channels are not for new connections of ours.
pub fn reset_in_forked_child() {
    CARRIERS.reset_in_forked_child();
    let mut carriers = CARRIERS.lock();
    carriers.epoch = 0;
    let all = std::mem::take(&mut carriers.all);
    all.iter().for_each(|carrier| hidden::close_hidden(carrier.link));
    std::mem::forget(all);
    REFUSED_UNTIL_NS.store(0, Relaxed);
    REFUSED_FOR_NS.store(0, Relaxed);
}

//! epoll sets that hold direct streams beside the kernel's own descriptors.
//!
//! The kernel's epoll descriptor stays what the program sleeps in. A direct stream is in it
//! through its shadow, edge-triggered, under event data that only we use: upper half `MARK`, lower
//! half the interest's place. All other descriptors are in it as the program put them.
//!
//! - `control`: epoll_ctl(2)
//! - `wait`: epoll_wait(2), in looks and sleeps
//! - `life`: what becomes of the sets when descriptors, connections and processes go

mod control;
mod life;
mod wait;

pub use control::control;
pub use life::*;
pub use wait::{look, woken, Waited};

use std::sync::atomic::AtomicU32;
use std::sync::OnceLock;

use heliostat_base::clock;
use heliostat_base::lock::Lock;

use super::set::Interests;
use crate::table::{self, Kind};

/// Epoll sets with direct streams in one process; streams put into further ones go native.
const SETS_MAX: usize = 1024;

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

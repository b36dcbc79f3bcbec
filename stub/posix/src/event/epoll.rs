//! epoll sets that hold direct streams beside the kernel's own descriptors.
//!
//! The kernel's epoll descriptor stays what the program sleeps in. A direct stream is in it
//! through its shadow, edge-triggered, under event data of ours (`mark`) that no program is ever
//! given. All other descriptors are in it as the program put them.
//!
//! A set is known from epoll_create(2) on, and all descriptors of it are one place in the table.
//! A descriptor that came from elsewhere (exec, SCM_RIGHTS) is looked up by what it refers to; one
//! of a set that is not ours is the kernel's alone: streams put into it go native.
//!
//! - `control`: epoll_ctl(2)
//! - `early`: sockets that are put in before connect(2)
//! - `wait`: epoll_wait(2), in looks and sleeps
//! - `life`: what becomes of the sets when descriptors, connections and processes go
//! - `family`: sets that a fork left to several processes

mod control;
pub mod early;
mod family;
mod life;
mod wait;

pub use control::control;
pub use family::{before_fork, exec_failed, exiting, fork_failed, give_back};
pub use life::*;
pub use wait::{look, woken, Waited};

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

use heliostat_abi::code::Native;
use heliostat_base::call;
use heliostat_base::lock::Lock;

use super::set::Interests;
use crate::owner;
use crate::table::{self, Kind};
use crate::thread::Critical;
use crate::waiting::HabitCell;

/// Epoll sets in one process; streams put into further ones go native.
const SETS_MAX: usize = 1024;

static SETS: [Set; SETS_MAX] = [const { Set::new() }; SETS_MAX];
static USED: Lock<[bool; SETS_MAX]> = Lock::new([false; SETS_MAX]);

struct Set {
    inner: Lock<Interests>,
    /// Threads asleep in the kernel for this set.
    sleepers: AtomicU32,
    /// Its place among the sets that forks left to several processes; 0 for none.
    family: AtomicU32,
    /// exec(2) was tried while it would have closed it: this process does not count as a holder.
    holder_given: AtomicBool,
    /// How waits in it have ended.
    habit: HabitCell,
}

impl Set {
    const fn new() -> Self {
        Self {
            inner: Lock::new(Interests::new()),
            sleepers: AtomicU32::new(0),
            family: AtomicU32::new(0),
            holder_given: AtomicBool::new(false),
            habit: HabitCell::new(),
        }
    }
}

fn set_of(epoll: i32) -> Option<&'static Set> {
    match table::kind(epoll) {
        Kind::Epoll(index) => SETS.get(index as usize),
        _ => None,
    }
}

/// After epoll_create(2) gave `epoll`.
pub fn created(epoll: i32) {
    if !owner::is_borrowed() {
        let _critical = Critical::enter();
        begin(epoll, None);
    }
}

/// A place for the set that `epoll` refers to. With a reason, the set is the kernel's alone, and
/// streams put into it go native for that reason.
fn begin(epoll: i32, kernel_only: Option<Native>) -> Option<u32> {
    let mut used = USED.lock();
    let index = used.iter().position(|used| !used)?;
    let mut inner = SETS[index].inner.lock();
    *inner = Interests::new();
    (inner.descriptors, inner.kernel_only) = (1, kernel_only);
    SETS[index].family.store(0, Relaxed);
    SETS[index].habit.reset();
    used[index] = table::set(epoll, Kind::Epoll(index as u32));
    used[index].then_some(index as u32)
}

/// The set of an epoll descriptor; `None` for what is none, or has no place.
fn set_for(epoll: i32) -> Option<u32> {
    match table::kind(epoll) {
        Kind::Epoll(index) => Some(index),
        Kind::Unknown | Kind::Polled if epoll >= 0 && call::is_epoll(epoll) => adopt(epoll),
        _ => None,
    }
}

/// A descriptor that nobody saw coming: a copy of one that is known, or of another process's set.
#[cold]
fn adopt(epoll: i32) -> Option<u32> {
    let is_same = |(fd, kind)| match kind {
        Kind::Epoll(index) => call::is_same_file(fd, epoll).then_some(index),
        _ => None,
    };
    match table::walk(0, u32::MAX).find_map(is_same) {
        Some(index) => {
            retain(index);
            table::set(epoll, Kind::Epoll(index)).then_some(index)
        }
        None => begin(epoll, Some(Native::SharedSet)),
    }
}

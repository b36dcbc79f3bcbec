//! The table of this process's epoll sets: given out, and found by descriptor.
//!
//! A set is known from epoll_create(2) on, and all descriptors of it are one place in the table.
//! A descriptor that came from elsewhere (exec, SCM_RIGHTS) is looked up by what it refers to; one
//! of a set that is not ours is the kernel's alone: streams put into it go native.

use heliostat_abi::code::Native;
use heliostat_base::call;
use heliostat_base::lock::Lock;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sync::{AtomicBool, AtomicU32};

use super::set::Interests;
use crate::table::{self, DescriptorKind};
use crate::waiting::HabitCell;

/// Epoll sets in one process; streams put into further ones go native.
pub const SETS_MAX: usize = 1024;

/// The sets, by the index that the table of descriptors has.
pub static SETS: [Set; SETS_MAX] = [const { Set::new() }; SETS_MAX];
/// Which of them are given out.
pub static USED: Lock<[bool; SETS_MAX]> = Lock::new([false; SETS_MAX]);

/// An epoll set of this process.
pub struct Set {
    /// What it holds.
    pub inner: Lock<Interests>,
    /// Threads asleep in the kernel for this set.
    pub sleepers: AtomicU32,
    /// Its place among the sets that forks left to several processes; 0 for none.
    pub family: AtomicU32,
    /// exec(2) was tried while it would have closed it: this process does not count as a holder.
    pub holder_given: AtomicBool,
    /// How waits in it have ended.
    pub habit: HabitCell,
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

/// The set of an epoll descriptor that is known.
pub fn set_of(epoll: i32) -> Option<&'static Set> {
    match table::kind(epoll) {
        DescriptorKind::Epoll(index) => SETS.get(index as usize),
        _ => None,
    }
}

/// True for a set that no other process can wait in: none has inherited it, and none was given it.
pub fn is_own_alone(epoll: i32) -> bool {
    let own = set_of(epoll).filter(|set| set.family.load(Relaxed) == 0);
    own.is_some_and(|set| set.inner.lock().kernel_only.is_none())
}

/// A place for the set that `epoll` refers to. With a reason, the set is the kernel's alone, and
/// streams put into it go native for that reason.
pub fn begin(epoll: i32, kernel_only: Option<Native>) -> Option<u32> {
    let mut used = USED.lock();
    let index = used.iter().position(|used| !used)?;
    let mut inner = SETS[index].inner.lock();
    *inner = Interests::new();
    (inner.descriptors, inner.kernel_only) = (1, kernel_only);
    SETS[index].family.store(0, Relaxed);
    SETS[index].habit.reset();
    used[index] = table::set(epoll, DescriptorKind::Epoll(index as u32));
    used[index].then_some(index as u32)
}

/// The set of an epoll descriptor; `None` for what is none, or has no place.
pub fn set_for(epoll: i32) -> Option<u32> {
    match table::kind(epoll) {
        DescriptorKind::Epoll(index) => Some(index),
        DescriptorKind::Unknown | DescriptorKind::Polled if epoll >= 0 && call::is_epoll(epoll) => {
            adopt(epoll)
        }
        _ => None,
    }
}

/// A descriptor that nobody saw coming: a copy of one that is known, or of another process's set.
#[cold]
fn adopt(epoll: i32) -> Option<u32> {
    let is_same = |(fd, kind)| match kind {
        DescriptorKind::Epoll(index) => call::is_same_file(fd, epoll).then_some(index),
        _ => None,
    };
    match table::walk(0, u32::MAX).find_map(is_same) {
        Some(index) => {
            retain(index);
            table::set(epoll, DescriptorKind::Epoll(index)).then_some(index)
        }
        None => begin(epoll, Some(Native::SharedSet)),
    }
}

/// One more descriptor refers to the set (dup).
pub fn retain(index: u32) {
    SETS[index as usize % SETS_MAX].inner.lock().descriptors += 1;
}

/// A descriptor of a set.
pub fn descriptor_of(set: u32) -> Option<i32> {
    table::walk(0, u32::MAX).find(|(_, kind)| *kind == DescriptorKind::Epoll(set)).map(|(fd, _)| fd)
}

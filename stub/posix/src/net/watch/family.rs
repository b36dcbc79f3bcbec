//! Sets that a fork left to several processes.
//!
//! The kernel has one set, each process interests of its own. As long as only the process uses it
//! that did so before the fork (the children have merely inherited it, as those of nearly every
//! program), all is as before. Once another one uses it while the first is there, both leave it to
//! the kernel: the streams in it go native, and what is put in later is native too. Where the first
//! has left (a daemon's parent), the other takes its place.
//!
//! Who uses it stands in memory that all descendants share: a record for each such set, with the
//! process that uses it, 0 when that has left, and how many processes hold the set. The count is a
//! hint (a killed process never lowers it): it only says when nobody is left to mind.
//!
//! A process that is asleep when another begins to use the set cannot be told, and the other may
//! take its bells: it sleeps for `NAP_NS` at a time as long as there are others.

use std::ffi::CStr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::OnceLock;

use heliostat_base::call;
use heliostat_base::mapping::SharedMapping;

use super::set::Interests;
use super::sets::{self, Set, SETS, SETS_MAX, USED};
use crate::owner;

/// Records of one family of processes: user and holders, 4 bytes each. Record 0 is nobody's.
const RECORDS: usize = 4096;
const RECORD_BYTES: usize = 8;
const HOLDERS: usize = 4;
const NAME: &CStr = c"heliostat-sets";
/// In place of a record: there was none left, and the first use leaves the set to the kernel.
const NO_RECORD: u32 = u32::MAX;
/// In place of a process: several use the set.
const SEVERAL: u32 = u32::MAX;
/// Limit of a sleep with direct streams in a set that other processes hold.
const NAP_NS: u64 = 100_000_000;

/// Mapped before the first fork, and by all descendants; a child's own forks use it too.
static SHARED: OnceLock<Option<SharedMapping>> = OnceLock::new();

fn shared() -> Option<&'static SharedMapping> {
    let create = || SharedMapping::create(NAME, RECORDS * RECORD_BYTES).ok().map(|(_, map)| map);
    SHARED.get_or_init(create).as_ref()
}

/// A word of a set's record, if it has one.
fn word(family: u32, offset: usize) -> Option<&'static AtomicU32> {
    let place = family as usize * RECORD_BYTES;
    (1..RECORDS as u32).contains(&family).then(|| Some(shared()?.atomic_u32(place + offset)))?
}

/// A record that nobody holds, held once.
fn allocate() -> Option<u32> {
    let is_taken = |record: &u32| {
        word(*record, HOLDERS)
            .is_some_and(|holders| holders.compare_exchange(0, 1, AcqRel, Relaxed).is_ok())
    };
    let record = (1..RECORDS as u32).find(is_taken)?;
    word(record, 0)?.store(owner::pid() as u32, Release);
    Some(record)
}

fn used_sets() -> impl Iterator<Item = (u32, &'static Set)> {
    let used = USED.lock();
    (0..SETS_MAX as u32).filter(move |index| used[*index as usize]).map(|i| (i, &SETS[i as usize]))
}

/// Before a fork: every set gets one more holder. libc holds its allocator's locks here: nothing is
/// allocated.
pub fn before_fork() {
    for (index, set) in used_sets() {
        if set.family.load(Relaxed) == 0 {
            set.family.store(allocate().unwrap_or(NO_RECORD), Release);
        }
        raise(set);
        if let Some(epoll) = sets::descriptor_of(index) {
            set.inner.lock().settle(epoll);
        }
    }
}

/// The fork failed: the holders that were to come do not.
pub fn fork_failed() {
    used_sets().for_each(|(_, set)| lower(set));
}

fn raise(set: &Set) {
    if let Some(holders) = word(set.family.load(Relaxed), HOLDERS) {
        holders.fetch_add(1, AcqRel);
    }
}

fn lower(set: &Set) {
    if let Some(holders) = word(set.family.load(Relaxed), HOLDERS) {
        let _ = holders.fetch_update(AcqRel, Relaxed, |count| count.checked_sub(1));
    }
}

/// This process does not hold the set any more.
pub fn leave(set: &Set) {
    lower(set);
    if let Some(user) = word(set.family.swap(0, AcqRel), 0) {
        let _ = user.compare_exchange(owner::pid() as u32, 0, AcqRel, Relaxed);
    }
}

/// This process ends.
pub fn exiting() {
    // Who holds the lock may be what the exit interrupted.
    if USED.try_lock().is_some() {
        used_sets()
            .filter(|(_, set)| set.family.load(Relaxed) != 0)
            .for_each(|(_, set)| leave(set));
    }
}

/// exec(2) is about to close a descriptor of the set. A vfork child never was a holder.
pub fn give_back(index: u32) {
    let set = &SETS[index as usize % SETS_MAX];
    if !owner::is_borrowed() && !set.holder_given.swap(true, AcqRel) {
        lower(set);
    }
}

/// That exec(2) came back.
pub fn exec_failed() {
    for (_, set) in used_sets().filter(|(_, set)| set.holder_given.swap(false, AcqRel)) {
        raise(set);
    }
}

/// True when the set's registrations are this process's own to take out.
pub fn is_own(set: &Set) -> bool {
    let family = set.family.load(Relaxed);
    let user = || word(family, 0).map_or(0, |user| user.load(Acquire));
    family == 0 || user() == owner::pid() as u32
}

/// Before the set is used: false when another process uses it too, or nobody could tell.
#[inline]
pub fn may_use(set: &Set) -> bool {
    set.family.load(Relaxed) == 0 || may_use_shared(set)
}

#[cold]
fn may_use_shared(set: &Set) -> bool {
    let family = set.family.load(Relaxed);
    let (Some(user), Some(holders)) = (word(family, 0), word(family, HOLDERS)) else {
        return false;
    };
    let own = owner::pid() as u32;
    let seen = user.load(Acquire);
    let is_free = seen == 0 || seen != SEVERAL && !call::thread_exists(seen as i32);
    let is_mine = seen == own
        || is_free && user.compare_exchange(seen, own, AcqRel, Acquire).is_ok()
        || user.load(Acquire) == own;
    if !is_mine {
        user.store(SEVERAL, Release);
    } else if holders.load(Acquire) <= 1 {
        leave(set); // nobody else is left
    }
    is_mine
}

/// How long a thread may sleep that another process's use of the set would not wake.
pub fn nap_limit(set: &Set, inner: &Interests) -> Option<u64> {
    (set.family.load(Relaxed) != 0 && !inner.is_empty()).then_some(NAP_NS)
}

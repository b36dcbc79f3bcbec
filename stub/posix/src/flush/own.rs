//! Descriptors that are the stub's own because of durable files: the program must not close them.

use heliostat_base::sync::AtomicI32;
use heliostat_base::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::files::FILES_MAX;
use super::place;

/// The ring of flushes, those of the log, and one for each file that the log is kept for.
const OWN_MAX: usize = 1 + place::OWN_MAX + FILES_MAX;
const NONE: i32 = -1;

static OWN: [AtomicI32; OWN_MAX] = [const { AtomicI32::new(NONE) }; OWN_MAX];

/// Notes one; false when there is no place for it.
pub fn claim(fd: i32) -> bool {
    let free = |place: &&AtomicI32| place.compare_exchange(NONE, fd, AcqRel, Relaxed).is_ok();
    OWN.iter().find(free).is_some()
}

/// It is no longer the stub's.
pub fn release(fd: i32) {
    OWN.iter().filter(|place| place.load(Relaxed) == fd).for_each(|it| it.store(NONE, Release));
}

/// None is.
pub fn release_all() {
    OWN.iter().for_each(|place| place.store(NONE, Release));
}

/// True when `fd` is one.
#[inline]
pub fn owns(fd: i32) -> bool {
    fd >= 0 && OWN.iter().any(|place| place.load(Relaxed) == fd)
}

/// All of them.
pub fn each() -> impl Iterator<Item = u32> {
    OWN.iter().filter_map(|place| u32::try_from(place.load(Acquire)).ok())
}

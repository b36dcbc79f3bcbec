//! Devices that files lie on: from which size on their own way is better, and what they have to do.
//!
//! ```text
//! first file --> fixed --a large file under a lease--> being measured --> measured, for good
//!                  ^                                      |
//!                  '-- it could not be, by that file -----'  (the third time for good, and said)
//! ```
//! A device is what st_dev numbers. Each is measured once in the life of the control plane, and three
//! times nobody can: so no program has it measured again and again. The table has a limit, since a
//! user may have file systems of numbers of its own (subvolumes of btrfs); those beyond share a device
//! that is never measured.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_base::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::topology::node_of;
use super::verdict::{find, SizeTimes};
use super::way::{is_busy, threshold, Load, DIRECT_FROM, FULL_FROM, NEVER};

/// Devices that are known; each has been measured with some tens of MiB at most.
pub const DEVICES_MAX: usize = 64;
/// Files by which it is tried to measure one.
const TRIES_MAX: u8 = 3;

/// What a device's threshold rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Basis {
    /// The configuration says it.
    Configured,
    /// It is the fixed one: no file has come by which it could be measured, or why it could not be by
    /// the last of so many.
    Unmeasured(u8, Option<&'static str>),
    /// It is the fixed one for good, and why.
    Fixed(&'static str),
    /// It is the fixed one as yet: it is measured by another file after so many.
    Measuring(u8),
    /// It was measured.
    Measured(Measured),
}

/// What was measured of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// The best times of each size, in order of size.
    pub samples: Vec<SizeTimes>,
    /// What it took.
    pub cost: Cost,
}

/// What a measurement took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Nanoseconds.
    pub ns: u64,
    /// Bytes that were read.
    pub bytes: u64,
}

/// One device.
pub struct Device {
    /// Its number; none of the one that stands for all for which there was no room.
    pub number: Option<u64>,
    /// The memory node that it is at, where that is known.
    pub node: Option<u32>,
    threshold: AtomicU64,
    /// Reads past the caches that it has, of all loops.
    under_way: AtomicU64,
    is_full: AtomicBool,
    basis: Mutex<Basis>,
}

impl Device {
    fn new(number: Option<u64>, configured: Option<u64>) -> Device {
        let basis = match (configured, number) {
            (Some(_), _) => Basis::Configured,
            (None, Some(_)) => Basis::Unmeasured(0, None),
            (None, None) => Basis::Fixed(TOO_MANY),
        };
        Device {
            number,
            node: number.and_then(node_of),
            threshold: AtomicU64::new(match configured {
                Some(0) => NEVER,
                configured => configured.unwrap_or(DIRECT_FROM),
            }),
            under_way: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
            basis: Mutex::new(basis),
        }
    }

    /// The threshold without any load.
    pub fn measured(&self) -> u64 {
        self.threshold.load(Relaxed)
    }

    /// The threshold for a loop that copies most of the time, or does not, and a window that is at another
    /// memory node, or is not.
    #[inline]
    pub fn direct_from(&self, is_copying: bool, is_far: bool) -> u64 {
        threshold(self.measured(), Load { is_device_full: self.is_full(), is_copying, is_far })
    }

    /// Whether memory of this node is far from it: both are known to be at different ones.
    pub fn is_far(&self, memory: Option<u32>) -> bool {
        self.node.zip(memory).is_some_and(|(own, other)| own != other)
    }

    /// Whether it has as many reads past the caches as it can do at a time.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    /// How many it has.
    pub fn under_way(&self) -> u64 {
        self.under_way.load(Relaxed)
    }

    /// A read past the caches goes to it.
    fn begun(&self) {
        self.look_at(self.under_way.fetch_add(1, Relaxed) + 1);
    }

    /// So many have come back, or nobody waits for them any more.
    fn ended(&self, reads: u64) {
        self.look_at(self.under_way.fetch_sub(reads, Relaxed).saturating_sub(reads));
    }

    fn look_at(&self, under_way: u64) {
        let was = self.is_full();
        let is = is_busy(was, under_way, FULL_FROM);
        if is != was {
            self.is_full.store(is, Relaxed);
        }
    }

    /// What the threshold rests on.
    pub fn basis(&self) -> Basis {
        self.lock().clone()
    }

    /// Whether it is to be measured by a file, which it is from then on: true for one at a time.
    pub(crate) fn begin(&self) -> bool {
        let mut basis = self.lock();
        let Basis::Unmeasured(tries, _) = *basis else { return false };
        *basis = Basis::Measuring(tries);
        true
    }

    /// It never is, and why.
    pub fn give_up(&self, why: &'static str) {
        let mut basis = self.lock();
        if matches!(*basis, Basis::Unmeasured(..)) {
            *basis = Basis::Fixed(why);
        }
    }

    /// It was measured, or could not be, by the file by which it was begun.
    pub(crate) fn decide(&self, found: Result<Measured, &'static str>) {
        let mut basis = self.lock();
        let tries = if let Basis::Measuring(tries) = *basis { tries + 1 } else { TRIES_MAX };
        let judged = found.and_then(|measured| {
            let bytes = find(&measured.samples).ok_or(TOO_SLOW)?;
            Ok((bytes, measured))
        });
        *basis = match judged {
            Ok((bytes, measured)) => {
                self.threshold.store(bytes, Relaxed);
                Basis::Measured(measured)
            }
            Err(why) if tries < TRIES_MAX => Basis::Unmeasured(tries, Some(why)),
            Err(why) => Basis::Fixed(why),
        };
    }

    fn lock(&self) -> MutexGuard<'_, Basis> {
        self.basis.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Transfers past the caches of one open file that a device has. Dropped, nobody hears any more what
/// comes back, and they count no longer.
pub struct AtDevice {
    device: Arc<Device>,
    /// The window that it is read into is at another memory node.
    is_far: bool,
    transfers: u64,
}

impl AtDevice {
    /// None yet, of a file that is read into a window at this memory node, where that is known.
    pub fn new(device: Arc<Device>, window: Option<u32>) -> AtDevice {
        let is_far = device.is_far(window);
        AtDevice { device, is_far, transfers: 0 }
    }

    /// The device's threshold for this file.
    #[inline]
    pub fn direct_from(&self, is_copying: bool) -> u64 {
        self.device.direct_from(is_copying, self.is_far)
    }

    /// One goes there.
    pub fn take_off(&mut self) {
        self.transfers += 1;
        self.device.begun();
    }

    /// One has come back.
    pub fn land(&mut self) {
        if self.transfers > 0 {
            self.transfers -= 1;
            self.device.ended(1);
        }
    }
}

impl Drop for AtDevice {
    fn drop(&mut self) {
        self.device.ended(self.transfers);
    }
}

const TOO_SLOW: &str = "it, or the machine, was too slow to be measured in the time that there is";
const TOO_MANY: &str = "more devices are in use than are measured";

/// All devices that files are open on, or were.
pub struct Devices {
    known: Mutex<HashMap<u64, Arc<Device>>>,
    others: Arc<Device>,
    configured: Option<u64>,
}

impl Devices {
    /// None yet. What is configured holds for each, and none is measured then.
    pub fn new(configured: Option<u64>) -> Devices {
        let others = Arc::new(Device::new(None, configured));
        Devices { known: Mutex::default(), others, configured }
    }

    /// The device of this number.
    pub fn of(&self, number: u64) -> Arc<Device> {
        let found = self.found(&self.lock(), number);
        found.unwrap_or_else(|| {
            // Without the lock, since it reads sysfs: of two that are made at once the first is kept.
            let device = Arc::new(Device::new(Some(number), self.configured));
            let mut known = self.lock();
            let found = self.found(&known, number);
            found.unwrap_or_else(|| known.entry(number).or_insert(device).clone())
        })
    }

    /// The one that is known, or that stands for those for which there is no room.
    fn found(&self, known: &HashMap<u64, Arc<Device>>, number: u64) -> Option<Arc<Device>> {
        let is_full = known.len() >= DEVICES_MAX;
        known.get(&number).or(is_full.then_some(&self.others)).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Device>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, in order of number.
    pub fn all(&self) -> Vec<Arc<Device>> {
        let known = self.lock();
        let mut all: Vec<_> = known.values().cloned().collect();
        all.sort_by_key(|device| device.number);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(bytes: u64, direct_ns: u64) -> SizeTimes {
        SizeTimes { bytes, direct_ns, filled_ns: 100, times: 9 }
    }

    #[test]
    fn a_device_is_measured_once_and_keeps_what_was_found() {
        let devices = Devices::new(None);
        let device = devices.of(7);
        assert!(device.begin() && !device.begin());
        assert_eq!((device.measured(), device.basis()), (DIRECT_FROM, Basis::Measuring(0)));
        let samples = vec![sample(128 << 10, 50), sample(256 << 10, 50)];
        device.decide(Ok(Measured { samples, cost: Cost::default() }));
        let again = devices.of(7);
        assert_eq!((again.measured(), again.begin()), (128 << 10, false));
        let slow = devices.of(8);
        assert!(slow.begin());
        slow.decide(Ok(Measured { samples: Vec::new(), cost: Cost::default() }));
        assert_eq!(slow.basis(), Basis::Unmeasured(1, Some(TOO_SLOW)));
        assert_eq!(slow.measured(), DIRECT_FROM);
    }

    #[test]
    fn who_cannot_be_measured_by_three_files_is_not_tried_again() {
        let device = Devices::new(None).of(1);
        for tries in 1..TRIES_MAX {
            assert!(device.begin() && !device.begin());
            device.decide(Err("no"));
            assert_eq!(device.basis(), Basis::Unmeasured(tries, Some("no")));
        }
        assert!(device.begin());
        device.decide(Err("no"));
        assert_eq!((device.basis(), device.begin()), (Basis::Fixed("no"), false));
        let memory = Devices::new(None).of(2);
        memory.give_up("memory");
        assert_eq!((memory.basis(), memory.begin()), (Basis::Fixed("memory"), false));
    }

    #[test]
    fn the_table_has_a_limit_and_those_beyond_are_never_measured() {
        let devices = Devices::new(None);
        (0..DEVICES_MAX as u64).for_each(|number| assert!(devices.of(number).begin()));
        for number in 1000..3000 {
            assert!(!devices.of(number).begin());
        }
        assert_eq!(devices.all().len(), DEVICES_MAX);
    }

    #[test]
    fn threads_that_ask_at_once_have_the_same_device() {
        let devices = Devices::new(None);
        let begun = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| devices.of(7).begin())).collect();
            asked.into_iter().map(|it| it.join().unwrap()).filter(|is| *is).count()
        });
        assert_eq!((begun, devices.all().len()), (1, 1));
    }

    #[test]
    fn what_is_configured_holds_and_nothing_is_measured() {
        for (configured, holds) in [(0, NEVER), (4096, 4096)] {
            let device = Devices::new(Some(configured)).of(1);
            assert_eq!((device.measured(), device.begin()), (holds, false));
        }
    }

    #[test]
    fn a_full_device_has_twice_the_threshold_until_half_has_come_back() {
        let device = Devices::new(None).of(1);
        (0..FULL_FROM).for_each(|_| device.begun());
        assert_eq!(device.direct_from(false, false), 2 * DIRECT_FROM);
        device.ended(FULL_FROM / 2);
        assert_eq!(device.direct_from(false, false), 2 * DIRECT_FROM);
        device.ended(1);
        assert_eq!(
            (device.direct_from(false, false), device.direct_from(true, false)),
            (256 << 10, 128 << 10)
        );
    }

    #[test]
    fn only_two_nodes_that_are_known_are_far_from_each_other() {
        let at = |node| Device { node, ..Device::new(Some(1), None) };
        assert!(at(Some(1)).is_far(Some(0)) && !at(Some(1)).is_far(Some(1)));
        assert!(!at(None).is_far(Some(0)) && !at(Some(1)).is_far(None));
        let far = AtDevice::new(Arc::new(at(Some(1))), Some(0));
        assert_eq!(far.direct_from(false), 4 * DIRECT_FROM);
    }

    #[test]
    fn what_a_closed_file_had_under_way_counts_no_longer() {
        let device = Devices::new(None).of(1);
        let (mut one, mut other) =
            (AtDevice::new(device.clone(), None), AtDevice::new(device.clone(), None));
        (0..3).for_each(|_| one.take_off());
        other.take_off();
        one.land();
        assert_eq!(device.under_way(), 3);
        drop(one);
        assert_eq!(device.under_way(), 1);
        other.land();
        other.land();
        drop(other);
        assert_eq!(device.under_way(), 0);
    }
}

//! What all server loops share: the cache, the numbers of files in it, the device, and each other.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use super::blocks::Blocks;
use super::file::Version;
use super::message::Order;

/// Bytes that the device may have to do at once, of all busy sessions of all loops together.
pub const DEVICE_BYTES_MAX: u64 = 32 << 20;
/// Versions of files that are remembered; beyond it all are forgotten, and read again.
const VERSIONS_MAX: usize = 4096;

/// The end at which a loop takes orders, from the control plane and from other loops.
#[derive(Clone)]
pub struct Gate {
    /// Orders.
    pub orders: Sender<Order>,
    /// Wakes the loop.
    pub bell: Arc<OwnedFd>,
}

impl Gate {
    /// Gives an order; the loop obeys soon.
    pub fn send(&self, order: Order) {
        // Where nobody takes it the loop has ended, and `Gone` is among the news.
        let _ = self.orders.send(order);
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// Shared by all loops of one control plane.
pub struct Shared {
    /// Cached blocks.
    pub blocks: Arc<Blocks>,
    /// The loops, by number.
    pub gates: Vec<Gate>,
    /// Busy sessions of each.
    busy: Vec<AtomicU64>,
    versions: Mutex<(HashMap<Version, u64>, u64)>,
}

impl Shared {
    /// For the loops behind these gates.
    pub fn create(cache_bytes: u64, gates: Vec<Gate>) -> std::io::Result<Shared> {
        Ok(Shared {
            blocks: Arc::new(Blocks::create(cache_bytes, gates.len())?),
            busy: gates.iter().map(|_| AtomicU64::new(0)).collect(),
            gates,
            versions: Mutex::default(),
        })
    }

    /// The cache's number for a version of a file, the same on every loop.
    pub fn number(&self, version: Version) -> u64 {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let (numbers, last) = &mut *versions;
        if let Some(number) = numbers.get(&version) {
            return *number;
        }
        if numbers.len() >= VERSIONS_MAX {
            numbers.clear();
        }
        *last += 1;
        numbers.insert(version, *last);
        *last
    }

    /// A loop has so many busy sessions: the bytes that each of all may have at the device.
    pub fn device_share(&self, number: usize, busy: u64) -> u64 {
        if let Some(own) = self.busy.get(number).filter(|own| own.load(Relaxed) != busy) {
            own.store(busy, Relaxed);
        }
        let all: u64 = self.busy.iter().map(|busy| busy.load(Relaxed)).sum();
        DEVICE_BYTES_MAX / all.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(loops: usize) -> Shared {
        let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let gate = Gate { orders: std::sync::mpsc::channel().0, bell: Arc::new(bell) };
        Shared::create(1 << 20, vec![gate; loops]).unwrap()
    }

    #[test]
    fn busy_sessions_of_all_loops_share_the_device() {
        let shared = shared(3);
        assert_eq!(shared.device_share(0, 1), DEVICE_BYTES_MAX);
        assert_eq!(shared.device_share(1, 3), DEVICE_BYTES_MAX / 4);
        assert_eq!(shared.device_share(0, 0), DEVICE_BYTES_MAX / 3);
        assert_eq!(shared.device_share(1, 0), DEVICE_BYTES_MAX);
    }

    #[test]
    fn a_version_has_one_number_and_another_another() {
        let shared = shared(1);
        let version = Version { device: 1, inode: 2, size: 3, changed: (4, 5), only_under: None };
        let other = Version { size: 4, ..version };
        assert_eq!(shared.number(version), shared.number(version));
        assert_ne!(shared.number(version), shared.number(other));
    }
}

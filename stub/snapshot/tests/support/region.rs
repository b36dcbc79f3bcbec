//! Snapshot regions over a test's own bytes, and consumers of them in the same process.

use std::convert::Infallible;

use heliostat_backend_pages::live::LiveMemory;
use heliostat_stub_snapshot::{Attachment, ConsumerHandle, Region, Settings, Version};

/// A region over `bytes`, which the test keeps until the region is dropped.
pub fn region(bytes: &[u8], settings: Settings) -> Region {
    Region::new(live(bytes), settings).unwrap()
}

/// `bytes` as live memory, which the test keeps for as long as it is used.
pub fn live(bytes: &[u8]) -> LiveMemory {
    // SAFETY: every test keeps `bytes` until its region is dropped.
    unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) }
}

/// A consumer of `region`, and its handle there.
pub fn attach(region: &mut Region) -> (Attachment, ConsumerHandle) {
    let (table, pool) = region.descriptors();
    let (table, pool) = (table.duplicate().unwrap(), pool.duplicate().unwrap());
    let mut handle = None;
    let announced = Attachment::new(&table, pool, |pins| {
        handle = region.admit(pins).unwrap();
        Ok::<(), Infallible>(())
    });
    (announced.unwrap().unwrap(), handle.expect("room for a consumer"))
}

/// All bytes of a version.
pub fn content(version: &Version) -> Vec<u8> {
    let mut bytes = vec![0; version.len()];
    version.read(0, &mut bytes).unwrap();
    bytes
}

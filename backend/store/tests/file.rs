//! A store in a file: what lasts when the file is opened again, and who may open it.

use std::path::PathBuf;
use std::time::Duration;

use heliostat_backend_block::{Buffer, Device, FileDevice, OpenError, Options, Request};
use heliostat_backend_store::{StoreFailed, StoreOnDevice};
use heliostat_storefile::{Create, Format, Identity, Kind, Name, StoreError};

const GRAIN: u64 = 65536;

/// A file of zeroes, removed at the end.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn transfer(device: &mut impl Device, request: Request) {
    let mut taken = Vec::new();
    device.begin(1, request).unwrap();
    while taken.is_empty() {
        device.reap(Some(Duration::from_secs(10)), &mut taken).unwrap();
    }
    assert_eq!(taken[0].result, Ok(()));
}

#[test]
fn areas_and_their_bytes_last_and_a_deleted_ones_are_zero_for_the_next() {
    let name = format!("heliostat-store-{}", std::process::id());
    let place = Place(std::env::temp_dir().join(name));
    FileDevice::create(&place.0, 64 * GRAIN).unwrap();
    let open = || FileDevice::open(&place.0, Options::default());
    let identity = Identity([1; 16]);
    let grain_bytes = GRAIN as u32;
    let format = Format { identity, device_bytes: 0, grain_bytes, areas_max: 16, is_zero: true };
    let create = |name: &str, grains: u64| {
        let name = Name::new(name).unwrap();
        Create { name, bytes: grains * GRAIN, owner: 7, rights: 1, kind: Kind::Queue }
    };

    let mut store = StoreOnDevice::format(open().unwrap(), &format).unwrap();
    let area = store.create(&create("kept", 3)).unwrap().clone();
    let other = store.create(&create("deleted", 2)).unwrap().clone();
    let superblock = *store.store().superblock();
    let from = Buffer::new(GRAIN as usize).unwrap();
    from.copy_in(&vec![0xc5; GRAIN as usize]).unwrap();
    for (area, at) in [(&area, 2 * GRAIN), (&other, 0)] {
        let offset = area.pieces(&superblock, at, GRAIN).unwrap()[0].offset;
        let write = Request::Write { offset, from: from.clone(), durable: true };
        transfer(store.device_mut(), write);
    }
    store.delete(other.generation).unwrap();
    assert!(matches!(open(), Err(OpenError::InUse)));
    drop(store);

    let wanted = Some(Identity([2; 16]));
    let wrong = StoreError::WrongStore { wanted: Identity([2; 16]), found: identity };
    let refused = StoreOnDevice::open(open().unwrap(), wanted).err();
    assert_eq!(refused, Some(StoreFailed::Store(wrong)));
    let mut store = StoreOnDevice::open(open().unwrap(), Some(identity)).unwrap();
    assert_eq!(store.store().areas(), std::slice::from_ref(&area));
    assert_eq!(store.store().zeroing_bytes(), 2 * GRAIN);
    while store.zero(GRAIN).unwrap() {}
    let next = store.create(&create("next", 2)).unwrap().clone();
    assert_eq!(next.extents, other.extents, "the same place");
    for (area, at, value) in [(&area, 2 * GRAIN, 0xc5), (&next, 0, 0)] {
        let offset = area.pieces(&superblock, at, GRAIN).unwrap()[0].offset;
        transfer(store.device_mut(), Request::Read { offset, into: from.clone() });
        assert!(from.copy_out().unwrap().iter().all(|byte| *byte == value));
    }
}

//! A device that fails or lies: what the store says, and what is left of it.

use heliostat_backend_block::{
    BlockError, Device, Fault, FaultDevice, Faults, Image, MemoryDevice, Odds,
};
use heliostat_backend_store::{StoreFailed, StoreOnDevice};
use heliostat_storefile::{Create, Format, Identity, Kind, Name, StoreError};

const GRAIN: u64 = 4096;
const DEVICE_BYTES: u64 = 64 * GRAIN;

fn format() -> Format {
    let identity = Identity([5; 16]);
    Format { identity, device_bytes: 0, grain_bytes: GRAIN as u32, areas_max: 8, is_zero: true }
}

fn create(name: &str) -> Create {
    let name = Name::new(name).unwrap();
    Create { name, bytes: GRAIN, owner: 1, rights: 0, kind: Kind::Log }
}

fn image_of<D: Device>(store: StoreOnDevice<FaultDevice<D>>) -> D {
    store.into_device().into_inner()
}

#[test]
fn after_a_step_that_failed_nothing_is_changed_until_it_is_opened_again() {
    let faults = Faults::new(1);
    let device = FaultDevice::new(MemoryDevice::new(DEVICE_BYTES), faults.clone());
    let mut store = StoreOnDevice::format(device, &format()).unwrap();
    store.create(&create("a")).unwrap();
    faults.script_next(Fault::DoneError { errno: 5 });
    let failed = StoreFailed::Device(BlockError::Device { errno: 5 });
    assert_eq!(store.create(&create("b")).unwrap_err(), failed);
    assert_eq!(store.create(&create("c")).unwrap_err(), StoreFailed::Failed);
    assert_eq!(store.zero(GRAIN), Ok(false));
    let reopened = StoreOnDevice::open(image_of(store), None).unwrap();
    let names: Vec<_> = reopened.store().areas().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b"], "the write that failed was done all the same");
}

#[test]
fn torn_lost_and_misdirected_writes_leave_a_store_that_was_or_none() {
    let (mut opened, mut refused) = (0, 0);
    for seed in 0..300 {
        let faults = Faults::new(seed);
        let device = FaultDevice::new(MemoryDevice::new(DEVICE_BYTES), faults.clone());
        let mut store = StoreOnDevice::format(device, &format()).unwrap();
        let each = 150_000;
        faults.set_odds(Odds { torn: each, lost: each, misdirected: each, ..Odds::default() });
        let names = ["a", "b", "c", "d"];
        names.iter().for_each(|name| assert!(store.create(&create(name)).is_ok()));
        match StoreOnDevice::open(image_of(store), None) {
            Ok(store) => {
                opened += 1;
                let found: Vec<_> =
                    store.store().areas().iter().map(|it| it.name.as_str()).collect();
                assert_eq!(found, names[..found.len()], "seed {seed}: {:?}", faults.injected());
            }
            Err(StoreFailed::Store(
                StoreError::Damaged(_) | StoreError::Foreign | StoreError::Blank,
            )) => refused += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(opened > 100 && refused > 0, "{opened} opened, {refused} refused");
}

#[test]
fn a_device_that_is_too_small_or_has_something_else_is_refused() {
    let small = StoreOnDevice::open(MemoryDevice::new(GRAIN), None).unwrap_err();
    let truncated = StoreError::Truncated { wanted: 2 * GRAIN, found: GRAIN };
    assert_eq!(small, StoreFailed::Store(truncated));
    let mut image = Image::new(DEVICE_BYTES);
    image.fill(0, 512, 1).unwrap();
    let foreign = StoreOnDevice::format(MemoryDevice::of(image), &format()).unwrap_err();
    assert_eq!(foreign, StoreFailed::Store(StoreError::Foreign));
    let blank = StoreOnDevice::open(MemoryDevice::new(DEVICE_BYTES), None).unwrap_err();
    assert_eq!(blank, StoreFailed::Store(StoreError::Blank));
}

#[test]
fn what_was_zeroed_is_given_back_where_that_is_wanted_and_the_device_takes_it() {
    let faults = Faults::new(1);
    let device = FaultDevice::new(MemoryDevice::new(DEVICE_BYTES), faults.clone());
    let mut store = StoreOnDevice::format(device, &format()).unwrap();
    let end = |store: &mut StoreOnDevice<_>, name: &str| {
        let generation = store.create(&create(name)).unwrap().generation;
        store.delete(generation).unwrap();
    };
    end(&mut store, "a");
    assert_eq!((store.zero(GRAIN), store.discards()), (Ok(true), (false, 0)));
    store.discard_zeroed(true);
    end(&mut store, "b");
    assert_eq!((store.zero(GRAIN), store.discards()), (Ok(true), (true, GRAIN)));
    assert_eq!(store.store().zeroing_bytes(), 0);
    // One that refuses is asked no more, and the bytes are zero and free all the same.
    end(&mut store, "c");
    faults.script(faults.begun() + 1, Fault::Error { errno: 95 });
    assert_eq!((store.zero(GRAIN), store.discards()), (Ok(true), (false, GRAIN)));
    assert_eq!(store.store().zeroing_bytes(), 0);
    let names = StoreOnDevice::open(image_of(store), None).unwrap();
    assert!(names.store().areas().is_empty());
}

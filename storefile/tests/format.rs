//! The format: what is written is read again, and what cannot have been written is refused.

use heliostat_storefile::{
    Create, DurableBy, Extent, Format, Identity, Kind, Name, Opened, Part, Step, Store, StoreError,
    Superblock, BLOCK_BYTES, FORMAT, SUPERBLOCKS_BYTES,
};

const GRAIN: u64 = 4096;

fn plan(areas_max: u32) -> Format {
    Format {
        identity: Identity(*b"0123456789abcdef"),
        device_bytes: 40 * GRAIN,
        grain_bytes: GRAIN as u32,
        areas_max,
        is_zero: true,
    }
}

fn perform(device: &mut [u8], steps: &[Step]) {
    for step in steps {
        match step {
            Step::Write { offset, bytes } => {
                assert_eq!((offset % BLOCK_BYTES, bytes.len() as u64 % BLOCK_BYTES), (0, 0));
                device[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Step::Zero { offset, bytes } => device[*offset as usize..][..*bytes as usize].fill(0),
            Step::Flush => {}
        }
    }
}

fn open(device: &[u8]) -> Result<Opened, StoreError> {
    let first = &device[..SUPERBLOCKS_BYTES as usize];
    let (superblock, mut steps) = Superblock::read(first, device.len() as u64, None)?;
    let copies =
        superblock.tables().map(|copy| &device[copy.offset as usize..][..copy.bytes as usize]);
    let mut opened = Store::open(superblock, copies)?;
    steps.append(&mut opened.steps);
    Ok(Opened { steps, ..opened })
}

fn create(name: &str, grains: u64) -> Create {
    let name = Name::new(name).unwrap();
    Create { name, bytes: grains * GRAIN, owner: 1000, rights: 5, kind: Kind::Log }
}

/// A device with a store of three areas, of which the second has ended.
fn device() -> (Vec<u8>, Store) {
    let mut device = vec![0; 40 * GRAIN as usize];
    let Opened { mut store, steps } =
        Store::format(&plan(8), &device[..SUPERBLOCKS_BYTES as usize]).unwrap();
    perform(&mut device, &steps);
    for name in ["log", "second", "données"] {
        let change = store.create(&create(name, 3)).unwrap();
        perform(&mut device, &change.steps);
        store.apply(change).unwrap();
    }
    let change = store.delete(2).unwrap();
    perform(&mut device, &change.steps);
    store.apply(change).unwrap();
    (device, store)
}

#[test]
fn what_was_written_is_opened_again_and_needs_no_repair() {
    let (device, store) = device();
    let opened = open(&device).unwrap();
    assert_eq!(opened, Opened { store, steps: Vec::new() });
    let names: Vec<_> = opened.store.areas().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["log", "données"]);
    let area = opened.store.find(1000, &Name::new("données").unwrap()).unwrap();
    assert_eq!((area.generation, area.owner, area.rights, area.kind), (3, 1000, 5, Kind::Log));
    assert_eq!((opened.store.zeroing_bytes(), opened.store.sequence()), (3 * GRAIN, 5));
}

#[test]
fn any_changed_byte_of_one_copy_is_repaired_and_of_both_is_refused() {
    let (device, store) = device();
    let tables = store.superblock().tables();
    for (first, second, bytes) in
        [(0, BLOCK_BYTES, BLOCK_BYTES), (tables[0].offset, tables[1].offset, 400)]
    {
        for at in (0..bytes).step_by(7) {
            let used =
                if first == 0 { !(76..4064).contains(&at) } else { at < used_bytes(&device) };
            for place in [first, second] {
                let mut damaged = device.clone();
                damaged[(place + at) as usize] ^= 0x10;
                let opened = open(&damaged).unwrap();
                assert_eq!(opened.store, store);
                assert!(first == 0 || used != opened.steps.is_empty(), "byte {at} of {place}");
                perform(&mut damaged, &opened.steps);
                assert_eq!(open(&damaged).unwrap().steps, []);
            }
            let mut both = device.clone();
            [first, second].iter().for_each(|place| both[(place + at) as usize] ^= 0x10);
            assert!(!used || open(&both).is_err(), "byte {at} of {first}");
        }
    }
}

/// Bytes of a copy of the table that mean something.
fn used_bytes(device: &[u8]) -> u64 {
    let at = SUPERBLOCKS_BYTES as usize + 32;
    96 + u64::from(u32::from_le_bytes(device[at..at + 4].try_into().unwrap()))
}

#[test]
fn a_device_without_a_store_says_what_it_is() {
    let blank = vec![0; 8 * GRAIN as usize];
    assert_eq!(open(&blank), Err(StoreError::Blank));
    let mut foreign = blank.clone();
    foreign[510] = 0x55;
    assert_eq!(open(&foreign), Err(StoreError::Foreign));
    let formatted = Store::format(&plan(8), &foreign[..SUPERBLOCKS_BYTES as usize]);
    assert_eq!(formatted, Err(StoreError::Foreign));
    let (device, store) = device();
    let first = &device[..SUPERBLOCKS_BYTES as usize];
    let identity = store.superblock().identity;
    assert_eq!(Store::format(&plan(8), first), Err(StoreError::Exists { identity }));
    let wanted = Identity([7; 16]);
    let wrong = StoreError::WrongStore { wanted, found: identity };
    assert_eq!(Superblock::read(first, 1 << 30, Some(wanted)).unwrap_err(), wrong);
    let short = StoreError::Truncated { wanted: 40 * GRAIN, found: 39 * GRAIN };
    assert_eq!(Superblock::read(first, 39 * GRAIN, None).unwrap_err(), short);
}

#[test]
fn a_newer_format_is_not_touched() {
    let (mut device, _) = device();
    for copy in [0, BLOCK_BYTES as usize] {
        device[copy + 8] = FORMAT as u8 + 1;
        let hash = blake3::hash(&device[copy..copy + 4064]);
        device[copy + 4064..copy + 4096].copy_from_slice(hash.as_bytes());
    }
    assert_eq!(open(&device), Err(StoreError::Newer { found: FORMAT + 1, known: FORMAT }));
}

#[test]
fn what_is_full_says_of_what() {
    let (_, store) = device();
    assert_eq!(store.create(&create("log", 1)), Err(StoreError::NameTaken));
    let free = store.free_bytes();
    let full = StoreError::Full { wanted: free + GRAIN, free, zeroing: 3 * GRAIN };
    assert_eq!(store.create(&create("x", free / GRAIN + 1)), Err(full));
    assert!(store.create(&create("x", free / GRAIN)).is_ok());
    let (what, limit) = ("bytes of an area, a multiple", GRAIN);
    let odd = StoreError::Number { what, wanted: GRAIN + 512, limit };
    assert_eq!(store.resize(1, GRAIN + 512), Err(odd));
    assert_eq!(store.resize(2, GRAIN), Err(StoreError::NoArea));
    assert_eq!(Name::new(""), Err(StoreError::BadName { bytes: 0, limit: 255 }));
    assert_eq!(Name::new(&"x".repeat(256)), Err(StoreError::BadName { bytes: 256, limit: 255 }));
    assert_eq!(Name::new("a\0b"), Err(StoreError::BadName { bytes: 3, limit: 255 }));

    let Opened { mut store, .. } = Store::format_over(&plan(1)).unwrap();
    let change = store.create(&create("only", 1)).unwrap();
    store.apply(change).unwrap();
    assert_eq!(store.create(&create("x", 1)), Err(StoreError::TooManyAreas { limit: 1 }));
}

#[test]
fn two_users_have_areas_of_one_name_until_one_is_to_own_both() {
    let (_, mut store) = device();
    let change = store.create(&Create { owner: 7, ..create("log", 1) }).unwrap();
    store.apply(change).unwrap();
    assert_eq!(store.appoint(4, 1000, 0), Err(StoreError::NameTaken));
    let change = store.appoint(4, 8, 3).unwrap();
    store.apply(change).unwrap();
    let name = Name::new("log").unwrap();
    assert_eq!(store.find(7, &name), None);
    let area = store.find(8, &name).unwrap();
    assert_eq!((area.generation, area.rights), (4, 3));
    assert_eq!(store.appoint(99, 1, 1), Err(StoreError::NoArea));
}

#[test]
fn the_table_is_full_before_the_areas_are_where_names_are_long() {
    let many = Format { device_bytes: 1 << 22, ..plan(600) };
    let Opened { mut store, .. } = Store::format_over(&many).unwrap();
    let refused = (0..600).find_map(|number| {
        let change = store.create(&create(&format!("{number:0>255}"), 1));
        change.map(|change| store.apply(change).unwrap()).err()
    });
    let limit = store.superblock().table_bytes;
    assert!(matches!(refused, Some(StoreError::TableFull { limit: found, .. }) if found == limit));
}

#[test]
fn a_change_that_was_planned_before_another_one_is_stale() {
    let (_, mut store) = device();
    let (first, second) = (store.create(&create("a", 1)), store.create(&create("b", 1)));
    store.apply(first.unwrap()).unwrap();
    assert_eq!(store.apply(second.unwrap()), Err(StoreError::Stale));
    let names: Vec<_> = store.areas().iter().map(|area| area.name.as_str()).collect();
    assert_eq!(names, ["log", "données", "a"]);
}

#[test]
fn bytes_of_an_area_are_found_across_its_extents() {
    let (_, mut store) = device();
    // The first area ends where the second was, which is not zeroed yet: it goes on behind all.
    let change = store.resize(1, 5 * GRAIN).unwrap();
    store.apply(change).unwrap();
    let area = store.area(1).unwrap();
    let wanted = [Extent { first: 0, grains: 3 }, Extent { first: 9, grains: 2 }];
    assert_eq!(area.extents, wanted);
    let data = store.superblock().data_offset;
    let pieces = area.pieces(store.superblock(), 2 * GRAIN + 512, 2 * GRAIN).unwrap();
    let found: Vec<_> = pieces.iter().map(|it| (it.offset - data, it.bytes)).collect();
    let wanted = [(2 * GRAIN + 512, GRAIN - 512), (9 * GRAIN, GRAIN + 512)];
    assert_eq!(found, wanted);
    assert!(area.pieces(store.superblock(), 5 * GRAIN - 1, 2).is_err());
    assert!(area.pieces(store.superblock(), u64::MAX, 2).is_err());
}

#[test]
fn both_copies_of_one_sequence_that_differ_are_refused() {
    let (mut device, store) = device();
    let other = store.create(&create("a", 1)).unwrap();
    let change = store.create(&create("b", 1)).unwrap();
    perform(&mut device, &change.steps);
    perform(&mut device, &other.steps[..1]);
    assert_eq!(open(&device), Err(StoreError::Damaged(Part::Table)));
}

/// The same store as an older program has made it.
fn of_format_1(device: &mut [u8]) {
    for copy in [0, BLOCK_BYTES as usize] {
        device[copy + 8] = 1;
        hash_superblock(device, copy);
    }
}

fn hash_superblock(device: &mut [u8], copy: usize) {
    let hash = blake3::hash(&device[copy..copy + 4064]);
    device[copy + 4064..copy + 4096].copy_from_slice(hash.as_bytes());
}

#[test]
fn how_writes_are_made_durable_is_kept_whatever_step_is_the_last_before_a_crash() {
    let (device, store) = device();
    assert_eq!(store.superblock().durable_by, None);
    for by in [DurableBy::Dsync, DurableBy::Flush, DurableBy::DsyncAlone] {
        let (kept, steps) = store.superblock().keeping(by);
        assert_eq!((kept.durable_by, steps.len()), (Some(by), 4));
        for made in 0..=steps.len() {
            let mut device = device.clone();
            perform(&mut device, &steps[..made]);
            let opened = open(&device).unwrap();
            let wanted = if made == 0 { None } else { Some(by) };
            assert_eq!(opened.store.superblock().durable_by, wanted, "{made}");
            perform(&mut device, &opened.steps);
            assert_eq!(open(&device).unwrap().steps, [], "{made}");
            assert_eq!(opened.store.areas(), store.areas());
        }
        assert_eq!(kept.keeping(by).1, [], "again");
    }
}

#[test]
fn a_store_of_format_1_stays_one_and_keeps_nothing() {
    let (mut device, store) = device();
    of_format_1(&mut device);
    let opened = open(&device).unwrap();
    assert_eq!((opened.store.areas(), opened.store.superblock().format), (store.areas(), 1));
    let (same, steps) = opened.store.superblock().keeping(DurableBy::Flush);
    assert_eq!((same, steps), (*opened.store.superblock(), Vec::new()));
    device[100] ^= 1;
    let repaired = open(&device).unwrap();
    perform(&mut device, &repaired.steps);
    assert_eq!(open(&device).unwrap().store.superblock().format, 1, "a damaged copy is one again");
}

#[test]
fn a_way_of_durable_writes_that_is_none_is_refused() {
    let (mut device, _) = device();
    for (format, number) in [(2, 4), (1, 1), (0, 0)] {
        for copy in [0, BLOCK_BYTES as usize] {
            (device[copy + 8], device[copy + 72]) = (format, number);
            hash_superblock(&mut device, copy);
        }
        assert_eq!(open(&device), Err(StoreError::Damaged(Part::Field("superblock"))), "{format}");
    }
}

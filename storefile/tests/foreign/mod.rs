//! What any bytes may be asked for: opened, repaired, changed. Errors are fine, all else is not.
//!
//! The input is a device, or only what means something of one: its hashes are put right first, so
//! that changes get past them. The first byte says which hashes.

use heliostat_storefile::{
    Create, Kind, Name, Opened, Step, Store, StoreError, Superblock, SUPERBLOCKS_BYTES,
};

/// What a small store's device has: two superblocks, two tables, 16 grains of 4096 bytes.
pub const DEVICE_BYTES: usize = 26 * 4096;
const HASHED_BYTES: usize = 4064;
const TABLE_BYTES: usize = 16384;

/// Reads bytes as a store, and changes it if it is one.
pub fn exercise(input: &[u8]) {
    let Some((keep, bytes)) = input.split_first() else { return };
    let mut device = vec![0; DEVICE_BYTES];
    let length = bytes.len().min(DEVICE_BYTES);
    device[..length].copy_from_slice(&bytes[..length]);
    (0..4).filter(|part| keep >> part & 1 == 0).for_each(|part| put_right(&mut device, part));
    let Ok(mut opened) = open(&device) else { return };
    perform(&mut device, &opened.steps);
    let again = open(&device).expect("what was repaired can be opened");
    assert_eq!((&again.store, again.steps.len()), (&opened.store, 0));
    change(&mut device, &mut opened.store);
    assert_eq!(open(&device).expect("what was changed can be opened").store, opened.store);
}

/// Enlarges, ends and makes an area, where that is possible.
fn change(device: &mut [u8], store: &mut Store) {
    let grain = u64::from(store.superblock().grain_bytes);
    let name = Name::new("new").expect("a name");
    let create = Create { name, bytes: grain, owner: 1, rights: 0, kind: Kind::Log };
    if let Some(area) = store.areas().first().cloned() {
        make(device, store, |store| store.resize(area.generation, area.bytes + grain));
        make(device, store, |store| store.delete(area.generation));
    }
    make(device, store, |store| store.create(&create));
    if store.zeroing_bytes() > 0 {
        make(device, store, |store| store.zero(grain).expect("something is to be zeroed"));
    }
}

fn make(
    device: &mut [u8],
    store: &mut Store,
    plan: impl FnOnce(&Store) -> Result<heliostat_storefile::Change, StoreError>,
) {
    if let Ok(change) = plan(store) {
        perform(device, &change.steps);
        store.apply(change).expect("nothing else was changed");
    }
}

fn open(device: &[u8]) -> Result<Opened, StoreError> {
    let first = &device[..SUPERBLOCKS_BYTES as usize];
    let (superblock, mut steps) = Superblock::read(first, DEVICE_BYTES as u64, None)?;
    let copies =
        superblock.tables().map(|copy| &device[copy.offset as usize..][..copy.bytes as usize]);
    let mut opened = Store::open(superblock, copies)?;
    steps.append(&mut opened.steps);
    Ok(Opened { steps, ..opened })
}

fn perform(device: &mut [u8], steps: &[Step]) {
    for step in steps {
        match step {
            Step::Write { offset, bytes } => {
                device[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Step::Zero { offset, bytes } => device[*offset as usize..][..*bytes as usize].fill(0),
            Step::Flush => {}
        }
    }
}

/// Puts the hash of a superblock or of a table right.
fn put_right(device: &mut [u8], part: usize) {
    if part < 2 {
        let superblock = &mut device[part * 4096..][..4096];
        let hash = blake3::hash(&superblock[..HASHED_BYTES]);
        superblock[HASHED_BYTES..].copy_from_slice(hash.as_bytes());
        return;
    }
    let table = &mut device[8192 + (part - 2) * TABLE_BYTES..][..TABLE_BYTES];
    let length = u32::from_le_bytes([table[32], table[33], table[34], table[35]]) as usize;
    let Some(payload) = table.get(96..).and_then(|rest| rest.get(..length)) else { return };
    let mut hasher = blake3::Hasher::new();
    hasher.update(&table[..64]).update(payload);
    let hash = *hasher.finalize().as_bytes();
    table[64..96].copy_from_slice(&hash);
}

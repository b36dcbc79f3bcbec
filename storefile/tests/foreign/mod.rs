//! What any bytes may be asked for: opened, repaired, changed. Errors are fine, all else is not.
//!
//! The input is what means something of a device, so that it is short. Hashes are put right, unless
//! the first byte says of which part they are not: else no change would get past them.
//!
//! ```text
//! 0  parts whose hash is left wrong: superblocks 1, 2, tables 4, 8
//! 1  first superblock, 72 bytes; second one, 72 bytes
//! 145  bytes of the first table u16; the first table; the second table
//! ```

use heliostat_storefile::{
    Create, Kind, Name, Opened, Step, Store, StoreError, Superblock, SUPERBLOCKS_BYTES,
};

/// What a small store's device has: two superblocks, two tables, 16 grains of 4096 bytes.
pub const DEVICE_BYTES: usize = 26 * 4096;
/// Where its tables begin, and what each has.
pub const TABLES_AT: usize = 8192;
pub const TABLE_BYTES: usize = 16384;
/// Bytes of a superblock that mean something, beside its hash.
pub const FIELDS_BYTES: usize = 72;
const HASHED_BYTES: usize = 4064;

/// Reads bytes as a store, and changes it if it is one.
pub fn exercise(input: &[u8]) {
    let Some(mut device) = device(input) else { return };
    let Ok(mut opened) = open(&device) else { return };
    perform(&mut device, &opened.steps);
    let again = open(&device).expect("what was repaired can be opened");
    assert_eq!((&again.store, again.steps.len()), (&opened.store, 0));
    change(&mut device, &mut opened.store);
    assert_eq!(open(&device).expect("what was changed can be opened").store, opened.store);
}

/// The device that an input means, if it is long enough to mean one.
fn device(input: &[u8]) -> Option<Vec<u8>> {
    let (keep, rest) = input.split_first()?;
    let (first, rest) = rest.split_at_checked(FIELDS_BYTES)?;
    let (second, rest) = rest.split_at_checked(FIELDS_BYTES)?;
    let (length, tables) = rest.split_first_chunk()?;
    let length = usize::from(u16::from_le_bytes(*length)).min(tables.len()).min(TABLE_BYTES);
    let (table, other) = tables.split_at(length);
    let other = &other[..other.len().min(TABLE_BYTES)];
    let mut device = vec![0; DEVICE_BYTES];
    let places = [0, 4096, TABLES_AT, TABLES_AT + TABLE_BYTES];
    for (at, bytes) in places.into_iter().zip([first, second, table, other]) {
        device[at..][..bytes.len()].copy_from_slice(bytes);
    }
    (0..4).filter(|part| keep >> part & 1 == 0).for_each(|part| put_right(&mut device, part));
    Some(device)
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
    let table = &mut device[TABLES_AT + (part - 2) * TABLE_BYTES..][..TABLE_BYTES];
    let length = u32::from_le_bytes([table[32], table[33], table[34], table[35]]) as usize;
    let Some(payload) = table.get(96..).and_then(|rest| rest.get(..length)) else { return };
    let mut hasher = blake3::Hasher::new();
    hasher.update(&table[..64]).update(payload);
    let hash = *hasher.finalize().as_bytes();
    table[64..96].copy_from_slice(&hash);
}

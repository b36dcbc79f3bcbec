//! io_uring_register(2): descriptors that a ring will name by a place, and rings that have one.

use std::sync::atomic::Ordering::Relaxed;

use super::entry;
use crate::owner;
use crate::program_rings::{find, forget, name, note, Name, Program, Unseen};
use crate::thread::{self, Critical};

/// What can be registered (source: linux/io_uring.h).
const FILES: u32 = 2;
const FILES_UPDATE: u32 = 6;
const RESTRICTIONS: u32 = 11;
const FILES2: u32 = 13;
const FILES_UPDATE2: u32 = 14;
const RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;
const RESIZE_RINGS: u32 = 33;

/// Rings that one thread may register (source: IO_RINGFD_REG_MAX).
const PLACES_MAX: u32 = 16;

/// Before io_uring_register(2) for `ring`.
///
/// # Errors
/// The ring cannot be looked at afterwards.
pub fn registering(
    ring: Name,
    what: u32,
    argument: u64,
    count: u32,
    program: &impl Program,
) -> Result<(), Unseen> {
    if owner::is_borrowed() {
        return Ok(());
    }
    let _critical = Critical::enter();
    let long = |at: u64| fetch::<8>(argument.wrapping_add(at), program).map(u64::from_le_bytes);
    let int = |at: u64| fetch::<4>(argument.wrapping_add(at), program).map(u32::from_le_bytes);
    // Array and length of the descriptors.
    let files = match what {
        FILES => Some((argument, count)),
        FILES_UPDATE => long(8).map(|array| (array, count)),
        FILES2 => long(16).zip(int(0)),
        FILES_UPDATE2 => long(8).zip(int(24)),
        _ => None,
    };
    if let Some((array, count)) = files {
        entry::register_all(array, u64::from(count), program);
    }
    match (what, find(ring)) {
        (RESTRICTIONS, Some(ring)) => ring.is_restricted.store(true, Relaxed),
        // Other memory takes the place of what is mapped here.
        (RESIZE_RINGS, _) => return Err(Unseen),
        _ => {}
    }
    Ok(())
}

/// After it gave `answer`: rings whose descriptors were registered have a place in this thread.
///
/// # Errors
/// One ring too many.
pub fn registered(
    what: u32,
    argument: u64,
    count: u32,
    answer: usize,
    program: &impl Program,
) -> Result<(), Unseen> {
    if !matches!(what, RING_FDS | UNREGISTER_RING_FDS) || owner::is_borrowed() {
        return Ok(());
    }
    let _critical = Critical::enter();
    for step in 0..count.min(PLACES_MAX).min(answer as u32) {
        let at = argument.wrapping_add(u64::from(step) * 16);
        let place = fetch::<4>(at, program).map(u32::from_le_bytes);
        let fd = fetch::<8>(at.wrapping_add(8), program).map(u64::from_le_bytes);
        let (Some(place), Some(fd)) = (place, fd) else { return Err(Unseen) };
        let place = Name::Place(thread::tid(), place);
        match what {
            RING_FDS => {
                let ring = find(name(fd as i32, false)).ok_or(Unseen)?;
                note(place, ring)?;
            }
            _ => forget(place),
        }
    }
    Ok(())
}

fn fetch<const BYTES: usize>(address: u64, program: &impl Program) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    program.fetch(address, &mut bytes).then_some(bytes)
}

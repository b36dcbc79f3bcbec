//! What a log holds of before this run of the machine, without taking it.

use heliostat_backend_block::Device;
use heliostat_backend_log::{Area, LogError, LogReader};

use crate::boot::Boot;
use crate::entry::{decode, Entry, ENTRY_BYTES_MAX};

/// Who looks at many logs reads so much of each at most. What is not found by then is left to who opens it.
const LOOKED_AT_BYTES: u64 = 1 << 20;

/// Whether the log in an area of a device has entries of durable files that an earlier run of the machine
/// has left: they have to be put into their files. Only reads; a log of anything else has none. One that begins
/// with a great many entries that say nothing may have some.
///
/// # Errors
/// There is no log, it is damaged at its beginning or has longer entries than durable files have, or the
/// device fails.
pub fn is_left_by_crash(
    device: Box<dyn Device>,
    area: Area,
    boot: &Boot,
) -> Result<bool, LogError> {
    let mut reader = LogReader::open(device, area)?.at_most(ENTRY_BYTES_MAX);
    let limit = reader.position().at.saturating_add(LOOKED_AT_BYTES);
    while let Some(entry) = reader.read_before(limit)? {
        match decode(&entry.payload) {
            Ok(Entry::Appended(head, _)) => return Ok(head.boot != boot.id),
            // Recovery of an earlier run may have left nothing but its mark.
            Ok(Entry::Mark(..)) => {}
            Err(_) => return Ok(false),
        }
    }
    Ok(reader.position().at >= limit)
}

//! How names begin, in a record.

use super::RegionNames;
use crate::snapshot::region_name::NAME_BYTES;
use crate::wire::{Reader, WireError};

/// How names begin: in a record as a name is, and perhaps empty.
pub(super) fn take(r: &mut Reader<'_>) -> Result<String, WireError> {
    let length = r.u32();
    let wrong = WireError::Field { name: "beginning of names", found: u64::from(length) };
    let bytes: [u8; NAME_BYTES] = r.take();
    let (text, rest) = bytes.split_at_checked(length as usize).ok_or(wrong)?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(WireError::Reserved);
    }
    let text = std::str::from_utf8(text).ok().filter(|text| !text.starts_with('/')).ok_or(wrong)?;
    match RegionNames::parse(&format!("{text}*")) {
        Ok(RegionNames::Beginning(beginning)) => Ok(beginning),
        _ => Err(wrong),
    }
}

//! Names in the records of services: one form, the same in each of them.

use crate::snapshot::region_name::{NameError, NAME_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// Writes a name, the beginning of one, or none: its length, and its bytes with zeros after them.
pub(crate) fn encode<'w, 'a>(name: &str, w: &'w mut Writer<'a>) -> &'w mut Writer<'a> {
    let mut bytes = [0; NAME_BYTES];
    // A name was checked to be no longer than this.
    let length = name.len().min(NAME_BYTES);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    w.u32(length as u32).put(&bytes)
}

/// The beginning of names in foreign bytes: any text that is not too long. `what` names it in errors.
pub(crate) fn decode_text(r: &mut Reader<'_>, what: &'static str) -> Result<String, WireError> {
    let length = r.u32();
    let wrong = WireError::Field { name: what, found: u64::from(length) };
    let bytes: [u8; NAME_BYTES] = r.take();
    let (name, rest) = bytes.split_at_checked(length as usize).ok_or(wrong)?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(WireError::Reserved);
    }
    std::str::from_utf8(name).map(str::to_owned).map_err(|_| wrong)
}

/// The name in foreign bytes, or none. One name has one form in a record: without the service's prefix.
pub(crate) fn decode_optional<T>(
    r: &mut Reader<'_>,
    what: &'static str,
    parse: impl FnOnce(&str) -> Result<T, NameError>,
) -> Result<Option<T>, WireError> {
    let text = decode_text(r, what)?;
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = WireError::Field { name: what, found: text.len() as u64 };
    let plain = Some(text.as_str()).filter(|text| !text.starts_with('/'));
    plain.and_then(|text| parse(text).ok()).ok_or(wrong).map(Some)
}

/// The name in foreign bytes.
pub(crate) fn decode<T>(
    r: &mut Reader<'_>,
    what: &'static str,
    parse: impl FnOnce(&str) -> Result<T, NameError>,
) -> Result<T, WireError> {
    decode_optional(r, what, parse)?.ok_or(WireError::Field { name: what, found: 0 })
}

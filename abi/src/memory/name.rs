//! Names of memory regions.

use std::fmt;

use crate::snapshot::region_name::{check, NameError, NAME_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// What every name begins with, where it stands among other services' names.
pub const PREFIX: &str = "/memory/";
/// What stands for the asking session's own user. To the kernel the number means "no user".
pub const OWN_USER: u32 = u32::MAX;

/// The name of a memory region: parts of `[A-Za-z0-9._-]`, parted by single slashes. It is one among
/// the names of one user.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct MemoryName(String);

impl MemoryName {
    /// Reads a name, with or without `/memory/` before it: no name begins with a slash.
    ///
    /// # Errors
    /// What makes the text no name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = text.strip_prefix(PREFIX).unwrap_or(text);
        check(name)?;
        Ok(Self(name.to_owned()))
    }

    /// The name without `/memory/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Writes a name, or none.
pub(crate) fn encode<'w, 'a>(name: &str, w: &'w mut Writer<'a>) -> &'w mut Writer<'a> {
    let mut bytes = [0; NAME_BYTES];
    // A name was checked to be no longer than this.
    let length = name.len().min(NAME_BYTES);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    w.u32(length as u32).put(&bytes)
}

/// The name in foreign bytes, or none.
pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Option<MemoryName>, WireError> {
    let text = decode_text(r)?;
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = WireError::Field { name: "memory name", found: text.len() as u64 };
    // One name has one form in a record, so the prefix is none here.
    let plain = Some(text.as_str()).filter(|text| !text.starts_with('/'));
    plain.and_then(|text| MemoryName::parse(text).ok()).ok_or(wrong).map(Some)
}

/// The beginning of names in foreign bytes: any text that is not too long.
pub(crate) fn decode_text(r: &mut Reader<'_>) -> Result<String, WireError> {
    let length = r.u32();
    let wrong = WireError::Field { name: "memory name", found: u64::from(length) };
    let bytes: [u8; NAME_BYTES] = r.take();
    let (name, rest) = bytes.split_at_checked(length as usize).ok_or(wrong)?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(WireError::Reserved);
    }
    std::str::from_utf8(name).map(str::to_owned).map_err(|_| wrong)
}

impl fmt::Display for MemoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_form() {
        let name = MemoryName::parse("/memory/kv/cache.0").unwrap();
        assert_eq!((name.as_str(), name.to_string()), ("kv/cache.0", "/memory/kv/cache.0".into()));
        assert_eq!(MemoryName::parse("kv/cache.0"), Ok(name));
        assert_eq!(MemoryName::parse("a/../b"), Err(NameError::Part));
        assert_eq!(MemoryName::parse(&"x".repeat(NAME_BYTES + 1)), Err(NameError::Length(65)));
    }
}

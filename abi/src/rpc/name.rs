//! Names of functions.

use std::fmt;

use crate::snapshot::region_name::{check, NameError, NAME_BYTES};
use crate::wire::{Reader, WireError, Writer};

/// What every name begins with, where it stands among other services' names.
pub const PREFIX: &str = "/rpc/";
/// What stands for the asking session's own user. To the kernel the number means "no user".
pub const OWN_USER: u32 = u32::MAX;
/// The node that the records are written on. Others have no number yet.
pub const THIS_NODE: u32 = 0;

/// The name of a function: parts of `[A-Za-z0-9._-]`, parted by single slashes. It is one among the
/// names of one user.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct FunctionName(String);

impl FunctionName {
    /// Reads a name, with or without `/rpc/` before it: no name begins with a slash.
    ///
    /// # Errors
    /// What makes the text no name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = text.strip_prefix(PREFIX).unwrap_or(text);
        check(name)?;
        Ok(Self(name.to_owned()))
    }

    /// The name without `/rpc/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

/// Writes a name, or the beginning of one.
pub(crate) fn encode(name: &str, w: &mut Writer<'_>) {
    let mut bytes = [0; NAME_BYTES];
    // A name was checked to be no longer than this.
    let length = name.len().min(NAME_BYTES);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    w.u32(length as u32).put(&bytes);
}

/// The name in foreign bytes.
pub(crate) fn decode(r: &mut Reader<'_>) -> Result<FunctionName, WireError> {
    let text = decode_text(r)?;
    let wrong = WireError::Field { name: "function name", found: text.len() as u64 };
    // One name has one form in a record, so the prefix is none here.
    let plain = Some(text.as_str()).filter(|text| !text.starts_with('/'));
    plain.and_then(|text| FunctionName::parse(text).ok()).ok_or(wrong)
}

/// The beginning of names in foreign bytes: any text that is not too long.
pub(crate) fn decode_text(r: &mut Reader<'_>) -> Result<String, WireError> {
    let length = r.u32();
    let wrong = WireError::Field { name: "function name", found: u64::from(length) };
    let bytes: [u8; NAME_BYTES] = r.take();
    let (name, rest) = bytes.split_at_checked(length as usize).ok_or(wrong)?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(WireError::Reserved);
    }
    std::str::from_utf8(name).map(str::to_owned).map_err(|_| wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_form() {
        let name = FunctionName::parse("/rpc/kv/get").unwrap();
        assert_eq!((name.as_str(), name.to_string()), ("kv/get", "/rpc/kv/get".into()));
        assert_eq!(FunctionName::parse("kv/get"), Ok(name));
        assert_eq!(FunctionName::parse("a/../b"), Err(NameError::Part));
        assert_eq!(FunctionName::parse(&"x".repeat(NAME_BYTES + 1)), Err(NameError::Length(65)));
    }
}

//! Names of snapshot regions.

use std::fmt;

use crate::wire::{Reader, WireError, Writer};

/// Longest name, without `/snapshot/`.
pub const NAME_BYTES: usize = 64;
/// What stands for the asking session's own user in `Request::AttachRegion`. To the kernel the
/// number means "no user", so nobody has it.
pub const OWN_USER: u32 = u32::MAX;
/// What every name begins with, where it stands among other services' names.
pub const PREFIX: &str = "/snapshot/";

/// The name of a snapshot region: parts of `[A-Za-z0-9._-]`, parted by single slashes.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct RegionName(String);

/// Why a text is no name of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    /// It is empty or too long.
    Length(usize),
    /// It has a character that names do not have.
    Character(char),
    /// A part between slashes is empty, `.` or `..`.
    Part,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(found) => {
                write!(f, "a name has 1 to {NAME_BYTES} characters, this one has {found}")
            }
            Self::Character(found) => {
                write!(f, "{found:?} is no character of a name; A-Z a-z 0-9 . _ - and / are")
            }
            Self::Part => write!(f, "a part between slashes is empty, . or .."),
        }
    }
}

impl std::error::Error for NameError {}

impl RegionName {
    /// Reads a name, with or without `/snapshot/` before it: no name begins with a slash.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = text.strip_prefix(PREFIX).unwrap_or(text);
        check(name)?;
        Ok(Self(name.to_owned()))
    }

    /// The name without `/snapshot/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.0.len() as u32).put(self.0.as_bytes());
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let length = r.u32();
        let wrong = WireError::Field { name: "region name", found: u64::from(length) };
        let bytes: [u8; NAME_BYTES] = r.take();
        let (name, rest) = bytes.split_at_checked(length as usize).ok_or(wrong)?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(WireError::Reserved);
        }
        // One name has one form in a record, so the prefix is none here.
        let text = std::str::from_utf8(name).ok().filter(|text| !text.starts_with('/'));
        text.and_then(|text| Self::parse(text).ok()).ok_or(wrong)
    }
}

/// Whether a text is a name, without what stands before it.
pub(crate) fn check(name: &str) -> Result<(), NameError> {
    if name.is_empty() || name.len() > NAME_BYTES {
        return Err(NameError::Length(name.len()));
    }
    let is_known = |c: &char| c.is_ascii_alphanumeric() || "._-/".contains(*c);
    if let Some(found) = name.chars().find(|c| !is_known(c)) {
        return Err(NameError::Character(found));
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(NameError::Part);
    }
    Ok(())
}

impl fmt::Display for RegionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_parts_between_single_slashes() {
        for text in ["a", "model/weights-1.0_b", "/snapshot/a/b", "..."] {
            assert!(RegionName::parse(text).is_ok(), "{text}");
        }
        assert_eq!(RegionName::parse("/snapshot/a"), RegionName::parse("a"));
        assert_eq!(RegionName::parse("a").unwrap().to_string(), "/snapshot/a");
    }

    #[test]
    fn what_is_no_name_says_why() {
        let why = |text: &str| RegionName::parse(text).unwrap_err();
        assert_eq!(why(""), NameError::Length(0));
        assert_eq!(why(&"x".repeat(65)), NameError::Length(65));
        assert_eq!(why("a b"), NameError::Character(' '));
        assert_eq!(why("\u{e4}"), NameError::Character('\u{e4}'));
        for text in ["/a", "a/", "a//b", "..", "a/./b", "/snapshot//a"] {
            assert_eq!(why(text), NameError::Part, "{text}");
        }
    }
}

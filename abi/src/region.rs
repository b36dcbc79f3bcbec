//! Names of snapshot regions, and what a producer is told of its consumers.

use std::fmt;

use crate::limits::{ATTACHMENTS_MAX, FDS_PER_REPLY_MAX, REGIONS_MAX};
use crate::name::ObjectId;
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
        if name.is_empty() || name.len() > NAME_BYTES {
            return Err(NameError::Length(name.len()));
        }
        let is_known = |c: &char| c.is_ascii_alphanumeric() || "._-/".contains(*c);
        if let Some(found) = name.chars().find(|c| !is_known(c)) {
            return Err(NameError::Character(found));
        }
        match name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            true => Err(NameError::Part),
            false => Ok(Self(name.to_owned())),
        }
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

impl fmt::Display for RegionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

/// Whether a consumer is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Presence {
    /// It joined: its page of pins counts from now on.
    Joined,
    /// The same, and it brings an end of its bell behind the page.
    JoinedWithBell,
    /// It left or died: nothing it pinned counts any more.
    Left,
}

/// One consumer that joined or left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The consumer.
    pub consumer: ObjectId,
    /// Which of both.
    pub state: Presence,
}

impl Change {
    /// Bytes of one entry in a reply.
    pub const BYTES: usize = 16;

    fn encode(&self, w: &mut Writer<'_>) {
        let state = match self.state {
            Presence::Joined => 1,
            Presence::Left => 2,
            Presence::JoinedWithBell => 3,
        };
        w.u32(self.consumer.index).u32(self.consumer.generation).u32(state).u32(0);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let consumer = ObjectId::decode_listed(r, "consumer index", ATTACHMENTS_MAX)?;
        let (state, reserved) = (r.u32(), r.u32());
        let state = match state {
            1 => Presence::Joined,
            2 => Presence::Left,
            3 => Presence::JoinedWithBell,
            found => {
                return Err(WireError::Field { name: "consumer state", found: u64::from(found) })
            }
        };
        match reserved {
            0 => Ok(Self { consumer, state }),
            _ => Err(WireError::Reserved),
        }
    }
}

pub(crate) fn encode_changes(w: &mut Writer<'_>, region: ObjectId, all: &[Change], more: bool) {
    let kept = all.len().min(FDS_PER_REPLY_MAX);
    w.u32(region.index).u32(region.generation).u32(kept as u32).u32(u32::from(more));
    all[..kept].iter().for_each(|change| change.encode(w));
}

/// The region, its changes, and whether there are more.
pub(crate) fn decode_changes(
    r: &mut Reader<'_>,
) -> Result<(ObjectId, Vec<Change>, bool), WireError> {
    let region = ObjectId::decode_listed(r, "region index", REGIONS_MAX)?;
    let (count, more) = (r.u32() as usize, r.u32());
    if count > FDS_PER_REPLY_MAX {
        return Err(WireError::Field { name: "change count", found: count as u64 });
    }
    if more > 1 {
        return Err(WireError::Field { name: "more", found: u64::from(more) });
    }
    let entries = (0..count).map(|_| Change::decode(r)).collect::<Result<_, _>>()?;
    if !r.rest_is_zero() {
        return Err(WireError::Reserved);
    }
    Ok((region, entries, more == 1))
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

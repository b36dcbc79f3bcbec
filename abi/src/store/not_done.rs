//! Why the store service has not done what it was asked, beside limits and rules.
//!
//! ```text
//! 0 why u32, pid u32, wanted u64, found u64, text (length u32, 320 bytes)
//! ```

use std::fmt;

use super::limits::TEXT_BYTES_MAX;
use super::way::Spill;
use super::AreaRights;
use crate::wire::{Reader, WireError, Writer};

/// What stands in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Why {
    /// The control plane has no store; the text says why.
    NoStore = 1,
    /// The store is being opened: later it is there.
    Opening = 2,
    /// The device failed; the store has to be opened anew.
    DeviceFailed = 3,
    /// The user has an area of the name.
    NameTaken = 4,
    /// No area has the name, or none that the session may know of.
    NotFound = 5,
    /// The session has no such handle.
    NoHandle = 6,
    /// The area's owner does not allow that: wanted and found are rights.
    Denied = 7,
    /// Another change of the area is under way.
    Busy = 8,
    /// Programs hold the area directly: `pid` is one of them, if it is known, `found` how many are.
    Held = 9,
    /// The area ends.
    Ending = 10,
    /// The size is zero or no multiple: wanted the size, found what it has to be a multiple of.
    Size = 11,
    /// Not enough is free: wanted and found are bytes.
    NoRoom = 12,
    /// What is free lies in more pieces than an area may have: found is how many.
    Fragmented = 13,
    /// The store has as many areas as it may, or its table no room for more: found is how many.
    TooMany = 14,
    /// As many ranges wait to be zeroed as may: later there is room.
    Zeroing = 15,
    /// The direct way was wanted and is not to be had: found is the number of the reason.
    NotDirect = 16,
    /// What was shown could not be opened as a store; the text says why.
    NotOpened = 17,
    /// There is a store already; the text says which.
    HasStore = 18,
    /// Programs have handles on areas of the store: found is how many.
    InUse = 19,
    /// The area has a kind already that this is not possible with, or the number is out of its range.
    Unfit = 20,
    /// The change is under way and takes its time; `Outcome` asks how it ended.
    Later = 21,
    /// Another session has the area alone: `pid` is its process, if it is known.
    HasAlone = 22,
    /// The area was wanted alone, and others may write it: `pid` is one of them, `found` how many handles
    /// they have.
    HasWriters = 23,
}

impl Why {
    const ALL: [Why; 23] = [
        Why::NoStore,
        Why::Opening,
        Why::DeviceFailed,
        Why::NameTaken,
        Why::NotFound,
        Why::NoHandle,
        Why::Denied,
        Why::Busy,
        Why::Held,
        Why::Ending,
        Why::Size,
        Why::NoRoom,
        Why::Fragmented,
        Why::TooMany,
        Why::Zeroing,
        Why::NotDirect,
        Why::NotOpened,
        Why::HasStore,
        Why::InUse,
        Why::Unfit,
        Why::Later,
        Why::HasAlone,
        Why::HasWriters,
    ];

    fn from_number(number: u32) -> Option<Why> {
        Self::ALL.into_iter().find(|it| *it as u32 == number)
    }
}

/// An ordinary no of the store service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotDone {
    /// What stands in the way.
    pub why: Why,
    /// Who, or 0.
    pub pid: u32,
    /// What was wanted; see [`Why`].
    pub wanted: u64,
    /// What there is; see [`Why`].
    pub found: u64,
    /// For people; may be empty. Of a longer one the beginning.
    pub text: String,
}

impl From<Why> for NotDone {
    fn from(why: Why) -> NotDone {
        NotDone { why, pid: 0, wanted: 0, found: 0, text: String::new() }
    }
}

impl NotDone {
    /// With a text for people.
    #[must_use]
    pub fn told(why: Why, text: impl Into<String>) -> NotDone {
        NotDone { text: text.into(), ..why.into() }
    }

    /// With what was wanted and what there is.
    #[must_use]
    pub fn of(why: Why, wanted: u64, found: u64) -> NotDone {
        NotDone { wanted, found, ..why.into() }
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.why as u32).u32(self.pid).u64(self.wanted).u64(self.found);
        encode_text(&self.text, w);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<NotDone, WireError> {
        let number = r.u32();
        let wrong = WireError::Field { name: "why", found: u64::from(number) };
        let why = Why::from_number(number).ok_or(wrong)?;
        let (pid, wanted, found) = (r.u32(), r.u64(), r.u64());
        Ok(NotDone { why, pid, wanted, found, text: decode_text(r)? })
    }

    fn rights(bits: u64) -> AreaRights {
        u32::try_from(bits).ok().and_then(AreaRights::from_bits).unwrap_or_default()
    }
}

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotDone { pid, wanted, found, text, .. } = self;
        match self.why {
            Why::NoStore if text.is_empty() => write!(
                f,
                "the control plane has no store: make one (heliostat store init) and attach it"
            ),
            Why::NoStore => write!(f, "the control plane has no store: {text}"),
            Why::Opening => write!(f, "the store is being opened; try again"),
            Why::DeviceFailed => write!(
                f,
                "the device under the store has failed: look at it, then detach and attach the store"
            ),
            Why::NameTaken => write!(f, "there is an area of that name"),
            Why::NotFound => write!(f, "no area has that name"),
            Why::NoHandle => write!(f, "the session has no such handle"),
            Why::Denied => {
                let (wanted, found) = (Self::rights(*wanted), Self::rights(*found));
                write!(f, "{wanted} is wanted, and {found} is what the area's owner allows")
            }
            Why::Busy => write!(f, "another change of the area is under way; try again"),
            Why::Held => write_held(f, *pid, *found),
            Why::Ending => write!(f, "the area is being deleted"),
            Why::Size => {
                write!(f, "the size is {wanted} bytes, and has to be a multiple of {found}, not zero")
            }
            Why::NoRoom => write!(
                f,
                "{wanted} bytes are wanted and {found} are free: delete or shrink an area"
            ),
            Why::Fragmented => write!(
                f,
                "what is free lies in more than {found} pieces: delete an area, or take a smaller size"
            ),
            Why::TooMany => write!(f, "the store has no room for another area (limit {found})"),
            Why::Zeroing => write!(f, "too many deleted ranges wait to be zeroed; try again"),
            Why::NotDirect => {
                let why = u32::try_from(*found).ok().and_then(Spill::from_number);
                write!(f, "not direct: {}", why.map_or("?", Spill::text))
            }
            Why::NotOpened => write!(f, "the store cannot be opened: {text}"),
            Why::HasStore => write!(f, "the control plane has a store already: {text}"),
            Why::InUse => write!(f, "programs have {found} handles on areas of the store"),
            Why::Unfit => write!(f, "not possible: {text}"),
            Why::Later => write!(f, "the change is under way, and the device is slow; ask again"),
            Why::HasAlone => {
                write!(f, "{} has the area for itself: it has to close it first", process(*pid))
            }
            Why::HasWriters => write!(
                f,
                "it is wanted exclusively, and others have {found} handles that write or manage it, one \
                 of {}: they have to be closed first",
                process(*pid)
            ),
        }
    }
}

impl std::error::Error for NotDone {}

fn process(pid: u32) -> String {
    match pid {
        0 => "a program that the control plane does not know".to_owned(),
        pid => format!("process {pid}"),
    }
}

fn write_held(f: &mut fmt::Formatter<'_>, pid: u32, count: u64) -> fmt::Result {
    match pid {
        0 => write!(
            f,
            "a program that the control plane does not know has the area's device open: end it first"
        ),
        pid => write!(
            f,
            "{count} handles on the area are direct, one of process {pid}: it has to close it first"
        ),
    }
}

/// Writes the beginning of a text.
pub(super) fn encode_text(text: &str, w: &mut Writer<'_>) {
    let mut length = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    let mut bytes = [0; TEXT_BYTES_MAX];
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    w.u32(length as u32).put(&bytes);
}

/// A text in foreign bytes.
pub(super) fn decode_text(r: &mut Reader<'_>) -> Result<String, WireError> {
    let length = r.u32();
    let wrong = WireError::Field { name: "text", found: u64::from(length) };
    let bytes: [u8; TEXT_BYTES_MAX] = r.take();
    let (text, rest) = bytes.split_at_checked(length as usize).ok_or(wrong)?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(WireError::Reserved);
    }
    std::str::from_utf8(text).map(str::to_owned).map_err(|_| wrong)
}

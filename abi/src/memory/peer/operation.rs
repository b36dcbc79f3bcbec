//! An operation on a region of another node, in one message.
//!
//! ```text
//! 0  kind u8, value u8, 0 u16, 0 u32      kind         value  a          b         c         d
//! 8  session, handle                      1 Read       0      offset     bytes     of from   of bytes
//! 24 a u64, b u64, c u64, d u64           2 Write      0      offset     bytes     of from   of bytes
//! 56 session, handle of a copy's source   3 Set        value  offset     bytes     of from   of bytes
//!                                         4 Copy       0      to         from      bytes     done
//!                                         5 FetchAdd   0      offset     added     0         0
//!                                         6 CompareSwap 0     offset     expected  new       0
//!                                         7 Swap       0      offset     new       0         0
//! ```
//! The payload is what a Write stores; all others have none. `of` is the whole transfer that a message
//! is a part of: all of it has to lie in the region before any part is done.

use super::{PeerHandle, CHANGE_BYTES_MAX, CHUNK_BYTES_MAX};
use crate::memory::operation::CHANGED_BYTES_MAX;
use crate::wire::{Reader, WireError, Writer};

/// Bytes of the header.
pub const OPERATION_BYTES: usize = 72;

/// Some bytes of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Range {
    /// The first.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

impl Range {
    /// Whether all of `part` lies within; both have an end.
    fn holds(&self, part: &Range) -> bool {
        let ends = (self.offset.checked_add(self.bytes), part.offset.checked_add(part.bytes));
        matches!(ends, (Some(end), Some(last)) if self.offset <= part.offset && last <= end)
    }
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerAction {
    /// Bytes are read: the answer's payload.
    Read {
        /// Which.
        part: Range,
        /// Of which transfer.
        of: Range,
    },
    /// Bytes are written: the payload.
    Write {
        /// Where to.
        part: Range,
        /// Of which transfer.
        of: Range,
    },
    /// Bytes are set to a value.
    Set {
        /// Which.
        part: Range,
        /// Of which Set.
        of: Range,
        /// To what.
        value: u8,
    },
    /// Bytes are copied as memmove(3) does; the result is how many more are done.
    Copy {
        /// Where to.
        to: u64,
        /// The handle that they come from.
        source: PeerHandle,
        /// The first of them there.
        from: u64,
        /// How many in all.
        bytes: u64,
        /// How many of them are done.
        done: u64,
    },
    /// A word gets more; the answer says what it was.
    FetchAdd {
        /// Where.
        offset: u64,
        /// What is added.
        more: u64,
    },
    /// A word is stored if it is what was expected; the answer says what it was.
    CompareSwap {
        /// Where.
        offset: u64,
        /// What it has to be.
        expected: u64,
        /// What it becomes.
        new: u64,
    },
    /// A word is stored; the answer says what it was.
    Swap {
        /// Where.
        offset: u64,
        /// What it becomes.
        new: u64,
    },
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerOperation {
    /// With which handle.
    pub handle: PeerHandle,
    /// What.
    pub action: PeerAction,
}

impl PeerOperation {
    /// The header.
    pub fn encode(&self) -> [u8; OPERATION_BYTES] {
        let mut bytes = [0; OPERATION_BYTES];
        let mut w = Writer::new(&mut bytes);
        let of_part = |part: &Range, of: &Range| [part.offset, part.bytes, of.offset, of.bytes];
        let (kind, value, numbers, source) = match &self.action {
            PeerAction::Read { part, of } => (1, 0, of_part(part, of), PeerHandle::default()),
            PeerAction::Write { part, of } => (2, 0, of_part(part, of), PeerHandle::default()),
            PeerAction::Set { part, of, value } => {
                (3, *value, of_part(part, of), PeerHandle::default())
            }
            PeerAction::Copy { to, source, from, bytes, done } => {
                (4, 0, [*to, *from, *bytes, *done], *source)
            }
            PeerAction::FetchAdd { offset, more } => {
                (5, 0, [*offset, *more, 0, 0], PeerHandle::default())
            }
            PeerAction::CompareSwap { offset, expected, new } => {
                (6, 0, [*offset, *expected, *new, 0], PeerHandle::default())
            }
            PeerAction::Swap { offset, new } => {
                (7, 0, [*offset, *new, 0, 0], PeerHandle::default())
            }
        };
        w.u8(kind).u8(value).u16(0).u32(0);
        self.handle.encode(&mut w);
        for number in numbers {
            w.u64(number);
        }
        source.encode(&mut w);
        bytes
    }

    /// The operation in a foreign header, with a payload of so many bytes.
    ///
    /// # Errors
    /// It is none; the value says which field.
    pub fn decode(header: &[u8], payload_bytes: usize) -> Result<Self, WireError> {
        if header.len() != OPERATION_BYTES {
            return Err(WireError::Length { wanted: OPERATION_BYTES, found: header.len() });
        }
        let mut r = Reader::new(header);
        let (kind, value, zeros) = (r.u8(), r.u8(), (r.u16(), r.u32()));
        let handle = PeerHandle::decode(&mut r);
        let numbers = [r.u64(), r.u64(), r.u64(), r.u64()];
        let source = PeerHandle::decode(&mut r);
        let action = action_of(kind, value, numbers, source)?;
        let has_rest = zeros != (0, 0)
            || (value != 0 && !matches!(action, PeerAction::Set { .. }))
            || (source != PeerHandle::default() && !matches!(action, PeerAction::Copy { .. }));
        if has_rest {
            return Err(WireError::Reserved);
        }
        let wanted = match action {
            PeerAction::Write { part, .. } => part.bytes as usize,
            _ => 0,
        };
        if payload_bytes != wanted {
            return Err(WireError::Length { wanted, found: payload_bytes });
        }
        Ok(Self { handle, action })
    }
}

fn action_of(
    kind: u8,
    value: u8,
    [a, b, c, d]: [u64; 4],
    source: PeerHandle,
) -> Result<PeerAction, WireError> {
    let ranges = || (Range { offset: a, bytes: b }, Range { offset: c, bytes: d });
    let (part, of) = ranges();
    let fits = |most: u64| match (1..=most).contains(&b) && of.holds(&part) {
        true => Ok(()),
        false => Err(WireError::Field { name: "part of a transfer", found: b }),
    };
    let no_more = |rest: u64| if rest == 0 { Ok(()) } else { Err(WireError::Reserved) };
    Ok(match kind {
        1 => fits(CHUNK_BYTES_MAX).map(|()| PeerAction::Read { part, of })?,
        2 => fits(CHUNK_BYTES_MAX).map(|()| PeerAction::Write { part, of })?,
        3 => fits(CHANGE_BYTES_MAX).map(|()| PeerAction::Set { part, of, value })?,
        4 if c <= CHANGED_BYTES_MAX && d < c => {
            PeerAction::Copy { to: a, source, from: b, bytes: c, done: d }
        }
        4 => return Err(WireError::Field { name: "bytes of a copy", found: c }),
        5 => no_more(c | d).map(|()| PeerAction::FetchAdd { offset: a, more: b })?,
        6 => no_more(d).map(|()| PeerAction::CompareSwap { offset: a, expected: b, new: c })?,
        7 => no_more(c | d).map(|()| PeerAction::Swap { offset: a, new: b })?,
        found => return Err(WireError::Kind { found: u16::from(found) }),
    })
}

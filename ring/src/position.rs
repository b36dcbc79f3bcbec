//! Index arithmetic, and the one gate through which foreign numbers become values.
//!
//! Pure functions without memory or atomics, so that the tests can enumerate *every* head, tail
//! and length of a small ring, also where the 64-bit positions wrap.
//!
//! ```text
//! position   counts bytes since the ring was made; wraps at 2^64; always a multiple of 8
//! index      position mod capacity: where in the data
//! element    [header u64][payload len bytes][0..7 bytes of padding]      span = 8 + len rounded up
//! header     0 = not committed | state 2 bits << 32 | tag 30 bits << 34 | len 32 bits
//! used       head - tail;  an element fits if used + span + 8 <= capacity. The 8 are the header
//!            word *behind* the newest element, which is zeroed before the element is committed,
//!            so that the consumer never meets bytes of an earlier lap where a header should be.
//! ```

use crate::error::{Corrupt, Fault, ReserveError, Side};
use crate::layout::{CAPACITY_MAX, CAPACITY_MIN, HEADER_BYTES};

/// Bytes since the ring was made, modulo 2^64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position(u64);

impl Position {
    /// The position of a ring end that this side itself keeps.
    pub const fn new(value: u64) -> Position {
        Position(value)
    }

    /// The number as it stands in shared memory.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The position `bytes` further on.
    #[inline(always)]
    pub const fn after(self, bytes: u64) -> Position {
        Position(self.0.wrapping_add(bytes))
    }

    /// How many bytes `self` is ahead of `earlier`.
    #[inline(always)]
    pub const fn since(self, earlier: Position) -> u64 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// A position as the other side wrote it: an allegation.
#[derive(Clone, Copy, Debug)]
pub struct RawPosition(pub u64);

/// A header word as the other side wrote it: an allegation.
#[derive(Clone, Copy, Debug)]
pub struct RawHeader(pub u64);

/// What a checked header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// Nothing is committed here yet.
    Pending,
    /// An element with that many payload bytes.
    Ready(usize),
    /// A reservation of that many payload bytes that was given up; to be skipped.
    Skipped(usize),
}

const STATE_READY: u64 = 1;
const STATE_SKIPPED: u64 = 2;
const STATE_SHIFT: u32 = 32;
const TAG_SHIFT: u32 = 34;
const TAG_MASK: u64 = (1 << 30) - 1;

/// The size of a ring, checked once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    capacity: u64,
}

impl Geometry {
    /// Accepts a power of two between the limits of the layout.
    pub const fn new(capacity: u64) -> Option<Geometry> {
        if capacity >= CAPACITY_MIN && capacity <= CAPACITY_MAX {
            Geometry::small(capacity)
        } else {
            None
        }
    }

    /// Accepts any power of two from 32 bytes: for rings in ordinary memory (models and tests).
    pub const fn small(capacity: u64) -> Option<Geometry> {
        if capacity.is_power_of_two() && capacity >= 32 && capacity <= CAPACITY_MAX {
            Some(Geometry { capacity })
        } else {
            None
        }
    }

    /// Data bytes.
    #[inline(always)]
    pub const fn capacity(self) -> u64 {
        self.capacity
    }

    /// Most payload bytes of one element: half the ring, less its header and the word behind it.
    ///
    /// Half, and not all, so that an element fits although the consumer may not yet have published
    /// the last [`Geometry::publish_bytes`] that it released.
    pub const fn payload_bytes_max(self) -> usize {
        (self.capacity / 2 - 2 * HEADER_BYTES) as usize
    }

    /// How many released bytes a consumer may keep to itself before it publishes its tail.
    #[inline(always)]
    pub const fn publish_bytes(self) -> u64 {
        self.capacity / 8
    }

    /// Where a position lies in the data; a multiple of 8 below the capacity, whatever `at` is.
    #[inline(always)]
    pub const fn index(self, at: Position) -> usize {
        (at.0 & (self.capacity - 1) & !(HEADER_BYTES - 1)) as usize
    }

    /// Bytes that an element with `len` payload bytes takes.
    #[inline(always)]
    pub const fn span(self, len: usize) -> Result<u64, ReserveError> {
        let limit = self.payload_bytes_max();
        if len > limit {
            return Err(ReserveError::TooLarge { wanted: len, limit });
        }
        Ok(span_of(len))
    }

    /// Whether `span` more bytes, and the zero word behind them, fit.
    #[inline(always)]
    pub const fn fits(self, head: Position, tail: Position, span: u64) -> bool {
        head.since(tail) + span + HEADER_BYTES <= self.capacity
    }

    /// Accepts a tail that moved forward, not beyond `head`, in whole words.
    #[inline(always)]
    pub fn check_tail(
        self,
        raw: RawPosition,
        known: Position,
        head: Position,
    ) -> Result<Position, Corrupt> {
        let tail = Position(raw.0);
        let in_order = tail.since(known) <= head.since(known);
        if in_order && raw.0 % HEADER_BYTES == 0 {
            return Ok(tail);
        }
        let (side, fault) = (Side::Consumer, Fault::Tail);
        Err(Corrupt { side, fault, found: raw.0, wanted: head.0 })
    }

    /// Accepts a head that is at most one capacity in front of `tail`, in whole words.
    #[inline(always)]
    pub fn check_head(self, raw: RawPosition, tail: Position) -> Result<Position, Corrupt> {
        let head = Position(raw.0);
        if head.since(tail) <= self.capacity && raw.0 % HEADER_BYTES == 0 {
            return Ok(head);
        }
        let (side, fault) = (Side::Producer, Fault::Head);
        Err(Corrupt { side, fault, found: raw.0, wanted: tail.0 })
    }

    /// Accepts a header that a correct producer could have written at `at`.
    #[inline(always)]
    pub fn check_header(self, raw: RawHeader, at: Position) -> Result<Header, Corrupt> {
        if raw.0 == 0 {
            return Ok(Header::Pending);
        }
        let len = (raw.0 & u32::MAX as u64) as usize;
        if raw.0 >> TAG_SHIFT != tag(at) {
            return Err(bad_header(Fault::Tag, raw.0, encode(at, STATE_READY, len)));
        }
        if len > self.payload_bytes_max() {
            let limit = self.payload_bytes_max() as u64;
            return Err(bad_header(Fault::Length, len as u64, limit));
        }
        match (raw.0 >> STATE_SHIFT) & 3 {
            STATE_READY => Ok(Header::Ready(len)),
            STATE_SKIPPED => Ok(Header::Skipped(len)),
            state => Err(bad_header(Fault::State, state, STATE_READY)),
        }
    }
}

/// The word that commits an element of `len` payload bytes at `at`.
#[inline(always)]
pub const fn ready(at: Position, len: usize) -> u64 {
    encode(at, STATE_READY, len)
}

/// The word that gives up a reservation of `len` payload bytes at `at`.
pub const fn skipped(at: Position, len: usize) -> u64 {
    encode(at, STATE_SKIPPED, len)
}

/// Bytes that `len` payload bytes take, where `len` is known to be within the limit.
#[inline(always)]
pub const fn span_of(len: usize) -> u64 {
    (HEADER_BYTES + len as u64).next_multiple_of(HEADER_BYTES)
}

#[inline(always)]
const fn encode(at: Position, state: u64, len: usize) -> u64 {
    tag(at) << TAG_SHIFT | state << STATE_SHIFT | len as u64
}

/// Low bits of the word number: they differ between neighbouring laps of every allowed capacity.
#[inline(always)]
const fn tag(at: Position) -> u64 {
    (at.0 / HEADER_BYTES) & TAG_MASK
}

#[cold]
fn bad_header(fault: Fault, found: u64, wanted: u64) -> Corrupt {
    Corrupt { side: Side::Producer, fault, found, wanted }
}

#[cfg(test)]
#[path = "position/tests.rs"]
mod tests;

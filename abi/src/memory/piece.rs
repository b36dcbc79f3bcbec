//! Where bytes of a region lie.

use super::limits::{ARENA_BYTES_MAX, GRAIN};
use crate::name::ObjectId;
use crate::wire::{Reader, WireError, Writer};

/// A run of bytes of an arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Piece {
    /// Which arena. One that was closed never has its identity again.
    pub arena: ObjectId,
    /// Its first byte there, a multiple of [`GRAIN`].
    pub offset: u64,
    /// How many; a multiple of [`GRAIN`].
    pub bytes: u64,
}

impl Piece {
    /// Bytes of one in a record.
    pub const BYTES: usize = 24;

    /// The first byte behind it.
    pub const fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        self.arena.encode(w);
        w.u64(self.offset).u64(self.bytes);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let piece = Piece { arena: ObjectId::decode(r), offset: r.u64(), bytes: r.u64() };
        let end = piece.offset.checked_add(piece.bytes);
        let lies = end.is_some_and(|end| end <= ARENA_BYTES_MAX)
            && piece.bytes > 0
            && piece.offset % GRAIN == 0
            && piece.bytes % GRAIN == 0;
        lies.then_some(piece).ok_or(WireError::Field { name: "piece", found: piece.offset })
    }
}

//! The operation that nearly all are: a read into one piece, in a tenth of an operation's bytes.

use super::{OpKind, Operation, Piece, OPERATION_HEAD_BYTES, PIECE_BYTES, TRANSFER_BYTES_MAX};
use crate::name::ObjectId;
use crate::wire::{Reader, Writer};

/// Length of its record.
pub const ONE_READ_BYTES: usize = OPERATION_HEAD_BYTES + PIECE_BYTES;

/// A read into one piece that may take as long as it takes.
///
/// Its record is the one that an [`Operation`] of the same content has. Server and asker treat it
/// apart because an operation has room for many pieces, and moving those from place to place is a
/// good part of what a read from the cache takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneRead {
    /// Which file.
    pub object: ObjectId,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The asker's own number.
    pub tag: u64,
    /// Where in the window.
    pub piece: Piece,
}

impl OneRead {
    /// An operation as such a read, if it is one.
    pub fn of(operation: &Operation) -> Option<OneRead> {
        let Operation { kind, object, offset, tag, timeout_us, argument, .. } = *operation;
        match operation.pieces.as_slice() {
            [piece] if kind == OpKind::Read && timeout_us == 0 && argument == 0 => {
                Some(OneRead { object, offset, tag, piece: *piece })
            }
            _ => None,
        }
    }

    /// The record's bytes.
    pub fn encode(&self) -> [u8; ONE_READ_BYTES] {
        let mut bytes = [0; ONE_READ_BYTES];
        let mut w = Writer::new(&mut bytes);
        w.u8(OpKind::Read as u8).u8(0).u8(1).u8(0).u32(0);
        w.u32(self.object.index).u32(self.object.generation);
        w.u64(self.offset).u64(self.tag).u64(0);
        w.u64(self.piece.offset).u32(self.piece.bytes).u32(0);
        bytes
    }

    /// The read in bytes that were copied from the ring. `None` for every other record, good or
    /// not: [`Operation::decode`] says which it is.
    pub fn decode(bytes: &[u8], window_bytes: u64) -> Option<OneRead> {
        let mut r =
            Reader::new(bytes.get(..ONE_READ_BYTES).filter(|all| all.len() == bytes.len())?);
        let head = r.take::<8>();
        let object = ObjectId { index: r.u32(), generation: r.u32() };
        let (offset, tag, argument) = (r.u64(), r.u64(), r.u64());
        let piece = Piece { offset: r.u64(), bytes: r.u32() };
        let is_one_read = head == [OpKind::Read as u8, 0, 1, 0, 0, 0, 0, 0];
        let is_zero = argument == 0 && r.u32() == 0;
        let read = OneRead { object, offset, tag, piece };
        (is_one_read && is_zero && read.fits(window_bytes)).then_some(read)
    }

    /// What a call's line holds of it; a call has no tag, since there is one at a time.
    pub fn to_words(&self) -> [u64; 4] {
        let object = u64::from(self.object.generation) << 32 | u64::from(self.object.index);
        [object, self.offset, self.piece.offset, u64::from(self.piece.bytes)]
    }

    /// The read in words that were copied from a call's line; `None` when it is none.
    pub fn from_words(words: [u64; 4], window_bytes: u64) -> Option<OneRead> {
        let [object, offset, place, bytes] = words;
        let object = ObjectId { index: object as u32, generation: (object >> 32) as u32 };
        let piece = Piece { offset: place, bytes: u32::try_from(bytes).ok()? };
        Some(OneRead { object, offset, tag: 0, piece }).filter(|read| read.fits(window_bytes))
    }

    /// Whether its piece lies in the window, and its length and end are within the limits.
    fn fits(&self, window_bytes: u64) -> bool {
        let bytes = u64::from(self.piece.bytes);
        let ends_by = |from: u64, limit| from.checked_add(bytes).is_some_and(|end| end <= limit);
        (1..=TRANSFER_BYTES_MAX).contains(&bytes)
            && ends_by(self.piece.offset, window_bytes)
            && ends_by(self.offset, i64::MAX as u64)
    }
}

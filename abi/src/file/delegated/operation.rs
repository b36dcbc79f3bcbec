//! An operation: written by the asker, copied once and checked once by the server.

use super::function_operation::HEAD_BYTES;
use super::region_operation::{COPY_BYTES, WORD_BYTES};
use super::socket_operation::{ADDRESS_BYTES, POLLED_MAX, POLL_ENTRY_BYTES};
use super::{
    argument, OpKind, Piece, ENTRY_BYTES_MAX, FACTS_BYTES, NAME_BYTES_MAX, OPERATION_BYTES_MAX,
    OPERATION_HEAD_BYTES, PIECES_MAX, PIECE_BYTES, TRANSFER_BYTES_MAX,
};
use crate::name::ObjectId;
use crate::wire::{Reader, Writer};

/// The pieces of one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pieces {
    list: [Piece; PIECES_MAX],
    count: u8,
}

impl Pieces {
    /// Some pieces; `None` when there are more than [`PIECES_MAX`].
    pub fn new(pieces: &[Piece]) -> Option<Pieces> {
        let mut list = [Piece::default(); PIECES_MAX];
        list.get_mut(..pieces.len())?.copy_from_slice(pieces);
        Some(Pieces { list, count: pieces.len() as u8 })
    }

    /// The pieces, in order.
    pub fn as_slice(&self) -> &[Piece] {
        self.list.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.as_slice().iter().map(|piece| u64::from(piece.bytes)).sum()
    }

    /// The place of the byte that has `done` others before it, and how many follow in its piece.
    pub fn at(&self, mut done: u64) -> Option<Piece> {
        for piece in self.as_slice() {
            if done < u64::from(piece.bytes) {
                let bytes = piece.bytes - done as u32;
                return Some(Piece { offset: piece.offset + done, bytes });
            }
            done -= u64::from(piece.bytes);
        }
        None
    }
}

/// An operation of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// What is to be done.
    pub kind: OpKind,
    /// With which file; any value for kinds that have none ([`OpKind::has_file`]).
    pub object: ObjectId,
    /// Where in the file, in bytes; of Readdir a cookie.
    pub offset: u64,
    /// The asker's own number.
    pub tag: u64,
    /// Microseconds after which it ends with ETIMEDOUT, counted from when the server takes it;
    /// 0 for never.
    pub timeout_us: u32,
    /// Bits that the kind knows; Cancel: a tag; Truncate: a length.
    pub argument: u64,
    /// Where in the window.
    pub pieces: Pieces,
}

/// What makes a record no operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// It has another length than its pieces need.
    Length,
    /// No operation has this number.
    Kind,
    /// Bytes that must be zero are not.
    Reserved,
    /// This kind takes another number of pieces, or other ones.
    Pieces,
    /// A piece does not lie in the window.
    Window,
    /// All pieces together, or the end in the file, are beyond the limit.
    Transfer,
    /// The argument has bits that this kind does not know.
    Argument,
}

/// A record that is no operation; its tag, where it was long enough to have one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// The tag to answer with.
    pub tag: Option<u64>,
    /// Why.
    pub reason: Reason,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the asker's record is no operation: {:?}", self.reason)
    }
}

impl std::error::Error for Malformed {}

impl Operation {
    /// Writes the record and answers its length.
    pub fn encode(&self, into: &mut [u8; OPERATION_BYTES_MAX]) -> usize {
        let pieces = self.pieces.as_slice();
        let mut w = Writer::new(into);
        w.u8(self.kind as u8).u8(0).u8(pieces.len() as u8).u8(0).u32(self.timeout_us);
        w.u32(self.object.index).u32(self.object.generation);
        w.u64(self.offset).u64(self.tag).u64(self.argument);
        for piece in pieces {
            w.u64(piece.offset).u32(piece.bytes).u32(0);
        }
        OPERATION_HEAD_BYTES + pieces.len() * PIECE_BYTES
    }

    /// The operation in bytes that were copied from the ring, for a window of `window_bytes`.
    pub fn decode(bytes: &[u8], window_bytes: u64) -> Result<Operation, Malformed> {
        if bytes.len() < OPERATION_HEAD_BYTES {
            return Err(Malformed { tag: None, reason: Reason::Length });
        }
        let mut r = Reader::new(bytes);
        let [kind, flags, count, zero] = r.take::<4>();
        let timeout_us = r.u32();
        let object = ObjectId { index: r.u32(), generation: r.u32() };
        let (offset, tag, argument) = (r.u64(), r.u64(), r.u64());
        let fail = |reason| Malformed { tag: Some(tag), reason };
        if bytes.len() != OPERATION_HEAD_BYTES + usize::from(count) * PIECE_BYTES {
            return Err(fail(Reason::Length));
        }
        if flags != 0 || zero != 0 {
            return Err(fail(Reason::Reserved));
        }
        let kind = OpKind::from_number(kind).ok_or(fail(Reason::Kind))?;
        let pieces = take_pieces(&mut r, count, window_bytes).map_err(fail)?;
        let operation = Operation { kind, object, offset, tag, timeout_us, argument, pieces };
        operation.check().map_err(fail)?;
        Ok(operation)
    }

    /// What the kinds ask for, each of its own.
    fn check(&self) -> Result<(), Reason> {
        let bytes = self.pieces.bytes();
        // A cookie says no place in bytes: the largest may be the last that there is.
        let moved = if self.kind == OpKind::Readdir { 0 } else { bytes };
        let end = self.offset.checked_add(moved).filter(|end| *end <= i64::MAX as u64);
        match () {
            () if !self.pieces_fit() => Err(Reason::Pieces),
            () if bytes > TRANSFER_BYTES_MAX || end.is_none() => Err(Reason::Transfer),
            () if !argument::fits(self.kind, self.argument) => Err(Reason::Argument),
            () => Ok(()),
        }
    }

    fn pieces_fit(&self) -> bool {
        let is_name = |piece: &Piece| (1..=NAME_BYTES_MAX).contains(&piece.bytes);
        let pieces = self.pieces.as_slice();
        let names_fit = pieces.iter().take(self.kind.names()).all(is_name);
        let others_fit = match self.kind {
            OpKind::Read | OpKind::Write | OpKind::Append | OpKind::WriteDurable => {
                !pieces.is_empty()
            }
            OpKind::Stat => matches!(pieces, [facts] if facts.bytes as usize >= FACTS_BYTES),
            OpKind::Readdir => self.pieces.bytes() >= ENTRY_BYTES_MAX as u64,
            OpKind::Open | OpKind::Mkdir | OpKind::Rmdir | OpKind::Unlink => pieces.len() == 1,
            OpKind::Rename | OpKind::Symlink | OpKind::Readlink => pieces.len() == 2,
            OpKind::Fetch => pieces.len() >= 2,
            OpKind::Copy => matches!(pieces, [source] if source.bytes as usize == COPY_BYTES),
            OpKind::FetchAdd | OpKind::CompareSwap | OpKind::Swap => {
                matches!(pieces, [word] if word.bytes as usize == WORD_BYTES)
            }
            OpKind::Call => matches!(pieces.len(), 1 | 2),
            OpKind::Receive => {
                matches!(pieces.len(), 1 | 2) && pieces[0].bytes as usize >= HEAD_BYTES
            }
            OpKind::Send | OpKind::Reply => pieces.len() <= 1,
            OpKind::Connect | OpKind::Listen | OpKind::Address => is_address(pieces),
            OpKind::Accept => pieces.is_empty() || is_address(pieces),
            OpKind::Poll => {
                matches!(pieces, [all] if all.bytes as usize % POLL_ENTRY_BYTES == 0
                    && all.bytes as usize <= POLL_ENTRY_BYTES * POLLED_MAX)
            }
            OpKind::Fsync
            | OpKind::Close
            | OpKind::Cancel
            | OpKind::Truncate
            | OpKind::Lock
            | OpKind::Shutdown
            | OpKind::Set
            | OpKind::Zero
            | OpKind::Discard => pieces.is_empty(),
        };
        names_fit && others_fit
    }
}

fn is_address(pieces: &[Piece]) -> bool {
    matches!(pieces, [address] if address.bytes as usize == ADDRESS_BYTES)
}

fn take_pieces(r: &mut Reader<'_>, count: u8, window_bytes: u64) -> Result<Pieces, Reason> {
    let mut pieces = Pieces { count, ..Pieces::default() };
    let list = pieces.list.get_mut(..usize::from(count)).ok_or(Reason::Pieces)?;
    for place in list {
        let (offset, bytes, zero) = (r.u64(), r.u32(), r.u32());
        if zero != 0 {
            return Err(Reason::Reserved);
        }
        let end = offset.checked_add(u64::from(bytes));
        if bytes == 0 || end.is_none_or(|end| end > window_bytes) {
            return Err(Reason::Window);
        }
        *place = Piece { offset, bytes };
    }
    Ok(pieces)
}

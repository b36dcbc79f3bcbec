//! What an operation that nobody waits for in a call does, by parts that each take a slot.

use std::ops::Range;

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::memory::operation::{CopySource, COPY_BYTES, WORD_BYTES};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_stub_link::LinkError;

use super::window::{chunk_bytes, operation, put, slot, take};
use super::Failure;

/// An operation, which owns its bytes.
pub(crate) enum Task {
    /// Moves bytes from the region into these.
    Read { handle: ObjectId, offset: u64, into: Vec<u8> },
    /// Moves these bytes into the region.
    Write { handle: ObjectId, offset: u64, from: Vec<u8> },
    /// Sets bytes by the argument of `set_argument`.
    Set { handle: ObjectId, offset: u64, argument: u64 },
    /// Copies bytes to a place in the region of a handle.
    Copy { source: CopySource, handle: ObjectId, offset: u64 },
    /// Changes a word.
    Word { kind: OpKind, handle: ObjectId, offset: u64, argument: u64, expected: u64 },
}

impl Task {
    /// Returns the part that begins after so many bytes; `None` behind the last.
    pub(super) fn part(&self, begun: usize) -> Option<Range<usize>> {
        let (len, most) = match self {
            Self::Read { handle, into, .. } => (into.len(), chunk_bytes(*handle)),
            Self::Write { handle, from, .. } => (from.len(), chunk_bytes(*handle)),
            Self::Set { .. } | Self::Copy { .. } | Self::Word { .. } => (1, 1),
        };
        (begun < len).then(|| begun..len.min(begun + most))
    }

    /// Fills a slot for a part; returns what is to be submitted.
    pub(super) fn begin(
        &self,
        window: &SharedMapping,
        number: usize,
        part: &Range<usize>,
    ) -> Result<Operation, Failure> {
        let behind = |offset: u64| offset.saturating_add(part.start as u64);
        let whole = [slot(number, part.len())];
        Ok(match self {
            Self::Read { handle, offset, .. } => {
                operation(OpKind::Read, *handle, behind(*offset), 0, &whole)
            }
            Self::Write { handle, offset, from } => {
                put(window, number, &from[part.clone()])?;
                operation(OpKind::Write, *handle, behind(*offset), 0, &whole)
            }
            Self::Set { handle, offset, argument } => {
                operation(OpKind::Set, *handle, *offset, *argument, &[])
            }
            Self::Copy { source, handle, offset } => {
                put(window, number, &source.encode())?;
                operation(OpKind::Copy, *handle, *offset, 0, &[slot(number, COPY_BYTES)])
            }
            Self::Word { kind, handle, offset, argument, expected } => {
                put(window, number, &expected.to_le_bytes())?;
                operation(*kind, *handle, *offset, *argument, &[slot(number, WORD_BYTES)])
            }
        })
    }

    /// Takes what the loop has left in the slot of a part that moved so many bytes; returns what the
    /// operation's result gains by it.
    pub(super) fn end(
        &mut self,
        window: &SharedMapping,
        number: usize,
        part: &Range<usize>,
        moved: u64,
    ) -> Result<u64, Failure> {
        let is_whole = moved == part.len() as u64;
        match self {
            Self::Read { .. } | Self::Write { .. } if !is_whole => {
                Err(Failure::Link(LinkError::Corrupt))
            }
            Self::Read { into, .. } => {
                take(window, number, &mut into[part.clone()])?;
                Ok(moved)
            }
            Self::Word { .. } => {
                let mut word = [0; WORD_BYTES];
                take(window, number, &mut word)?;
                Ok(u64::from_le_bytes(word))
            }
            Self::Write { .. } | Self::Set { .. } | Self::Copy { .. } => Ok(moved),
        }
    }

    /// Returns the bytes that it owns.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Read { into, .. } => into,
            Self::Write { from, .. } => from,
            Self::Set { .. } | Self::Copy { .. } | Self::Word { .. } => Vec::new(),
        }
    }
}

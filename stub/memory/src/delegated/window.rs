//! The window of a session with a server loop: a place for words, and slots for chunks.
//!
//! ```text
//! window   0         word, or where a copy comes from
//!          4096      slot 0, slot 1, ... of CHUNK_BYTES each
//!          266,240   their places for longer chunks, of FAR_CHUNK_BYTES each
//! ```
//!
//! A slot is one of the two at a time, by the length of what is in it. Places that were never used are
//! no memory.

use heliostat_abi::file::delegated::{OpKind, Operation, Piece, Pieces};
use heliostat_abi::memory::peer::{place_elsewhere, CHUNK_BYTES_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::{OutOfRange, SharedMapping};
use heliostat_stub_link::LinkError;

use super::Failure;

/// What one turn of a loop moves: a chunk is done before another one of the same session goes on.
const CHUNK_BYTES: usize = 16 * 1024;
/// What one message to another node moves.
const FAR_CHUNK_BYTES: usize = CHUNK_BYTES_MAX as usize;
/// Chunks that may be under way.
pub(super) const SLOTS: usize = 16;
const SLOTS_AT: usize = 4096;
const FAR_SLOTS_AT: usize = SLOTS_AT + SLOTS * CHUNK_BYTES;
/// Bytes of the window.
pub(super) const WINDOW_BYTES: usize = FAR_SLOTS_AT + SLOTS * FAR_CHUNK_BYTES;

/// Returns how many bytes of a region go by one operation at most: of another node's as many as a
/// message carries, since each is a way there and back.
pub(super) fn chunk_bytes(handle: ObjectId) -> usize {
    if is_far(handle) {
        FAR_CHUNK_BYTES
    } else {
        CHUNK_BYTES
    }
}

/// Whether a handle is one on a region of another node.
pub(super) fn is_far(handle: ObjectId) -> bool {
    place_elsewhere(handle).is_some()
}

/// Returns the operation with these pieces and no tag.
pub(super) fn operation(
    kind: OpKind,
    object: ObjectId,
    offset: u64,
    argument: u64,
    pieces: &[Piece],
) -> Operation {
    let pieces = Pieces::new(pieces).unwrap_or_default();
    Operation { kind, object, offset, tag: 0, timeout_us: 0, argument, pieces }
}

/// Returns the first bytes of a slot, no more than `chunk_bytes`.
pub(super) fn slot(number: usize, len: usize) -> Piece {
    Piece { offset: slot_at(number, len) as u64, bytes: len as u32 }
}

/// Copies bytes into a slot.
pub(super) fn put(window: &SharedMapping, number: usize, bytes: &[u8]) -> Result<(), Failure> {
    window.copy_in(slot_at(number, bytes.len()), bytes).map_err(outside)
}

/// Copies bytes out of a slot.
pub(super) fn take(window: &SharedMapping, number: usize, into: &mut [u8]) -> Result<(), Failure> {
    window.copy_out(slot_at(number, into.len()), into).map_err(outside)
}

/// Every place that is used lies in the window.
pub(super) fn outside(_: OutOfRange) -> Failure {
    Failure::Link(LinkError::Corrupt)
}

/// What a completion's result says.
pub(super) fn result_of(result: i64) -> Result<u64, Failure> {
    u64::try_from(result).map_err(|_| Failure::Errno(result.unsigned_abs() as i32))
}

/// Where a slot is for so many bytes.
fn slot_at(number: usize, len: usize) -> usize {
    if len <= CHUNK_BYTES {
        SLOTS_AT + number * CHUNK_BYTES
    } else {
        FAR_SLOTS_AT + number * FAR_CHUNK_BYTES
    }
}

//! One operation under way, and what its error says.

use super::{EDQUOT, EFAULT, EFBIG, EINVAL, ENOSPC};
use crate::{BlockError, Request};

/// An operation under way.
pub(super) struct Operation {
    pub(super) token: u64,
    pub(super) request: Request,
    /// Whether it is durable only after a flush that it shares.
    pub(super) needs_flush: bool,
    /// Of a durable write: whether it is written, and its flush is what is left.
    pub(super) is_written: bool,
    /// Of a zeroing that is made by writes: bytes that are done.
    pub(super) zeroed: u64,
    pub(super) zeroing: Zeroing,
}

/// How bytes are made zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Zeroing {
    /// By the device itself.
    Call,
    /// By writing zeroes: a file has its place then, and a device may know no other way.
    Writes,
    /// By a hole, where a file has no room for zeroes: what has no place is a hole already.
    Hole,
}

/// Whether an error of a write says that some of it was not written, and nothing else is lost. Without O_DIRECT a
/// want of room may be that of what was written before, which finds its place only when it is flushed.
pub(super) fn is_refusal(error: BlockError, is_direct: bool) -> bool {
    match error {
        BlockError::Device { errno: EINVAL | EFAULT } => true,
        BlockError::Device { errno: ENOSPC | EDQUOT | EFBIG } => is_direct,
        // What follows would have been refused.
        BlockError::Short { .. } => true,
        _ => false,
    }
}

/// What a result says of an operation that should have moved so many bytes.
pub(super) fn judge(result: i32, bytes: usize) -> Result<(), BlockError> {
    match usize::try_from(result) {
        Err(_) => Err(BlockError::Device { errno: -result }),
        Ok(moved) if moved < bytes => Err(BlockError::Short { moved: moved as u64 }),
        Ok(_) => Ok(()),
    }
}

//! Operations on their way into a ring: what is asked becomes a record.

use heliostat_abi::file::delegated::{OneRead, Operation, OPERATION_BYTES_MAX};

/// Pushes an operation's record; a read of one piece has a shorter way to its bytes.
///
/// # Errors
/// Those of `push`.
#[inline]
pub fn push_encoded<E>(
    operation: &Operation,
    push: impl FnOnce(&[u8]) -> Result<bool, E>,
) -> Result<bool, E> {
    if let Some(read) = OneRead::of(operation) {
        return push(&read.encode());
    }
    let mut record = [0; OPERATION_BYTES_MAX];
    let length = operation.encode(&mut record);
    push(record.get(..length).unwrap_or(&record))
}

//! Operations on their way into a ring: what is asked is checked, and becomes a record.

use heliostat_abi::file::delegated::{OneRead, Operation, OPERATION_BYTES_MAX};

use super::kept::TAG_MAX;
use super::{DelegatedError, Transfer};

/// Whether a caller may submit these in a session.
///
/// # Errors
/// `Stale` when a file is of another session, `Tag` when a tag is too large.
pub(super) fn check(transfers: &[Transfer], epoch: u64) -> Result<(), DelegatedError> {
    if transfers.iter().any(|it| it.kind.has_file() && it.file.epoch != epoch) {
        return Err(DelegatedError::Stale);
    }
    if transfers.iter().any(|it| it.tag > TAG_MAX) {
        return Err(DelegatedError::Tag);
    }
    Ok(())
}

/// Pushes an operation's record; a read of one piece has a shorter way to its bytes.
#[inline]
pub(super) fn push_encoded(
    operation: &Operation,
    push: impl FnOnce(&[u8]) -> Result<bool, DelegatedError>,
) -> Result<bool, DelegatedError> {
    if let Some(read) = OneRead::of(operation) {
        return push(&read.encode());
    }
    let mut record = [0; OPERATION_BYTES_MAX];
    let length = operation.encode(&mut record);
    push(record.get(..length).ok_or(DelegatedError::Corrupt)?)
}

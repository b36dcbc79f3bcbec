//! Operations on their way into a ring: what is asked is checked.

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

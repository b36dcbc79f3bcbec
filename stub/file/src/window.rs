//! Places of a window: names that are put into one, and answers that are copied out of one.

use std::sync::Arc;

use heliostat_abi::file::delegated::{Facts, Piece, FACTS_BYTES};
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{OutOfRange, SharedMapping};
use heliostat_base::sys::Errno;

use super::DelegatedError;

/// Makes a window of so many bytes (whole pages), all zero.
pub(super) fn create(bytes: usize) -> Result<(OwnedFd, Arc<SharedMapping>), DelegatedError> {
    let made = SharedMapping::create(c"heliostat-window", bytes);
    let (fd, window) = made.map_err(DelegatedError::Memory)?;
    Ok((fd, Arc::new(window)))
}

/// Puts names behind each other into `scratch`, and says where each lies.
pub(super) fn put_names<const N: usize>(
    window: &SharedMapping,
    names: [&str; N],
    scratch: Piece,
) -> Result<[Piece; N], DelegatedError> {
    let mut places = [Piece::default(); N];
    let mut at = 0;
    for (name, place) in names.iter().zip(&mut places) {
        if name.is_empty() {
            // No piece is empty, and no name is.
            return Err(DelegatedError::File(Errno(libc::ENOENT)));
        }
        let fits = OutOfRange::check(at, name.len(), scratch.bytes as usize);
        fits.map_err(DelegatedError::Window)?;
        let offset = scratch.offset.saturating_add(at as u64);
        let copied = window.copy_in(offset as usize, name.as_bytes());
        copied.map_err(DelegatedError::Window)?;
        *place = Piece { offset, bytes: name.len() as u32 };
        at += name.len();
    }
    Ok(places)
}

/// What a Stat into `scratch` has answered.
pub(super) fn facts(window: &SharedMapping, scratch: Piece) -> Result<Facts, DelegatedError> {
    let mut bytes = [0; FACTS_BYTES];
    let copied = window.copy_out(scratch.offset as usize, &mut bytes);
    copied.map_err(DelegatedError::Window)?;
    Ok(Facts::decode(&bytes))
}

/// A copy of what lies there.
pub(super) fn bytes(
    window: &SharedMapping,
    offset: u64,
    length: usize,
) -> Result<Vec<u8>, DelegatedError> {
    let mut bytes = vec![0; length];
    let copied = window.copy_out(offset as usize, &mut bytes);
    copied.map_err(DelegatedError::Window)?;
    Ok(bytes)
}

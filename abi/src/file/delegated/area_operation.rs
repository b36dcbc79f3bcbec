//! Operations on areas of a store, as a session's rings and its call line carry them.
//!
//! ```text
//! kind          object   offset       argument   pieces                       result
//! Read          handle   in the area  0          where to in the window       bytes
//! Write         handle   in the area  0          where from in the window     bytes
//! WriteDurable  handle   in the area  0          where from in the window     bytes
//! Fsync         handle   0            0          none                         0
//! Zero          handle   in the area  bytes      none                         bytes
//! Discard       handle   in the area  bytes      none                         bytes
//! ```
//! Offsets, and the bytes of each piece, are multiples of the sector that the control plane has told.
//! Pieces may lie anywhere in the window; at multiples of the memory alignment that it has told too
//! they are read and written without a copy.
//!
//! Operations that are under way together are done in any order. A Write survives a loss of power once
//! a Fsync has completed that was submitted after the Write's completion; a WriteDurable, once it has
//! completed itself.
//!
//! Errors: EBADF (no such handle), EACCES (a right is missing), ERANGE (beyond the area's end), EINVAL (no
//! multiple of the sector, or nothing this service knows), ECANCELED (the handle was given back
//! meanwhile), EIO and what else the device answered, ENODEV (there is no store). After an error of a
//! change its sectors hold the old bytes or the new ones.

/// Bytes that one Zero or Discard changes at most.
pub const CHANGED_BYTES_MAX: u64 = i64::MAX as u64;

/// The bytes of Zero's or Discard's argument; `None` when it changes nothing or too much.
pub const fn changed_bytes(argument: u64) -> Option<u64> {
    match argument {
        1..=CHANGED_BYTES_MAX => Some(argument),
        _ => None,
    }
}

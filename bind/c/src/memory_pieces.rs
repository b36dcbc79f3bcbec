//! Memory regions over C: many pieces in one call.

use std::ffi::c_void;

use crate::border::show;
use crate::code::{guard, heliostat_code, *};
use crate::memory::{heliostat_memory_region, told};

/// Bytes of the program that lie somewhere in a region.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_memory_piece {
    /// Where in the region.
    pub offset: u64,
    /// The program's bytes.
    pub memory: *mut c_void,
    /// How many.
    pub bytes: usize,
}

/// Reads many pieces at once. Errors as `heliostat_memory_read`, of the first piece that is wrong; others
/// may have been read.
///
/// # Safety
/// `region` is null or live; `pieces` is null or valid for `count`, and the memory of each for writing
/// its bytes, which nobody else uses and no two pieces share.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_read_pieces(
    region: *const heliostat_memory_region,
    pieces: *const heliostat_memory_piece,
    count: usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (region, pieces) = unsafe { (show(region)?.0.get()?, all(pieces, count)?) };
        let mut into = Vec::with_capacity(count);
        for piece in pieces {
            let memory = piece.checked()?;
            // SAFETY: not null (checked), so many bytes that are nobody else's by the caller's promise.
            into.push((piece.offset, unsafe {
                std::slice::from_raw_parts_mut(memory, piece.bytes)
            }));
        }
        region.read_vectored(&mut into).map_err(told)
    })
}

/// Writes many pieces at once. Errors as `heliostat_memory_write`; others may have been written.
///
/// # Safety
/// `region` is null or live; `pieces` is null or valid for `count`, and the memory of each for reading
/// its bytes, which nobody changes.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_write_pieces(
    region: *const heliostat_memory_region,
    pieces: *const heliostat_memory_piece,
    count: usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (region, pieces) = unsafe { (show(region)?.0.get()?, all(pieces, count)?) };
        let mut from = Vec::with_capacity(count);
        for piece in pieces {
            let memory = piece.checked()?;
            // SAFETY: not null (checked), so many bytes that nobody changes by the caller's promise.
            let bytes: &[u8] = unsafe { std::slice::from_raw_parts(memory, piece.bytes) };
            from.push((piece.offset, bytes));
        }
        region.write_vectored(&from).map_err(told)
    })
}

/// # Safety
/// `pieces` is null or valid for `count`.
unsafe fn all<'a>(
    pieces: *const heliostat_memory_piece,
    count: usize,
) -> Result<&'a [heliostat_memory_piece], heliostat_code> {
    if pieces.is_null() {
        return Err(HELIOSTAT_NULL);
    }
    // SAFETY: not null (checked), valid by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pieces, count) })
}

impl heliostat_memory_piece {
    fn checked(&self) -> Result<*mut u8, heliostat_code> {
        match self.memory.is_null() {
            true => Err(HELIOSTAT_NULL),
            false => Ok(self.memory.cast()),
        }
    }
}

//! Memory regions over C: their bytes and words.

use std::ffi::c_void;

use crate::border::{give_if_wanted, show, to_fill, to_read};
use crate::code::{guard, heliostat_code};
use crate::memory::{heliostat_memory_region, told};

/// Reads `bytes` bytes from an offset on. On either path: `HELIOSTAT_INVALID` when they do not all lie
/// in the region, `HELIOSTAT_DENIED` when the handle does not allow it, `HELIOSTAT_STALE` when the
/// region is gone, `HELIOSTAT_PEER_GONE` when the session is; and so for all below.
///
/// # Safety
/// `region` is null or live; `into` is null or valid for writing `bytes` bytes, which nobody else uses.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_read(
    region: *const heliostat_memory_region,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (region, into) = unsafe { (show(region)?.0.get()?, to_fill(into, bytes)?) };
        region.read(offset, into).map_err(told)
    })
}

/// Writes `bytes` bytes from an offset on.
///
/// # Safety
/// `region` is null or live; `from` is null or valid for reading `bytes` bytes, which nobody changes.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_write(
    region: *const heliostat_memory_region,
    offset: u64,
    from: *const c_void,
    bytes: usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (region, from) = unsafe { (show(region)?.0.get()?, to_read(from, bytes)?) };
        region.write(offset, from).map_err(told)
    })
}

/// Sets bytes from an offset on to a value.
///
/// # Safety
/// `region` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_set(
    region: *const heliostat_memory_region,
    offset: u64,
    bytes: u64,
    value: u8,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { show(region)?.0.get()? }.set(offset, bytes, value).map_err(told)
    })
}

/// Copies bytes to a place in the same or another region; they may overlap.
///
/// # Safety
/// Both are null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_copy(
    region: *const heliostat_memory_region,
    offset: u64,
    into: *const heliostat_memory_region,
    at: u64,
    bytes: u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (region, into) = unsafe { (show(region)?.0.get()?, show(into)?.0.get()?) };
        region.copy_to(offset, into, at, bytes).map_err(told)
    })
}

/// Adds to the word at an offset, a multiple of 8; `*old` is what it was. One step for everybody who
/// changes words so.
///
/// # Safety
/// `region` is null or live, `old` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_fetch_add(
    region: *const heliostat_memory_region,
    offset: u64,
    more: u64,
    old: *mut u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { show(region)?.0.get()? };
        let found = region.fetch_add(offset, more).map_err(told)?;
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give_if_wanted(old, found) }
    })
}

/// Stores `stored` in the word at an offset if it is `expected`; `*old` is what it was, which says
/// whether it did.
///
/// # Safety
/// As `heliostat_memory_fetch_add`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_compare_swap(
    region: *const heliostat_memory_region,
    offset: u64,
    expected: u64,
    stored: u64,
    old: *mut u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { show(region)?.0.get()? };
        let found = region.compare_swap(offset, expected, stored).map_err(told)?;
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give_if_wanted(old, found) }
    })
}

/// Stores a value in the word at an offset; `*old` is what it was.
///
/// # Safety
/// As `heliostat_memory_fetch_add`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_swap(
    region: *const heliostat_memory_region,
    offset: u64,
    stored: u64,
    old: *mut u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { show(region)?.0.get()? };
        let found = region.swap(offset, stored).map_err(told)?;
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give_if_wanted(old, found) }
    })
}

/// How many bytes the region has now, and whether this process reads and writes it by itself (1) or
/// the control plane's server loop does (0).
///
/// # Safety
/// `region` is null or live; the outputs are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_memory_size(
    region: *const heliostat_memory_region,
    bytes: *mut u64,
    is_direct: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let region = unsafe { show(region)?.0.get()? };
        let size = region.size().map_err(told)?;
        // SAFETY: each null, or valid by the caller's promise.
        unsafe {
            give_if_wanted(is_direct, i32::from(region.is_direct()))?;
            give_if_wanted(bytes, size)
        }
    })
}

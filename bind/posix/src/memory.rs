//! The program's memory, as its system calls name it.
//!
//! A program that passes a wild pointer gets the fault at its own address here, where the kernel
//! would answer EFAULT; both end a correct program's day, and checking would cost every call.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Most buffers of one call (source: IOV_MAX of readv(2)).
const BUFFERS_MAX: usize = 1024;

/// The bytes of a buffer to be filled.
///
/// # Safety
/// `address` and `length` come from a caught call, whose caller promised them to the kernel.
pub unsafe fn bytes_mut<'a>(address: u64, length: u64) -> &'a mut [u8] {
    if length == 0 || address == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise; a length above isize::MAX is cut as the kernel cuts it.
    unsafe { std::slice::from_raw_parts_mut(address as *mut u8, cut(length)) }
}

/// The bytes of a buffer to be sent.
///
/// # Safety
/// As for `bytes_mut`.
pub unsafe fn bytes<'a>(address: u64, length: u64) -> &'a [u8] {
    if length == 0 || address == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(address as *const u8, cut(length)) }
}

/// No call moves more than this (source: MAX_RW_COUNT, read(2)).
fn cut(length: u64) -> usize {
    length.min(0x7fff_f000) as usize
}

/// Buffers to be filled; `None` when the count is the kernel's to refuse.
///
/// # Safety
/// As for `bytes_mut`, for the array and for each buffer.
pub unsafe fn buffers_mut<'a>(address: u64, count: u64) -> Option<&'a mut [IoSliceMut<'a>]> {
    if count == 0 || count as usize > BUFFERS_MAX || address == 0 {
        return None;
    }
    // SAFETY: IoSliceMut has iovec's layout (its documentation promises that); advancing such a
    // slice would write into the program's array, so the stub works on a copy of it.
    Some(unsafe { std::slice::from_raw_parts_mut(address as *mut IoSliceMut<'a>, count as usize) })
}

/// Buffers to be sent; `None` when the count is the kernel's to refuse.
///
/// # Safety
/// As for `buffers_mut`.
pub unsafe fn buffers<'a>(address: u64, count: u64) -> Option<&'a [IoSlice<'a>]> {
    if count == 0 || count as usize > BUFFERS_MAX || address == 0 {
        return None;
    }
    // SAFETY: as in `buffers_mut`; this one is only read.
    Some(unsafe { std::slice::from_raw_parts(address as *const IoSlice<'a>, count as usize) })
}

/// Some plain structure that a call points to; `None` for a null pointer.
///
/// # Safety
/// `address` is null or points to a `T` as the kernel would read it; `T` is plain numbers.
pub unsafe fn read<T: Copy>(address: u64) -> Option<T> {
    // SAFETY: the caller's promise; unaligned addresses are allowed as the kernel allows them.
    (address != 0).then(|| unsafe { (address as *const T).read_unaligned() })
}

/// Writes a plain structure to where a call points; does nothing for a null pointer.
///
/// # Safety
/// `address` is null or points to room for a `T`.
pub unsafe fn write<T: Copy>(address: u64, value: T) {
    if address != 0 {
        // SAFETY: the caller's promise.
        unsafe { (address as *mut T).write_unaligned(value) }
    }
}

/// Room for a kernel structure of all zeros.
pub fn zeroed<T: Copy>() -> T {
    // SAFETY: used for plain kernel structures only, for which zero bytes are a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// A timespec in ns; `None` for a null pointer, negative ones count as zero.
///
/// # Safety
/// As for `read`.
pub unsafe fn timespec_ns(address: u64) -> Option<u64> {
    // SAFETY: the caller's promise.
    let spec: libc::timespec = unsafe { read(address) }?;
    let seconds = spec.tv_sec.max(0) as u64;
    Some(seconds.saturating_mul(1_000_000_000).saturating_add(spec.tv_nsec.max(0) as u64))
}

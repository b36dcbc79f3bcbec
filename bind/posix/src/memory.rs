//! The program's memory, as its system calls name it: bytes that may not be there.
//!
//! Everything that a call points to is copied by guarded copies: small structures here, once, in
//! and out; the bytes of a transfer by the lane or the mapped file. Where nothing lies, that is a
//! [`Fault`], for which the program gets the kernel's EFAULT. Slices of the program's buffers are
//! made here and touched by such copies only.
//!
//! A thread for which our handlers cannot stand (another library has plans with these signals, or
//! it is a child of vfork) gets the fault itself, at its own address.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use heliostat_base::guarded::{self, Fault};
use heliostat_base::sys::{check, raw, Errno, Sysno};
use heliostat_stub_posix::{owner, thread};

use crate::fault_action;

/// Most buffers of one call (source: IOV_MAX of readv(2)).
const BUFFERS_MAX: usize = 1024;
/// Buffers of one call that lie on the stack while it is made; more are allocated.
const BUFFERS_FEW: usize = 16;
/// No call moves more than this (source: MAX_RW_COUNT, read(2)).
const BYTES_MAX: u64 = 0x7fff_f000;
/// Above this no buffer ends (source: TASK_SIZE, x86-64 with 4 levels of page tables).
const ADDRESS_MAX: u64 = 0x7fff_ffff_f000;

/// The answer for a pointer to nothing.
pub const FAULT: Errno = Errno(libc::EFAULT);

/// Our handlers cannot stand in this process; asked once.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Before a call looks at the program's memory: a fault there is to reach our handler.
#[inline(always)]
pub fn guard() {
    if !thread::is_guarded() {
        make_guarded();
    }
}

#[cold]
fn make_guarded() {
    let is_child = thread::may_be_child() && owner::is_borrowed();
    if is_child || IS_REFUSED.load(Relaxed) {
        return;
    }
    match fault_action::install() {
        true => _ = thread::make_guarded(),
        false => IS_REFUSED.store(true, Relaxed),
    }
}

/// True for a range that ends in user space, whatever lies there; the kernel refuses all others
/// before it does anything.
#[inline(always)]
pub fn is_below(address: u64, length: u64) -> bool {
    address <= ADDRESS_MAX && length <= ADDRESS_MAX - address
}

/// The bytes of a buffer to be filled; `None` where the kernel would refuse it at once.
///
/// # Safety
/// `address` and `length` come from a caught call, and only guarded copies touch the slice.
#[inline(always)]
pub unsafe fn bytes_mut<'a>(address: u64, length: u64) -> Option<&'a mut [u8]> {
    let length = length.min(BYTES_MAX);
    if length == 0 {
        return Some(&mut []);
    }
    let is_plain = address != 0 && is_below(address, length);
    // SAFETY: the caller's promise.
    is_plain.then(|| unsafe { std::slice::from_raw_parts_mut(address as *mut u8, length as usize) })
}

/// The bytes of a buffer to be sent; `None` where the kernel would refuse it at once.
///
/// # Safety
/// As for `bytes_mut`.
#[inline(always)]
pub unsafe fn bytes<'a>(address: u64, length: u64) -> Option<&'a [u8]> {
    let length = length.min(BYTES_MAX);
    if length == 0 {
        return Some(&[]);
    }
    let is_plain = address != 0 && is_below(address, length);
    // SAFETY: the caller's promise.
    is_plain.then(|| unsafe { std::slice::from_raw_parts(address as *const u8, length as usize) })
}

/// Room for the copy of a call's array of buffers.
pub struct Buffers {
    few: [MaybeUninit<[u64; 2]>; BUFFERS_FEW],
    many: Vec<[u64; 2]>,
}

impl Buffers {
    /// No buffers yet.
    #[inline(always)]
    pub fn new() -> Self {
        Self { few: [MaybeUninit::uninit(); BUFFERS_FEW], many: Vec::new() }
    }

    /// Buffers to be filled, cut to what one call moves; `None` for what is the kernel's to refuse.
    ///
    /// # Safety
    /// As for `bytes_mut`, for the array and for each buffer.
    #[inline]
    pub unsafe fn filled<'a>(
        &'a mut self,
        array: u64,
        count: u64,
    ) -> Option<&'a mut [IoSliceMut<'a>]> {
        let parts = self.copied(array, count)?;
        // SAFETY: IoSliceMut has iovec's layout (its documentation promises that); each lies below
        // the end of user space and is no longer than one call moves; the rest is the caller's
        // promise.
        Some(unsafe { std::slice::from_raw_parts_mut(parts.as_mut_ptr().cast(), parts.len()) })
    }

    /// Buffers to be sent.
    ///
    /// # Safety
    /// As for `filled`.
    #[inline]
    pub unsafe fn sent<'a>(&'a mut self, array: u64, count: u64) -> Option<&'a [IoSlice<'a>]> {
        let parts = self.copied(array, count)?;
        // SAFETY: as in `filled`; IoSlice has the same layout.
        Some(unsafe { std::slice::from_raw_parts(parts.as_ptr().cast(), parts.len()) })
    }

    #[inline]
    fn copied(&mut self, array: u64, count: u64) -> Option<&mut [[u64; 2]]> {
        let count = usize::try_from(count).ok().filter(|count| *count <= BUFFERS_MAX)?;
        if count > BUFFERS_FEW {
            self.many.resize(count, [0; 2]);
        }
        let room = match count > BUFFERS_FEW {
            true => self.many.as_mut_ptr(),
            false => self.few.as_mut_ptr().cast(),
        };
        guard();
        // SAFETY: the room holds `count` pairs; the array is the program's, or a fault.
        unsafe { guarded::copy(room.cast(), array as *const u8, count * 16) }.ok()?;
        // SAFETY: they have just been written.
        let parts = unsafe { std::slice::from_raw_parts_mut(room, count) };
        let mut left = BYTES_MAX;
        for [address, length] in parts.iter_mut() {
            if *length > i64::MAX as u64 || !is_below(*address, (*length).min(BYTES_MAX)) {
                return None;
            }
            *length = (*length).min(left);
            left -= *length;
            // A slice's address is never null; at 1 there is nothing either.
            *address = (*address).max(1);
        }
        Some(parts)
    }
}

/// Some plain structure that a call points to; `Ok(None)` for a null pointer.
///
/// # Errors
/// A fault.
///
/// # Safety
/// Any bytes are a `T`: it is plain numbers.
#[inline]
pub unsafe fn read<T: Copy>(address: u64) -> Result<Option<T>, Fault> {
    if address == 0 {
        return Ok(None);
    }
    guard();
    let mut value = MaybeUninit::<T>::uninit();
    let to = value.as_mut_ptr().cast();
    // SAFETY: room for a `T`; what lies at the address is the program's, or a fault.
    unsafe { guarded::copy(to, address as *const u8, size_of::<T>()) }?;
    // SAFETY: every byte has been written, and any bytes are a `T`.
    Ok(Some(unsafe { value.assume_init() }))
}

/// Whether the kernel finds 32 bytes to read at an address: it reads an action before it sees that
/// there is no signal 0. Only asked where no handler of ours would tell.
pub fn is_readable(address: u64) -> bool {
    address == 0 || thread::is_guarded() || is_there([0, address as usize, 0, 8, 0, 0])
}

/// As `is_readable`, always asked of the kernel: for a process whose signal handlers may be others.
pub fn is_readable_by_kernel(address: u64) -> bool {
    address != 0 && is_there([0, address as usize, 0, 8, 0, 0])
}

/// Whether the kernel finds room for the action of a signal at an address, which then lies there.
pub fn is_writable_by(number: i32, address: u64) -> bool {
    let args = [number as usize, 0, address as usize, 8, 0, 0];
    address == 0 || thread::is_guarded() || is_there(args)
}

fn is_there(args: [usize; 6]) -> bool {
    // SAFETY: sets nothing: without an action, or for a signal that is none.
    check(unsafe { raw(Sysno::rt_sigaction as usize, args) }) != Err(FAULT)
}

/// As `read`, for calls of programs that have nothing of ours: the handlers are not put in for it,
/// and where they are not, a fault is the program's.
///
/// # Errors
/// A fault.
///
/// # Safety
/// As for `read`.
pub unsafe fn read_early<T: Copy>(address: u64) -> Result<Option<T>, Fault> {
    let mut value: T = zeroed();
    let to = (&raw mut value).cast();
    if address != 0 {
        // SAFETY: as in `read`.
        unsafe { guarded::copy(to, address as *const u8, size_of::<T>()) }?;
    }
    Ok((address != 0).then_some(value))
}

/// As `write`, in the same way.
///
/// # Errors
/// A fault.
///
/// # Safety
/// As for `write`.
pub unsafe fn write_early<T: Copy>(address: u64, value: T) -> Result<(), Fault> {
    let from = (&raw const value).cast();
    if address != 0 {
        // SAFETY: as in `write_many`.
        unsafe { guarded::copy(address as *mut u8, from, size_of::<T>()) }?;
    }
    Ok(())
}

/// Copies what a call points to into `room`, and answers it as the values that it now holds.
///
/// # Errors
/// A fault.
///
/// # Safety
/// As for `read`.
#[inline]
pub unsafe fn read_many<T: Copy>(
    address: u64,
    room: &mut [MaybeUninit<T>],
) -> Result<&mut [T], Fault> {
    guard();
    let bytes = size_of_val(room);
    // SAFETY: as in `read`.
    unsafe { guarded::copy(room.as_mut_ptr().cast(), address as *const u8, bytes) }?;
    // SAFETY: as in `read`.
    Ok(unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), room.len()) })
}

/// Writes plain structures to where a call points.
///
/// # Errors
/// A fault.
///
/// # Safety
/// What lies at the address, if anything does, is the program's to be written, and `T` has no
/// padding.
#[inline]
pub unsafe fn write_many<T: Copy>(address: u64, values: &[T]) -> Result<(), Fault> {
    guard();
    // SAFETY: the values are readable; the rest is the caller's promise.
    unsafe { guarded::copy(address as *mut u8, values.as_ptr().cast(), size_of_val(values)) }
}

/// Writes a plain structure to where a call points; does nothing for a null pointer.
///
/// # Errors
/// A fault.
///
/// # Safety
/// As for `write_many`.
#[inline]
pub unsafe fn write<T: Copy>(address: u64, value: T) -> Result<(), Fault> {
    if address == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { write_many(address, std::slice::from_ref(&value)) }
}

const PAGE_BYTES: u64 = 4096;

/// How many of `count` structures of `each` bytes, all together no longer than a page, the program
/// has room for at `address`: those that come before memory which cannot be written.
///
/// # Safety
/// What lies there, if anything does, is the program's to be written.
#[inline]
pub unsafe fn writable(address: u64, count: usize, each: u64) -> usize {
    let Some(last) = (count as u64 * each).checked_sub(1) else { return 0 };
    let last = address + last;
    guard();
    // SAFETY: the caller's promise.
    let is_there = |at: u64| unsafe { guarded::is_writable(at as *mut u8) };
    if !is_there(address) {
        return 0;
    }
    match address / PAGE_BYTES == last / PAGE_BYTES || is_there(last) {
        true => count,
        false => ((last / PAGE_BYTES * PAGE_BYTES - address) / each) as usize,
    }
}

/// Room for a kernel structure of all zeros.
pub fn zeroed<T: Copy>() -> T {
    // SAFETY: used for plain kernel structures only, for which zero bytes are a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// A timespec in ns; `Ok(None)` for a null pointer. What is no time is a fault too: either way the
/// kernel refuses the call.
///
/// # Errors
/// A fault.
pub fn timespec_ns(address: u64) -> Result<Option<u64>, Fault> {
    // SAFETY: a timespec is two numbers.
    let Some([seconds, ns]) = (unsafe { read::<[i64; 2]>(address) })? else { return Ok(None) };
    if seconds < 0 || !(0..1_000_000_000).contains(&ns) {
        return Err(Fault);
    }
    Ok(Some((seconds as u64).saturating_mul(1_000_000_000).saturating_add(ns as u64)))
}

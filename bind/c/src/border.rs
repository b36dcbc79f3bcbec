//! What every function does at the border: pointers, strings, panics, handles after a fork.

use std::cell::RefCell;
use std::ffi::{c_char, c_void, CStr, CString};
use std::mem::ManuallyDrop;
use std::time::Duration;

use heliostat_base::process::pid;

use crate::code::{heliostat_code, *};

/// # Safety
/// `at` is null or valid for writing one `T`.
pub(crate) unsafe fn give<T>(at: *mut T, value: T) -> Result<(), heliostat_code> {
    if at.is_null() {
        return Err(HELIOSTAT_NULL);
    }
    // SAFETY: not null, so valid by the caller's promise.
    unsafe { at.write(value) };
    Ok(())
}

/// The same, for what a caller may not want: null is ignored.
///
/// # Safety
/// `at` is null or valid for writing one `T`.
pub(crate) unsafe fn give_if_wanted<T>(at: *mut T, value: T) -> Result<(), heliostat_code> {
    if at.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { give(at, value) }
}

/// Bytes that are to be filled.
///
/// # Safety
/// `at` is null or valid for writing `bytes` bytes, which nobody else uses meanwhile.
pub(crate) unsafe fn to_fill<'a>(
    at: *mut c_void,
    bytes: usize,
) -> Result<&'a mut [u8], heliostat_code> {
    if at.is_null() {
        return Err(HELIOSTAT_NULL);
    }
    // SAFETY: not null (checked), valid for writing so many bytes by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), bytes) })
}

/// Bytes that are only read.
///
/// # Safety
/// `at` is null or valid for reading `bytes` bytes, which nobody changes meanwhile.
pub(crate) unsafe fn to_read<'a>(
    at: *const c_void,
    bytes: usize,
) -> Result<&'a [u8], heliostat_code> {
    if at.is_null() {
        return Err(HELIOSTAT_NULL);
    }
    // SAFETY: not null (checked), valid for reading so many bytes by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), bytes) })
}

/// # Safety
/// `at` is null or points to a live `T` that nobody else uses meanwhile.
pub(crate) unsafe fn lend<'a, T>(at: *mut T) -> Result<&'a mut T, heliostat_code> {
    // SAFETY: the caller's promise.
    unsafe { at.as_mut() }.ok_or(HELIOSTAT_NULL)
}

/// # Safety
/// `at` is null or points to a live `T` that nobody changes meanwhile.
pub(crate) unsafe fn show<'a, T>(at: *const T) -> Result<&'a T, heliostat_code> {
    // SAFETY: the caller's promise.
    unsafe { at.as_ref() }.ok_or(HELIOSTAT_NULL)
}

/// # Safety
/// `at` is null or a C string.
pub(crate) unsafe fn text<'a>(at: *const c_char) -> Result<Option<&'a str>, heliostat_code> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and a C string by the caller's promise.
    let bytes = unsafe { CStr::from_ptr(at) };
    bytes.to_str().map(Some).map_err(|_| fail(HELIOSTAT_INVALID, "a string is not UTF-8"))
}

/// A handle on the heap, for the caller.
///
/// # Safety
/// `at` is valid for writing; it was checked before anything was made.
pub(crate) unsafe fn hand_out<T>(at: *mut *mut T, value: T) -> Result<(), heliostat_code> {
    // SAFETY: the caller's promise.
    unsafe { give(at, Box::into_raw(Box::new(value))) }
}

/// Takes a handle back and drops it. Null is ignored.
///
/// # Safety
/// `handle` is null or came from `hand_out` and is not used again.
pub(crate) unsafe fn take_back<T>(handle: *mut T) {
    if !handle.is_null() {
        guard(|| {
            // SAFETY: not null, ours, and the caller's last use.
            drop(unsafe { Box::from_raw(handle) });
            Ok(())
        });
    }
}

/// A timeout in milliseconds; negative for none.
pub(crate) fn limit(timeout_ms: i64) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Remembers why, in words, for `heliostat_last_message` of this thread.
pub(crate) fn fail(code: heliostat_code, why: impl ToString) -> heliostat_code {
    let words = CString::new(why.to_string()).unwrap_or_default();
    MESSAGE.with(|message| *message.borrow_mut() = words);
    code
}

/// Why the last call of this thread failed that says so in words: functions of regions,
/// attachments and snapshots do. Never null; good until this thread's next call.
#[no_mangle]
pub extern "C" fn heliostat_last_message() -> *const c_char {
    MESSAGE.with(|message| message.borrow().as_ptr())
}

/// A value that only the process which made it may use: in a forked child, pins and sessions are
/// still the parent's. There it is left alone, also when it is dropped.
pub(crate) struct ProcessOwned<T> {
    value: ManuallyDrop<T>,
    pid: i32,
}

impl<T> ProcessOwned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), pid: pid() }
    }

    pub(crate) fn get(&self) -> Result<&T, heliostat_code> {
        self.check().map(|()| &*self.value)
    }

    pub(crate) fn get_mut(&mut self) -> Result<&mut T, heliostat_code> {
        self.check().map(|()| &mut *self.value)
    }

    /// Takes the value out, to end it otherwise than by dropping it.
    pub(crate) fn into_inner(self) -> Result<T, heliostat_code> {
        self.check()?;
        let mut whole = ManuallyDrop::new(self);
        // SAFETY: taken once: `whole` is not dropped, and not used again.
        Ok(unsafe { ManuallyDrop::take(&mut whole.value) })
    }

    fn check(&self) -> Result<(), heliostat_code> {
        match self.pid == pid() {
            true => Ok(()),
            false => Err(fail(HELIOSTAT_FORKED, "made before a fork: the parent's, make anew")),
        }
    }
}

impl<T> Drop for ProcessOwned<T> {
    fn drop(&mut self) {
        if self.pid == pid() {
            // SAFETY: dropped here and nowhere else, and not used after this.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

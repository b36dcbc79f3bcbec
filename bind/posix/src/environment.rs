//! Changes to the program's environment before its main function sees it.
//!
//! setenv(3) and unsetenv(3) are not called: a shell may bring functions of these names, which know
//! nothing of the environment yet. The list is changed where it lies, so that main finds it changed
//! whichever way it looks.

use std::ffi::{c_char, CStr, CString};

extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Takes a variable out.
///
/// # Safety
/// No other thread is there, as in a constructor.
pub unsafe fn remove(name: &str) {
    // SAFETY: the caller's.
    let Some(mut at) = (unsafe { find(name) }) else { return };
    loop {
        // SAFETY: `at` is inside of the list, whose last pointer is null and ends this loop.
        let following = unsafe { *at.add(1) };
        // SAFETY: as above; the list is the process's own to write.
        unsafe { *at = following };
        if following.is_null() {
            return;
        }
        // SAFETY: that pointer was not the last one.
        at = unsafe { at.add(1) };
    }
}

/// Gives a variable that is there another value.
///
/// # Safety
/// No other thread is there, as in a constructor.
pub unsafe fn replace(name: &str, value: &str) {
    // SAFETY: the caller's.
    let Some(at) = (unsafe { find(name) }) else { return };
    let Ok(line) = CString::new(format!("{name}={value}")) else { return };
    // SAFETY: `at` is inside of the list; the new string is never freed, as is right for one of these.
    unsafe { *at = line.into_raw() };
}

/// The place of a variable in the list.
///
/// # Safety
/// Nobody changes the list meanwhile.
unsafe fn find(name: &str) -> Option<*mut *mut c_char> {
    // SAFETY: libc's own pointer, read by value.
    let mut at = unsafe { environ };
    while !at.is_null() {
        // SAFETY: `at` has not passed the list's last pointer, which is null.
        let line = unsafe { *at };
        if line.is_null() {
            return None;
        }
        // SAFETY: every pointer in the list leads to a C string (source: environ(7)).
        let line = unsafe { CStr::from_ptr(line) }.to_bytes();
        if line.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'=')) {
            return Some(at);
        }
        // SAFETY: that pointer was not the last one.
        at = unsafe { at.add(1) };
    }
    None
}

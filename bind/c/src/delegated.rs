//! Sessions with the server loop over C: begun, given files, submitted to, waited for, ended.

use heliostat_stub_file::Delegated;

use crate::border::{give, hand_out, lend, limit, take_back, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::operations::{
    cancelled, give_completion, give_window, heliostat_completion, heliostat_file,
    heliostat_operation, named, submit_all,
};
use crate::region::configure_as_usual;

/// A session with the server loop, and its window. One thread at a time.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_delegated(pub(crate) ProcessOwned<Delegated>);

/// Begins a session with a window of `window_bytes` (whole pages), all zero; a process has one at a
/// time. `*session` is the caller's. Blocks for half a second at most. `HELIOSTAT_NO_CONTROL`,
/// `HELIOSTAT_DENIED`, `HELIOSTAT_FULL`, `HELIOSTAT_TAKEN`: nothing is left behind.
///
/// # Safety
/// `session` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_start(
    window_bytes: usize,
    session: *mut *mut heliostat_delegated,
) -> heliostat_code {
    guard(|| {
        if session.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        configure_as_usual();
        let begun = Delegated::start(window_bytes).map_err(named)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(session, heliostat_delegated(ProcessOwned::new(begun))) }
    })
}

/// Where the window is and how long. Its bytes are the program's own; those of an operation's pieces
/// belong to the server until it has completed. Good until the session is ended.
///
/// # Safety
/// `session` is null or live; the outputs are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_window(
    session: *mut heliostat_delegated,
    bytes: *mut *mut u8,
    len: *mut usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let window = unsafe { lend(session)? }.0.get()?.window();
        // SAFETY: the caller's promise.
        unsafe { give_window(window, bytes, len) };
        Ok(())
    })
}

/// Has the server work with a file that this process has open, with the rights of the descriptor.
/// `way` is 0, `HELIOSTAT_DIRECT` or `HELIOSTAT_BUFFERED`, each as for `heliostat_delegated_open`; else
/// `HELIOSTAT_INVALID`. The descriptor stays the caller's. Waits; errors as there.
///
/// # Safety
/// `session` is null or live; `file` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_show(
    session: *mut heliostat_delegated,
    fd: i32,
    way: u32,
    file: *mut heliostat_file,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let session = unsafe { lend(session)? }.0.get_mut()?;
        if file.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let opened = session.show(fd, u64::from(way)).map_err(named)?;
        // SAFETY: the caller's promise.
        unsafe { give(file, heliostat_file::of(opened)) }
    })
}

/// Whether files that are opened with `HELIOSTAT_DIRECT` from now on are read by this program's own
/// io_uring, where the control plane has no limit for it (docs/delegated.md); so it is at first. With
/// 0 the server loop reads them all, beside whatever the calling thread does. Does not block.
///
/// # Safety
/// `session` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_read_directly(
    session: *mut heliostat_delegated,
    is_wanted: i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { lend(session)? }.0.get_mut()?.read_directly(is_wanted != 0);
        Ok(())
    })
}

/// Submits operations in order and rings the server once. `*submitted` becomes how many there was
/// room for; the others are to be submitted again after completions were taken. Does not block.
/// `HELIOSTAT_INVALID`, `HELIOSTAT_STALE`: nothing was submitted. A piece beyond the window is
/// answered with a completion (EINVAL).
///
/// # Safety
/// `session` is null or live; `operations` is valid for `count`, and the pieces of each for theirs;
/// `submitted` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_submit(
    session: *mut heliostat_delegated,
    operations: *const heliostat_operation,
    count: usize,
    submitted: *mut usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let session = unsafe { lend(session)? }.0.get_mut()?;
        // SAFETY: the caller's promise.
        unsafe { submit_all(operations, count, submitted, |transfers| session.submit(transfers)) }
    })
}

/// Asks for the end of the operation with this tag and waits for the answer. It completes in any
/// case: with ECANCELED, or as if nobody had asked. `HELIOSTAT_NOT_FOUND`: it was not under way.
///
/// # Safety
/// `session` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_cancel(
    session: *mut heliostat_delegated,
    tag: u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let session = unsafe { lend(session)? }.0.get_mut()?;
        cancelled(session.cancel(tag))
    })
}

/// Takes a completion, waiting for one: 0 looks only, a negative timeout waits for ever.
/// `HELIOSTAT_TIMED_OUT`; `HELIOSTAT_EMPTY` when nothing is under way. `HELIOSTAT_PEER_GONE`: the
/// control plane has ended the session, what was under way may be done or not, files are to be
/// opened again, and what is submitted next begins another session.
///
/// # Safety
/// `session` is null or live; `completion` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_wait(
    session: *mut heliostat_delegated,
    timeout_ms: i64,
    completion: *mut heliostat_completion,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let session = unsafe { lend(session)? }.0.get_mut()?;
        let take = || match session.reap()? {
            Some(found) => Ok(found),
            None => session.wait(limit(timeout_ms)),
        };
        // SAFETY: the caller's promise.
        unsafe { give_completion(completion, take) }
    })
}

/// Ends the session. What is under way goes on until the device is done; nobody hears of it. The
/// program's own reads are waited for, two seconds at most. The window may not be used any more. Null is ignored.
///
/// # Safety
/// `session` is null or came from this library and is not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_delegated_end(session: *mut heliostat_delegated) {
    // SAFETY: the caller's promise.
    unsafe { take_back(session) }
}

//! Joint sessions over C: threads of several processes submit on one window and one table of files.

use std::ffi::c_char;
use std::os::fd::AsRawFd;

use heliostat_base::fd::duplicate;
use heliostat_stub_file::{DelegatedError, JointSession, Submitter};

use crate::border::{give, hand_out, lend, limit, take_back, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::operations::{
    cancelled, give_completion, give_opened, give_window, heliostat_completion, heliostat_file,
    heliostat_operation, heliostat_piece, named, submit_all,
};
use crate::region::configure_as_usual;

/// This process's part of a joint session. Threads may share it.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_joint(ProcessOwned<JointSession>);

/// One thread's end of a joint session. One thread at a time.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_submitter(ProcessOwned<Submitter>);

/// Opens a session for as many processes at a time as `members` says, 16 at most, this one among them,
/// with a window of `window_bytes` (whole pages), all zero. `*session` is the caller's. Blocks for half
/// a second at most. Errors as for `heliostat_delegated_start`.
///
/// # Safety
/// `session` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_joint_start(
    window_bytes: usize,
    members: u32,
    session: *mut *mut heliostat_joint,
) -> heliostat_code {
    guard(|| {
        if session.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        configure_as_usual();
        let begun = JointSession::start(window_bytes, members).map_err(named)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(session, heliostat_joint(ProcessOwned::new(begun))) }
    })
}

/// The two descriptors that another process needs to join, which stay the session's: send them, or
/// leave copies open for a child. Whoever has them can do with the session what its opener can.
///
/// # Safety
/// `session` is null or live; the outputs are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_joint_descriptors(
    session: *mut heliostat_joint,
    rings: *mut i32,
    window: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (its_rings, its_window) = unsafe { lend(session)? }.0.get()?.descriptors();
        // SAFETY: the caller's promise; a null is an output not wanted.
        unsafe {
            let _ = give(rings, its_rings.as_raw_fd());
            let _ = give(window, its_window.as_raw_fd());
        }
        Ok(())
    })
}

/// Joins a session by its two descriptors, which stay the caller's. In the place of a process that is
/// gone, what that had under way is ended first, which takes 20 ms, or half a second if it does not
/// end. `HELIOSTAT_FULL`: as many processes as may take part. `HELIOSTAT_PEER_GONE`: the session has
/// ended.
///
/// # Safety
/// `session` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_joint_join(
    rings: i32,
    window: i32,
    session: *mut *mut heliostat_joint,
) -> heliostat_code {
    guard(|| {
        if session.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        configure_as_usual();
        let copy = |fd| duplicate(fd).map_err(|errno| named(DelegatedError::File(errno)));
        let joined = JointSession::join(copy(rings)?, copy(window)?).map_err(named)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(session, heliostat_joint(ProcessOwned::new(joined))) }
    })
}

/// Where the window is and how long; all members share it. Good until the session is ended here.
///
/// # Safety
/// `session` is null or live; the outputs are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_joint_window(
    session: *mut heliostat_joint,
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

/// An end for one thread. `*submitter` is the caller's; it may outlive the session's handle.
///
/// # Safety
/// `session` is null or live; `submitter` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_submitter_new(
    session: *mut heliostat_joint,
    submitter: *mut *mut heliostat_submitter,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let session = unsafe { lend(session)? }.0.get()?;
        if submitter.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        let made = session.submitter().map_err(named)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(submitter, heliostat_submitter(ProcessOwned::new(made))) }
    })
}

/// Has the server open the file `name` (an absolute path) with `access` as
/// `heliostat_delegated_open` does, as the process that has opened the session. The file is every
/// member's: its fields may be sent to the others. Waits.
///
/// # Safety
/// `submitter` is null or live; `name` is null or a C string; `file` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_submitter_open(
    submitter: *mut heliostat_submitter,
    name: *const c_char,
    access: u32,
    scratch: heliostat_piece,
    file: *mut heliostat_file,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let submitter = unsafe { lend(submitter)? }.0.get_mut()?;
        let open = |name: &str, scratch| submitter.open(name, u64::from(access), scratch);
        // SAFETY: the caller's promise.
        unsafe { give_opened(name, &scratch, file, open) }
    })
}

/// Submits operations in order and rings the server once, as `heliostat_delegated_submit` does.
/// `*submitted` may be 0 after a tenth of a second: another process was stopped while it submitted.
///
/// # Safety
/// As for `heliostat_delegated_submit`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_submitter_submit(
    submitter: *mut heliostat_submitter,
    operations: *const heliostat_operation,
    count: usize,
    submitted: *mut usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let submitter = unsafe { lend(submitter)? }.0.get_mut()?;
        // SAFETY: the caller's promise.
        unsafe { submit_all(operations, count, submitted, |transfers| submitter.submit(transfers)) }
    })
}

/// Takes a completion of what this end has submitted, waiting for one as `heliostat_delegated_wait`
/// does. `HELIOSTAT_PEER_GONE`: the session has ended, for all members.
///
/// # Safety
/// As for `heliostat_delegated_wait`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_submitter_wait(
    submitter: *mut heliostat_submitter,
    timeout_ms: i64,
    completion: *mut heliostat_completion,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let submitter = unsafe { lend(submitter)? }.0.get_mut()?;
        let take = || match submitter.reap()? {
            Some(found) => Ok(found),
            None => submitter.wait(limit(timeout_ms)),
        };
        // SAFETY: the caller's promise.
        unsafe { give_completion(completion, take) }
    })
}

/// Asks for the end of this end's operation with this tag, as `heliostat_delegated_cancel` does.
///
/// # Safety
/// `submitter` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_submitter_cancel(
    submitter: *mut heliostat_submitter,
    tag: u64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let submitter = unsafe { lend(submitter)? }.0.get_mut()?;
        cancelled(submitter.cancel(tag))
    })
}

/// Gives a thread's end back; what it has under way goes on. Null is ignored.
///
/// # Safety
/// `submitter` is null or came from this library and is not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_submitter_end(submitter: *mut heliostat_submitter) {
    // SAFETY: the caller's promise.
    unsafe { take_back(submitter) }
}

/// Ends this process's part; the opener's end, once its submitters have ended, is the session's. Null
/// is ignored.
///
/// # Safety
/// `session` is null or came from this library and is not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_joint_end(session: *mut heliostat_joint) {
    // SAFETY: the caller's promise.
    unsafe { take_back(session) }
}

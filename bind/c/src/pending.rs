//! Remote procedure calls over C: calls that go on while their caller does something else.

use std::ffi::c_void;

use heliostat_stub_rpc::{Function, PendingCall, RpcError};

use crate::border::{give, hand_out, lend, limit, show, take_back, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::rpc::{heliostat_function, put_reply, slice, told};

/// A call that was begun. One thread has it at a time.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_pending(ProcessOwned<PendingCall>);

/// Where the reply of one of several calls goes, and what became of it.
#[repr(C)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_multicast_reply {
    /// Set before: where the reply goes; null where `room` is 0.
    pub reply: *mut c_void,
    /// Set before: bytes that there is room for.
    pub room: usize,
    /// The reply's length.
    pub reply_bytes: usize,
    /// As `heliostat_function_call` answers.
    pub code: heliostat_code,
    /// 0 where the function certainly did not run, else 1.
    pub may_have_run: i32,
}

/// Begins a call, whose reply is waited for later by `heliostat_pending_wait`. `*pending` is the caller's.
/// The time is counted from now.
///
/// # Safety
/// `function` is null or live; `payload` is valid for reading `bytes` bytes, or null and these 0;
/// `pending` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_function_begin(
    function: *const heliostat_function,
    payload: *const c_void,
    bytes: usize,
    timeout_ms: i64,
    pending: *mut *mut heliostat_pending,
) -> heliostat_code {
    guard(|| {
        if pending.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let (function, sent) = unsafe { (show(function)?.0.get()?, slice(payload, bytes)?) };
        let begun = function.begin(sent, limit(timeout_ms)).map_err(told)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(pending, heliostat_pending(ProcessOwned::new(begun))) }
    })
}

/// Waits up to `within_ms` (0 for not at all) and puts into `*has_ended` whether the call has ended: then
/// `heliostat_pending_wait` does not wait.
///
/// # Safety
/// `pending` is null or live, `has_ended` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_pending_look(
    pending: *mut heliostat_pending,
    within_ms: u32,
    has_ended: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let call = unsafe { lend(pending)? }.0.get_mut()?;
        let within = std::time::Duration::from_millis(u64::from(within_ms));
        let ended = call.look_within(within);
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give(has_ended, i32::from(ended)) }
    })
}

/// Waits for the call's end and takes it back in any case. All else is as for `heliostat_function_call`.
///
/// # Safety
/// `pending` is null or live, and not used again; the rest as for `heliostat_function_call`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_pending_wait(
    pending: *mut heliostat_pending,
    reply: *mut c_void,
    room: usize,
    reply_bytes: *mut usize,
    may_have_run: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promises.
        unsafe { finish(pending, PendingCall::wait, (reply, room), (reply_bytes, may_have_run)) }
    })
}

/// Ends the call and takes it back in any case: `HELIOSTAT_CANCELLED`, or how it had ended before. A
/// server that has received it goes on, and hears that nobody waits for its reply. All else is as for
/// `heliostat_pending_wait`.
///
/// # Safety
/// As `heliostat_pending_wait`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_pending_cancel(
    pending: *mut heliostat_pending,
    reply: *mut c_void,
    room: usize,
    reply_bytes: *mut usize,
    may_have_run: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promises.
        unsafe { finish(pending, PendingCall::cancel, (reply, room), (reply_bytes, may_have_run)) }
    })
}

/// Gives a call back without its end: it is cancelled. Null is ignored.
///
/// # Safety
/// `pending` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_pending_release(pending: *mut heliostat_pending) {
    // SAFETY: the caller's promise.
    unsafe { take_back(pending) }
}

/// Calls `count` functions, of any nodes, with the same payload at once and waits for all of their
/// replies, up to `timeout_ms`: each of `replies` says what became of the function at its place. The code
/// is `HELIOSTAT_OK` also where some or all of them failed.
///
/// # Safety
/// `functions` is valid for reading `count` pointers, each null or live; `replies` for reading and
/// writing as many, each with a `reply` that is valid for writing its `room`, or null and this 0; the
/// payload as for `heliostat_function_call`. Where `count` is 0 both may be null.
#[no_mangle]
pub unsafe extern "C" fn heliostat_rpc_multicast(
    functions: *const *const heliostat_function,
    replies: *mut heliostat_multicast_reply,
    count: usize,
    payload: *const c_void,
    bytes: usize,
    timeout_ms: i64,
) -> heliostat_code {
    guard(|| {
        if count > 0 && (functions.is_null() || replies.is_null()) {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let sent = unsafe { slice(payload, bytes)? };
        let mut targets: Vec<&Function> = Vec::new();
        for at in 0..count {
            // SAFETY: not null (checked), valid for `count` elements by the caller's promise.
            targets.push(unsafe { show(*functions.add(at))?.0.get()? });
        }
        let answers = heliostat_stub_rpc::multicast(&targets, sent, limit(timeout_ms));
        for (at, answer) in answers.into_iter().enumerate() {
            // SAFETY: as above; the caller's threads do not touch it meanwhile.
            let entry = unsafe { &mut *replies.add(at) };
            entry.may_have_run = i32::from(may_have_run_of(&answer));
            entry.reply_bytes = answer.as_ref().map_or(0, Vec::len);
            // SAFETY: the caller's promise about `reply` and `room`.
            let put = answer.map_err(told).and_then(|it| unsafe {
                put_reply(&it, (entry.reply, entry.room), std::ptr::null_mut())
            });
            entry.code = put.err().unwrap_or(HELIOSTAT_OK);
        }
        Ok(())
    })
}

/// # Safety
/// As `heliostat_pending_wait`.
unsafe fn finish(
    pending: *mut heliostat_pending,
    end: impl FnOnce(PendingCall) -> Result<Vec<u8>, RpcError>,
    (reply, room): (*mut c_void, usize),
    (reply_bytes, may_have_run): (*mut usize, *mut i32),
) -> Result<(), heliostat_code> {
    if pending.is_null() {
        return Err(HELIOSTAT_NULL);
    }
    // SAFETY: not null, ours, and the caller's last use.
    let call = unsafe { Box::from_raw(pending) }.0.into_inner()?;
    let ended = end(call);
    if !may_have_run.is_null() {
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { give(may_have_run, i32::from(may_have_run_of(&ended)))? };
    }
    // SAFETY: the caller's promise.
    unsafe { put_reply(&ended.map_err(told)?, (reply, room), reply_bytes) }
}

fn may_have_run_of(ended: &Result<Vec<u8>, RpcError>) -> bool {
    ended.as_ref().map_or_else(RpcError::may_have_run, |_| true)
}

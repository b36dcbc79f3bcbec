//! Pushing into queues over C, and hearing when an entry is durable.

use std::ffi::c_void;

use crate::border::give_if_wanted;
use crate::code::{guard, heliostat_code};
use crate::log::{heliostat_position, told};
use crate::log_append::{await_durable, call_later, heliostat_log_done, Call};
use crate::queue::{heliostat_queue, of};
use crate::rpc::slice;

/// Appends an entry and returns at once, as `heliostat_log_append` does. It can be taken when it is
/// durable.
///
/// # Safety
/// `queue` is null or live; `payload` is valid for reading `bytes` bytes that nobody changes, or null
/// and these 0; `position` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_push(
    queue: *const heliostat_queue,
    payload: *const c_void,
    bytes: usize,
    position: *mut heliostat_position,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (queue, payload) = unsafe { (of(queue)?, slice(payload, bytes)?) };
        let pushed = queue.push(payload).map_err(told)?;
        // SAFETY: the caller's promise.
        unsafe { give_if_wanted(position, pushed.position().into()) }
    })
}

/// The same, and waits until it is durable.
///
/// # Safety
/// As `heliostat_queue_push`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_push_sync(
    queue: *const heliostat_queue,
    payload: *const c_void,
    bytes: usize,
    position: *mut heliostat_position,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (queue, payload) = unsafe { (of(queue)?, slice(payload, bytes)?) };
        let at = queue.log().append_sync(payload).map_err(told)?;
        // SAFETY: the caller's promise.
        unsafe { give_if_wanted(position, at.into()) }
    })
}

/// The same without waiting, and has `done` called with `context` when it is durable and can be taken, as
/// `heliostat_log_append_then`. Where this does not answer `HELIOSTAT_OK`, `done` is not called.
///
/// # Safety
/// As `heliostat_queue_push`; `done` is null or a function that may be called by any thread with
/// `context`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_push_then(
    queue: *const heliostat_queue,
    payload: *const c_void,
    bytes: usize,
    done: heliostat_log_done,
    context: *mut c_void,
    position: *mut heliostat_position,
) -> heliostat_code {
    guard(|| {
        let call = Call::new(done, context)?;
        // SAFETY: the caller's promise.
        let (queue, payload) = unsafe { (of(queue)?, slice(payload, bytes)?) };
        let pushed = queue.push(payload).map_err(told)?;
        // SAFETY: the caller's promise.
        unsafe { call_later(pushed, call, position) }
    })
}

/// Waits until the entry that was pushed to a position is durable, up to `timeout_ms` (negative for
/// ever); 0 only looks. `HELIOSTAT_TIMED_OUT`; `HELIOSTAT_INVALID` for a position that no push has told.
///
/// # Safety
/// `queue` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_queue_wait(
    queue: *const heliostat_queue,
    position: heliostat_position,
    timeout_ms: i64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let log = unsafe { of(queue)? }.log();
        await_durable(log, position, timeout_ms)
    })
}

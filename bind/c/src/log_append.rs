//! Appending to logs over C, and hearing when an entry is durable.

use std::ffi::c_void;

use heliostat_stub_log::{Appended, Log, LogError, Position};

use crate::border::{give_if_wanted, limit};
use crate::code::{guard, heliostat_code, *};
use crate::log::{heliostat_log, heliostat_position, of, told};
use crate::rpc::slice;

/// Called once with what became of an append: `HELIOSTAT_OK` when it is durable, else it is not known
/// whether it is. Called by a thread of the library or by one that waits. It may append, and takes no
/// lock that is held by somebody who appends or waits.
#[allow(non_camel_case_types)] // the name is the C name
pub type heliostat_log_done =
    Option<unsafe extern "C" fn(context: *mut c_void, code: i32, position: heliostat_position)>;

/// Appends an entry and returns at once; waits only while as much as may be is on its way. It becomes
/// durable by itself: `heliostat_log_wait`, `heliostat_log_sync` or the descriptor tell when. Its
/// position goes to `*position`, unless null.
///
/// `HELIOSTAT_FULL` when the area is full: trimming makes room, and what was acknowledged stays.
/// `HELIOSTAT_TOO_LARGE`, `HELIOSTAT_ENDED`, `HELIOSTAT_DEVICE`. Then nothing was appended.
///
/// # Safety
/// `log` is null or live; `payload` is valid for reading `bytes` bytes that nobody changes, or null and
/// these 0; `position` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_append(
    log: *const heliostat_log,
    payload: *const c_void,
    bytes: usize,
    position: *mut heliostat_position,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (log, payload) = unsafe { (of(log)?, slice(payload, bytes)?) };
        let appended = log.append(payload).map_err(told)?;
        // SAFETY: the caller's promise.
        unsafe { give_if_wanted(position, appended.position().into()) }
    })
}

/// The same, and has `done` called with `context` when it is durable. Where this does not answer
/// `HELIOSTAT_OK`, `done` is not called.
///
/// # Safety
/// As `heliostat_log_append`; `done` is null or a function that may be called by any thread with
/// `context`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_append_then(
    log: *const heliostat_log,
    payload: *const c_void,
    bytes: usize,
    done: heliostat_log_done,
    context: *mut c_void,
    position: *mut heliostat_position,
) -> heliostat_code {
    guard(|| {
        let call = Call::new(done, context)?;
        // SAFETY: the caller's promise.
        let (log, payload) = unsafe { (of(log)?, slice(payload, bytes)?) };
        let appended = log.append(payload).map_err(told)?;
        // SAFETY: the caller's promise.
        unsafe { call_later(appended, call, position) }
    })
}

/// Appends an entry and waits until it is durable.
///
/// Answers as `heliostat_log_append`; where the device fails meanwhile, the next opening finds out
/// whether the entry is there.
///
/// # Safety
/// As `heliostat_log_append`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_append_sync(
    log: *const heliostat_log,
    payload: *const c_void,
    bytes: usize,
    position: *mut heliostat_position,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (log, payload) = unsafe { (of(log)?, slice(payload, bytes)?) };
        let at = log.append_sync(payload).map_err(told)?;
        // SAFETY: the caller's promise.
        unsafe { give_if_wanted(position, at.into()) }
    })
}

/// Waits until the entry at a position is durable, up to `timeout_ms` (negative for ever); 0 only
/// looks. `HELIOSTAT_TIMED_OUT`; `HELIOSTAT_INVALID` for a position that no append has told.
///
/// # Safety
/// `log` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_wait(
    log: *const heliostat_log,
    position: heliostat_position,
    timeout_ms: i64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let log = unsafe { of(log)? };
        await_durable(log, position, timeout_ms)
    })
}

/// Waits until everything that was appended before is durable.
///
/// # Safety
/// `log` is null or live.
#[no_mangle]
pub unsafe extern "C" fn heliostat_log_sync(log: *const heliostat_log) -> heliostat_code {
    // SAFETY: the caller's promise.
    guard(|| unsafe { of(log)? }.sync().map_err(told))
}

/// A function of the caller's, and what it is called with.
pub(crate) struct Call {
    done: unsafe extern "C" fn(*mut c_void, i32, heliostat_position),
    context: *mut c_void,
}

/// Tells where an entry is, and has the call made when it is durable.
///
/// # Safety
/// `position` is null or valid for writing.
pub(crate) unsafe fn call_later(
    appended: Appended,
    call: Call,
    position: *mut heliostat_position,
) -> Result<(), heliostat_code> {
    let at = appended.position();
    // SAFETY: the caller's promise. Before the call, which may be made at once.
    unsafe { give_if_wanted(position, at.into())? };
    appended.then(move |outcome| call.make(outcome, at));
    Ok(())
}

/// Waits for an entry, as `heliostat_log_wait` says.
pub(crate) fn await_durable(
    log: &Log,
    position: heliostat_position,
    timeout_ms: i64,
) -> Result<(), heliostat_code> {
    match log.wait_durable(position.into(), limit(timeout_ms)).map_err(told)? {
        true => Ok(()),
        false => Err(HELIOSTAT_TIMED_OUT),
    }
}

// SAFETY: the caller has promised that any thread may call it with this context.
unsafe impl Send for Call {}

impl Call {
    pub(crate) fn new(
        done: heliostat_log_done,
        context: *mut c_void,
    ) -> Result<Call, heliostat_code> {
        Ok(Call { done: done.ok_or(HELIOSTAT_NULL)?, context })
    }

    pub(crate) fn make(self, outcome: Result<Position, LogError>, position: Position) {
        let code = outcome.map_err(told).err().unwrap_or(HELIOSTAT_OK);
        // SAFETY: the caller's promise; called once, since this consumes it.
        unsafe { (self.done)(self.context, code as i32, position.into()) }
    }
}

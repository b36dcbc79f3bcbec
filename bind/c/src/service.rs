//! Remote procedure calls over C: functions that this program serves.

use std::ffi::{c_char, c_void};

use heliostat_stub_rpc::{Call, Service};

use crate::border::{give, hand_out, limit, show, take_back, text, ProcessOwned};
use crate::code::{guard, heliostat_code, *};
use crate::rpc::{heliostat_rpc, slice, told};

/// A function that this process serves. Threads may share it, but for its end.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_service(ProcessOwned<Service>);

/// A call that this process has received, or a message. One thread has it at a time.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_call(ProcessOwned<Call>);

/// What a function carries, for `heliostat_rpc_serve`; zeros are what is usual.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_service_options {
    /// Bytes that a payload may have.
    pub request_bytes: u32,
    /// Bytes that a reply may have.
    pub reply_bytes: u32,
    /// Messages that may wait.
    pub queue: u32,
    /// Not 0: programs of other users may call it, as far as rules allow that.
    pub others: u32,
}

/// Serves a function of this name from now on. `options` may be null. Where somebody serves it already,
/// it carries what that one has said. `*service` is the caller's.
///
/// # Safety
/// `rpc` is null or live, `name` null or a C string, `options` null or readable, `service` null or valid
/// for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_rpc_serve(
    rpc: *const heliostat_rpc,
    name: *const c_char,
    options: *const heliostat_service_options,
    service: *mut *mut heliostat_service,
) -> heliostat_code {
    guard(|| {
        if service.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let (rpc, name) = unsafe { (show(rpc)?.0.get()?, text(name)?) };
        // SAFETY: null, or readable by the caller's promise.
        let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
        let mut built = rpc.publish(name.ok_or(HELIOSTAT_NULL)?);
        let heliostat_service_options { request_bytes, reply_bytes, queue, others } = options;
        if request_bytes > 0 {
            built = built.request_bytes(request_bytes);
        }
        if reply_bytes > 0 {
            built = built.reply_bytes(reply_bytes);
        }
        if queue > 0 {
            built = built.queue(queue);
        }
        if others != 0 {
            built = built.others();
        }
        let served = built.serve().map_err(told)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(service, heliostat_service(ProcessOwned::new(served))) }
    })
}

/// Serves it no more: what was received may still be answered. Null is ignored.
///
/// # Safety
/// `service` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_service_end(service: *mut heliostat_service) {
    // SAFETY: the caller's promise.
    unsafe { take_back(service) }
}

/// Waits for the next call, or message, up to `timeout_ms` (negative for ever). `HELIOSTAT_TIMED_OUT`
/// when none came, `HELIOSTAT_ENDED` when this process does not serve it any more. `*call` is the
/// caller's.
///
/// # Safety
/// `service` is null or live, `call` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_service_receive(
    service: *const heliostat_service,
    timeout_ms: i64,
    call: *mut *mut heliostat_call,
) -> heliostat_code {
    guard(|| {
        if call.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let service = unsafe { show(service)?.0.get()? };
        let found = service.receive(limit(timeout_ms)).map_err(told)?;
        let found = found.ok_or(HELIOSTAT_TIMED_OUT)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(call, heliostat_call(ProcessOwned::new(found))) }
    })
}

/// Answers `*call` and waits for the next one, in one step: `*call` becomes that one, or null where none
/// came (`HELIOSTAT_TIMED_OUT`), or the process does not serve it any more (`HELIOSTAT_ENDED`).
/// `*was_heard`, unless null, becomes 0 where nobody waited for the answer.
///
/// # Safety
/// `service` is null or live; `call` is null or points to a live call; `reply` is valid for reading
/// `bytes` bytes, or null and these 0; `was_heard` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_service_reply_and_receive(
    service: *const heliostat_service,
    call: *mut *mut heliostat_call,
    reply: *const c_void,
    bytes: usize,
    timeout_ms: i64,
    was_heard: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (service, reply) = unsafe { (show(service)?.0.get()?, slice(reply, bytes)?) };
        if call.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: not null, points to a live call by the caller's promise; it becomes ours.
        let answered = unsafe { taken(call.replace(std::ptr::null_mut()))? };
        let next = service.reply_and_receive(answered, reply, limit(timeout_ms)).map_err(told)?;
        if !was_heard.is_null() {
            // SAFETY: not null (checked), valid by the caller's promise.
            unsafe { give(was_heard, i32::from(next.was_heard))? };
        }
        let found = next.call.ok_or(HELIOSTAT_TIMED_OUT)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(call, heliostat_call(ProcessOwned::new(found))) }
    })
}

/// A call's payload: `*payload` is good until the call is answered or dropped.
///
/// # Safety
/// `call` is null or live; `payload` and `bytes` are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_call_payload(
    call: *const heliostat_call,
    payload: *mut *const c_void,
    bytes: *mut usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let found = unsafe { show(call)?.0.get()? }.payload();
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give(payload, found.as_ptr().cast())? };
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give(bytes, found.len()) }
    })
}

/// Who calls: its user and its process, as the kernel has proved them to the control plane.
///
/// # Safety
/// `call` is null or live; `user` and `process` are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_call_caller(
    call: *const heliostat_call,
    user: *mut u32,
    process: *mut u32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let caller = unsafe { show(call)?.0.get()? }.caller();
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give(user, caller.user)? };
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give(process, caller.process) }
    })
}

/// The node that a call comes from, by its number in the cluster; 0 where that is this one. Of another
/// node `heliostat_call_caller` tells what that node's control plane says.
///
/// # Safety
/// `call` is null or live, `node` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_call_node(
    call: *const heliostat_call,
    node: *mut u32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let caller = unsafe { show(call)?.0.get()? }.caller();
        // SAFETY: null, or valid by the caller's promise.
        unsafe { give(node, caller.node) }
    })
}

/// Answers a call, and takes it back in any case. `HELIOSTAT_PEER_GONE` when nobody waits any more.
///
/// # Safety
/// `call` is null or live, and not used again; `reply` is valid for reading `bytes` bytes, or null and
/// these 0.
#[no_mangle]
pub unsafe extern "C" fn heliostat_call_reply(
    call: *mut heliostat_call,
    reply: *const c_void,
    bytes: usize,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (call, reply) = unsafe { (taken(call)?, slice(reply, bytes)?) };
        call.reply(reply).map_err(told)
    })
}

/// Says no to a call, and why, and takes it back in any case; with null, that it was dropped.
///
/// # Safety
/// `call` is null or live, and not used again; `why` is null or a C string.
#[no_mangle]
pub unsafe extern "C" fn heliostat_call_fail(
    call: *mut heliostat_call,
    why: *const c_char,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (call, why) = unsafe { (taken(call)?, text(why)?) };
        // Dropped without words, the call says itself that it was.
        why.map_or(Ok(()), |why| call.fail(why)).map_err(told)
    })
}

/// # Safety
/// `call` is null or came from `hand_out`, and is not used again.
unsafe fn taken(call: *mut heliostat_call) -> Result<Call, heliostat_code> {
    if call.is_null() {
        return Err(HELIOSTAT_NULL);
    }
    // SAFETY: not null, ours, and the caller's last use.
    unsafe { Box::from_raw(call) }.0.into_inner()
}

//! Remote procedure calls over C: functions of other programs, called and sent to.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use heliostat_stub_rpc::{Function, NotDelivered, Rpc, RpcError, Unanswered};

use crate::border::{fail, give, hand_out, limit, show, take_back, text, ProcessOwned};
use crate::code::{guard, heliostat_code, of_control, *};
use crate::region::configure_as_usual;

/// The user whose names are meant: the caller's own.
pub const HELIOSTAT_RPC_OWN_USER: u32 = 0xffff_ffff;
/// Bytes that a payload, and a reply, have at most.
pub const HELIOSTAT_RPC_PAYLOAD_BYTES_MAX: u32 = 1_048_576;
/// Bytes that a message sent one way has at most.
pub const HELIOSTAT_RPC_MESSAGE_BYTES_MAX: u32 = 65_536;

const _: () = assert!(HELIOSTAT_RPC_OWN_USER == heliostat_stub_rpc::OWN_USER);
const _: () = assert!(HELIOSTAT_RPC_PAYLOAD_BYTES_MAX == heliostat_stub_rpc::PAYLOAD_BYTES_MAX);
const _: () = assert!(HELIOSTAT_RPC_MESSAGE_BYTES_MAX == heliostat_stub_rpc::MESSAGE_BYTES_MAX);

/// This process's access to remote procedure calls. Threads may share it.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_rpc(pub(crate) ProcessOwned<Rpc>);

/// A function of another program. Threads may share it, but for its end.
#[allow(non_camel_case_types)] // the name is the C name
pub struct heliostat_function(pub(crate) ProcessOwned<Function>);

/// Opens it, where `heliostat_configure` has said that the control plane is. `*rpc` is the caller's.
/// Blocks for half a second at most. `HELIOSTAT_NO_CONTROL` when none answers.
///
/// # Safety
/// `rpc` is null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_rpc_open(rpc: *mut *mut heliostat_rpc) -> heliostat_code {
    guard(|| {
        if rpc.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        configure_as_usual();
        let opened = Rpc::open().map_err(told)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(rpc, heliostat_rpc(ProcessOwned::new(opened))) }
    })
}

/// Ends it; functions that came by it stay. Null is ignored.
///
/// # Safety
/// `rpc` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_rpc_close(rpc: *mut heliostat_rpc) {
    // SAFETY: the caller's promise.
    unsafe { take_back(rpc) }
}

/// The function of this name, among those of `user` (`HELIOSTAT_RPC_OWN_USER` for the caller's).
/// `HELIOSTAT_NOT_FOUND` when nobody serves it, `HELIOSTAT_DENIED` where a rule or its publisher says
/// no. `*function` is the caller's.
///
/// # Safety
/// `rpc` is null or live, `name` null or a C string, `function` null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_rpc_find(
    rpc: *const heliostat_rpc,
    user: u32,
    name: *const c_char,
    function: *mut *mut heliostat_function,
) -> heliostat_code {
    guard(|| {
        if function.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let (rpc, name) = unsafe { (show(rpc)?.0.get()?, text(name)?) };
        let found = rpc.find_of(user, name.ok_or(HELIOSTAT_NULL)?).map_err(told)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(function, heliostat_function(ProcessOwned::new(found))) }
    })
}

/// The same on another node of the cluster, by its number (0 for this one). `HELIOSTAT_NO_CONTROL` when
/// that node is not joined or does not answer; its words name the node, as those of every later error of
/// the function do.
///
/// # Safety
/// As `heliostat_rpc_find`.
#[no_mangle]
pub unsafe extern "C" fn heliostat_rpc_find_on(
    rpc: *const heliostat_rpc,
    node: u32,
    user: u32,
    name: *const c_char,
    function: *mut *mut heliostat_function,
) -> heliostat_code {
    guard(|| {
        if function.is_null() {
            return Err(HELIOSTAT_NULL);
        }
        // SAFETY: the caller's promise.
        let (rpc, name) = unsafe { (show(rpc)?.0.get()?, text(name)?) };
        let found = rpc.on(node).find_of(user, name.ok_or(HELIOSTAT_NULL)?).map_err(told)?;
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { hand_out(function, heliostat_function(ProcessOwned::new(found))) }
    })
}

/// Calls a function and waits for its reply, up to `timeout_ms` (negative for ever). The reply is put
/// into `reply`, which has room for `room` bytes, and its length into `*reply_bytes`: of a longer reply
/// the beginning, and `HELIOSTAT_TOO_LARGE`. `*may_have_run`, unless null, becomes 0 where the function
/// certainly did not run, and 1 otherwise.
///
/// `HELIOSTAT_STALE` when nobody serves it, `HELIOSTAT_TIMED_OUT`, `HELIOSTAT_PEER_GONE` when the server,
/// the control plane or the function's node has ended, `HELIOSTAT_FAILED` when the function says no; the
/// last message says why, of the function's no the function's own words.
///
/// # Safety
/// `function` is null or live; `payload` is valid for reading `bytes` bytes and `reply` for writing
/// `room`, or they are null and these 0; `reply_bytes` and `may_have_run` are null or valid for writing.
#[no_mangle]
pub unsafe extern "C" fn heliostat_function_call(
    function: *const heliostat_function,
    payload: *const c_void,
    bytes: usize,
    reply: *mut c_void,
    room: usize,
    reply_bytes: *mut usize,
    timeout_ms: i64,
    may_have_run: *mut i32,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (function, sent) = unsafe { (show(function)?.0.get()?, slice(payload, bytes)?) };
        if reply.is_null() && room > 0 {
            return Err(HELIOSTAT_NULL);
        }
        let called = function.call(sent, limit(timeout_ms));
        if !may_have_run.is_null() {
            let may = called.as_ref().map_or_else(RpcError::may_have_run, |_| true);
            // SAFETY: not null (checked), valid by the caller's promise.
            unsafe { give(may_have_run, i32::from(may))? };
        }
        let found = called.map_err(told)?;
        // SAFETY: the caller's promise.
        unsafe { put_reply(&found, (reply, room), reply_bytes) }
    })
}

/// Sends a function a message, one way. Waits for room in line up to `timeout_ms` (0 for not at all,
/// negative for ever). `HELIOSTAT_FULL` when there is none, `HELIOSTAT_TIMED_OUT` when there was none in
/// time; then it is not in line.
///
/// # Safety
/// `function` is null or live; `payload` is valid for reading `bytes` bytes, or null and these 0.
#[no_mangle]
pub unsafe extern "C" fn heliostat_function_send(
    function: *const heliostat_function,
    payload: *const c_void,
    bytes: usize,
    timeout_ms: i64,
) -> heliostat_code {
    guard(|| {
        // SAFETY: the caller's promise.
        let (function, sent) = unsafe { (show(function)?.0.get()?, slice(payload, bytes)?) };
        let done = match limit(timeout_ms) {
            Some(Duration::ZERO) => function.try_send(sent),
            limit => function.send(sent, limit),
        };
        done.map_err(told)
    })
}

/// Gives a function back. Null is ignored.
///
/// # Safety
/// `function` is null or live, and not used again.
#[no_mangle]
pub unsafe extern "C" fn heliostat_function_release(function: *mut heliostat_function) {
    // SAFETY: the caller's promise.
    unsafe { take_back(function) }
}

/// Puts a reply where its caller has room: of a longer one the beginning, and `HELIOSTAT_TOO_LARGE`.
///
/// # Safety
/// `reply` is valid for writing `room` bytes, or null and this 0; `reply_bytes` is null or valid for
/// writing.
pub(crate) unsafe fn put_reply(
    found: &[u8],
    (reply, room): (*mut c_void, usize),
    reply_bytes: *mut usize,
) -> Result<(), heliostat_code> {
    if reply.is_null() && room > 0 {
        return Err(HELIOSTAT_NULL);
    }
    let count = found.len().min(room);
    if count > 0 {
        // SAFETY: not null since `room` is not 0 (checked), valid for `room` bytes by the caller's
        // promise; a vector of ours overlaps nothing of the caller's.
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), reply.cast(), count) };
    }
    if !reply_bytes.is_null() {
        // SAFETY: not null (checked), valid by the caller's promise.
        unsafe { give(reply_bytes, found.len())? };
    }
    if found.len() > room {
        return Err(fail(HELIOSTAT_TOO_LARGE, "the reply is longer than there is room for"));
    }
    Ok(())
}

/// # Safety
/// `at` is valid for reading `bytes` bytes that nobody changes, or null.
pub(crate) unsafe fn slice<'a>(
    at: *const c_void,
    bytes: usize,
) -> Result<&'a [u8], heliostat_code> {
    if bytes == 0 {
        return Ok(&[]);
    }
    if at.is_null() {
        return Err(HELIOSTAT_NULL);
    }
    // SAFETY: not null (checked), valid for reading so many bytes by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), bytes) })
}

/// The code for an error, whose words are kept.
pub(crate) fn told(error: RpcError) -> heliostat_code {
    let code = match error.kind() {
        RpcError::Name(_) | RpcError::TooLong { .. } => HELIOSTAT_INVALID,
        RpcError::Busy { .. } | RpcError::NotDelivered(NotDelivered::Full) => HELIOSTAT_FULL,
        RpcError::NotDelivered(NotDelivered::Gone) => HELIOSTAT_STALE,
        RpcError::NotDelivered(NotDelivered::NodeDown) => HELIOSTAT_PEER_GONE,
        RpcError::NotDelivered(NotDelivered::TimedOut)
        | RpcError::Unanswered(Unanswered::TimedOut) => HELIOSTAT_TIMED_OUT,
        RpcError::NotDelivered(NotDelivered::Cancelled)
        | RpcError::Unanswered(Unanswered::Cancelled) => HELIOSTAT_CANCELLED,
        RpcError::Unanswered(_) | RpcError::NobodyWaits => HELIOSTAT_PEER_GONE,
        RpcError::Failed(_) => HELIOSTAT_FAILED,
        RpcError::NotServing => HELIOSTAT_ENDED,
        RpcError::Control(error) => of_control(error),
        RpcError::Corrupt | RpcError::Link(_) => HELIOSTAT_CORRUPT,
        // The kind of an error is no error that names a node.
        RpcError::Mapping(_) | RpcError::Server(_) | RpcError::OnNode { .. } => HELIOSTAT_SYSTEM,
    };
    match error.kind() {
        RpcError::Failed(words) => fail(code, words.clone()),
        _ => fail(code, error),
    }
}

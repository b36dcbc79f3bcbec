//! What UCX calls: each call becomes a value in a queue, which the worker's owner takes out.
//!
//! They run inside of UCX's functions, mostly of progress. None of them calls UCX but to free the
//! request that has just ended, none waits (the lock is held for a push), and none panics.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::abi::{self, AmRecvParam, Handle, Status};
use super::library::Library;

/// Somebody wants to connect: to be accepted or rejected, once.
#[derive(PartialEq, Eq, Debug)]
pub struct Knock(pub(super) usize);

/// A payload that is still at its sender: to be received or discarded, once.
#[derive(PartialEq, Eq, Debug)]
pub struct Announced {
    pub(super) descriptor: usize,
    /// How long it is.
    pub bytes: usize,
}

/// What happened. Keys are those that the worker's owner gave its endpoints.
#[derive(Debug)]
pub enum Happening {
    /// Somebody wants to connect.
    Knocked(Knock),
    /// A whole message came.
    Message { key: u64, header: Vec<u8>, payload: Vec<u8> },
    /// A message came whose payload did not.
    Announced { key: u64, header: Vec<u8>, payload: Announced },
    /// The payload of such a message, or why it will not come.
    Received { key: u64, header: Vec<u8>, payload: Result<Vec<u8>, Status> },
    /// A message is out, or is not.
    Sent { key: u64, token: u64, status: Status },
    /// An endpoint is of no use any more.
    Failed { key: u64, status: Status },
}

/// What the callbacks reach.
pub struct Shared {
    pub functions: &'static Library,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    happenings: VecDeque<Happening>,
    /// The keys of the endpoints that there are.
    keys: BTreeMap<usize, u64>,
}

impl Shared {
    pub fn new(functions: &'static Library) -> Shared {
        Shared { functions, state: Mutex::default() }
    }

    /// Nothing under the lock panics, so a poisoned one is as good as another.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, endpoint: Handle, key: u64) {
        self.state().keys.insert(endpoint as usize, key);
    }

    /// Forgets an endpoint before it is closed: UCX may give its address to another.
    pub fn remove(&self, endpoint: Handle) {
        self.state().keys.remove(&(endpoint as usize));
    }

    pub fn take(&self) -> Option<Happening> {
        self.state().happenings.pop_front()
    }

    pub fn is_quiet(&self) -> bool {
        self.state().happenings.is_empty()
    }

    fn push(&self, happening: Happening) {
        self.state().happenings.push_back(happening);
    }

    fn key_of(&self, endpoint: Handle) -> Option<u64> {
        self.state().keys.get(&(endpoint as usize)).copied()
    }
}

/// A message that UCX reads from until it is sent.
pub struct Sending {
    pub shared: Arc<Shared>,
    pub key: u64,
    pub token: u64,
    pub header: Vec<u8>,
    pub payload: Vec<u8>,
}

/// A payload that UCX writes until it is received. Its length is 0 until then.
pub struct Receiving {
    pub shared: Arc<Shared>,
    pub key: u64,
    pub header: Vec<u8>,
    pub payload: Vec<u8>,
    pub bytes: usize,
}

impl Receiving {
    /// UCX is done with the buffer.
    pub fn end(mut self, status: Status) {
        let payload = if status == abi::OK {
            // SAFETY: the buffer was made for `bytes`, and UCX reports success after it wrote them all.
            unsafe { self.payload.set_len(self.bytes) };
            Ok(self.payload)
        } else {
            Err(status)
        };
        self.shared.push(Happening::Received { key: self.key, header: self.header, payload });
    }
}

/// Somebody wants to connect.
///
/// # Safety
/// `arg` is the `Shared` of a worker that is not destroyed.
pub unsafe extern "C" fn knocked(request: Handle, arg: *mut c_void) {
    // SAFETY: the caller's obligation; the listener was made with the worker's own.
    let shared = unsafe { &*arg.cast::<Shared>() };
    shared.push(Happening::Knocked(Knock(request as usize)));
}

/// An endpoint failed.
///
/// # Safety
/// As [`knocked`].
pub unsafe extern "C" fn failed(arg: *mut c_void, endpoint: Handle, status: Status) {
    // SAFETY: the caller's obligation; the endpoint was made with the worker's own.
    let shared = unsafe { &*arg.cast::<Shared>() };
    if let Some(key) = shared.key_of(endpoint) {
        shared.push(Happening::Failed { key, status });
    }
}

/// A message came, or the head of one.
///
/// # Safety
/// As [`knocked`]; header and data are as UCX says (ucp_am_recv_callback_t).
pub unsafe extern "C" fn came(
    arg: *mut c_void,
    header: *const c_void,
    header_length: usize,
    data: *mut c_void,
    length: usize,
    param: *const AmRecvParam,
) -> Status {
    // SAFETY: the caller's obligation; the handler was set with the worker's own.
    let shared = unsafe { &*arg.cast::<Shared>() };
    // SAFETY: UCX passes a record that is valid during this call; the endpoint in it is not read
    // unless its bit is set.
    let param = unsafe { &*param };
    let endpoint = if param.recv_attr & abi::AM_RECV_REPLY_EP != 0 {
        param.reply_ep
    } else {
        std::ptr::null_mut()
    };
    // A message of an endpoint that is closed, or that asks for no answer, is not ours: dropped.
    let Some(key) = shared.key_of(endpoint) else { return abi::OK };
    // SAFETY: so many bytes are readable during this call.
    let header = unsafe { bytes(header, header_length) }.to_vec();
    if param.recv_attr & abi::AM_RECV_RNDV != 0 {
        let payload = Announced { descriptor: data as usize, bytes: length };
        shared.push(Happening::Announced { key, header, payload });
        return abi::IN_PROGRESS;
    }
    // SAFETY: without the bit of rendezvous `data` is the payload, readable during this call.
    let payload = unsafe { bytes(data, length) }.to_vec();
    shared.push(Happening::Message { key, header, payload });
    abi::OK
}

/// A message is sent, or given up.
///
/// # Safety
/// `user_data` is the `Sending` of this request, made by `Box::into_raw`, and this is the only call.
pub unsafe extern "C" fn sent(request: *mut c_void, status: Status, user_data: *mut c_void) {
    // SAFETY: the caller's obligation.
    let sending = unsafe { Box::from_raw(user_data.cast::<Sending>()) };
    // SAFETY: the request has ended, and is not used after this.
    unsafe { (sending.shared.functions.request_free)(request) };
    sending.shared.push(Happening::Sent { key: sending.key, token: sending.token, status });
}

/// A payload is received, or given up.
///
/// # Safety
/// As [`sent`], with a `Receiving`.
pub unsafe extern "C" fn received(
    request: *mut c_void,
    status: Status,
    _length: usize,
    user_data: *mut c_void,
) {
    // SAFETY: the caller's obligation.
    let receiving = unsafe { Box::from_raw(user_data.cast::<Receiving>()) };
    // SAFETY: the request has ended, and is not used after this.
    unsafe { (receiving.shared.functions.request_free)(request) };
    receiving.end(status);
}

/// Bytes of UCX's; none where it has no pointer.
///
/// # Safety
/// `length` bytes at `start` are readable and do not change for the life of the slice.
unsafe fn bytes<'a>(start: *const c_void, length: usize) -> &'a [u8] {
    if start.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the caller's obligation.
    unsafe { slice::from_raw_parts(start.cast(), length) }
}

//! What of UCX's interface is used, as its headers say it since version 1.13.
//!
//! Written by hand, so that building needs neither UCX nor libclang: twenty functions and nine records,
//! whose sizes and places are asserted below against those of the headers. UCX keeps them: a record
//! begins with a mask of the fields that are filled in, and new fields go to its end. It reads no
//! field whose bit is not set, so that these records do for later versions too.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A context, a worker, an endpoint, a listener, a connection request, a request: all are opaque.
pub type Handle = *mut c_void;
/// 0: done; 1: in progress; negative: an error.
pub type Status = i32;
/// Null: done; the last hundred addresses: an error; else a request.
pub type StatusPointer = *mut c_void;

pub const OK: Status = 0;
pub const IN_PROGRESS: Status = 1;
pub const BUSY: Status = -15;
/// The most negative status.
pub const STATUS_LAST: Status = -100;

/// The interface that these records are of.
pub const API_MAJOR: c_uint = 1;
pub const API_MINOR: c_uint = 13;

pub const PARAM_FEATURES: u64 = 1;
pub const FEATURE_WAKEUP: u64 = 1 << 4;
pub const FEATURE_AM: u64 = 1 << 6;

pub const WORKER_THREAD_MODE: u64 = 1;
/// Several threads may use a worker, one at a time.
pub const THREAD_SERIALIZED: c_int = 1;

pub const LISTENER_SOCK_ADDR: u64 = 1;
pub const LISTENER_CONN_HANDLER: u64 = 1 << 2;

pub const EP_ERR_MODE: u64 = 1 << 1;
pub const EP_ERR_HANDLER: u64 = 1 << 2;
pub const EP_SOCK_ADDR: u64 = 1 << 4;
pub const EP_FLAGS: u64 = 1 << 5;
pub const EP_CONN_REQUEST: u64 = 1 << 6;
/// The end of a peer is told.
pub const ERR_MODE_PEER: c_int = 1;
pub const EP_CLIENT_SERVER: c_uint = 1;
pub const EP_CLOSE_FORCE: u32 = 1;

pub const AM_ID: u64 = 1;
pub const AM_CB: u64 = 1 << 2;
pub const AM_ARG: u64 = 1 << 3;
pub const AM_FLAGS: u64 = 1 << 1;
/// The callback is called with whole messages.
pub const AM_WHOLE: u32 = 1;
/// The receiver is told the endpoint that it can answer by.
pub const AM_SEND_REPLY: u32 = 1;
/// The record has the endpoint.
pub const AM_RECV_REPLY_EP: u64 = 1;
/// The payload is still at the sender's.
pub const AM_RECV_RNDV: u64 = 1 << 17;

pub const OP_CALLBACK: u32 = 1 << 1;
pub const OP_USER_DATA: u32 = 1 << 2;
pub const OP_DATATYPE: u32 = 1 << 3;
pub const OP_FLAGS: u32 = 1 << 4;
/// Elements of one byte, beside each other.
pub const DATATYPE_BYTES: u64 = 1 << 3;

#[repr(C)]
pub struct Params {
    pub field_mask: u64,
    pub features: u64,
    /// Request size, two callbacks, a mask, a flag, two estimates and a name: none is filled in.
    pub unused: [u64; 8],
}

#[repr(C)]
pub struct WorkerParams {
    pub field_mask: u64,
    pub thread_mode: c_int,
    /// A set of processors, events, and six more fields: none is filled in.
    pub unused: [u64; 23],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct SockAddr {
    pub addr: *const libc::sockaddr,
    pub addrlen: libc::socklen_t,
}

#[repr(C)]
pub struct ConnHandler {
    pub cb: Option<unsafe extern "C" fn(request: Handle, arg: *mut c_void)>,
    pub arg: *mut c_void,
}

#[repr(C)]
pub struct ListenerParams {
    pub field_mask: u64,
    pub sockaddr: SockAddr,
    /// An older kind of handler.
    pub unused: [u64; 2],
    pub conn_handler: ConnHandler,
}

#[repr(C)]
pub struct ListenerAttr {
    pub field_mask: u64,
    pub sockaddr: libc::sockaddr_storage,
}

#[repr(C)]
pub struct ErrHandler {
    pub cb: Option<unsafe extern "C" fn(arg: *mut c_void, ep: Handle, status: Status)>,
    pub arg: *mut c_void,
}

#[repr(C)]
pub struct EpParams {
    pub field_mask: u64,
    pub address: *const c_void,
    pub err_mode: c_int,
    pub err_handler: ErrHandler,
    pub user_data: *mut c_void,
    pub flags: c_uint,
    pub sockaddr: SockAddr,
    pub conn_request: Handle,
    /// A name and a local address: not filled in.
    pub unused: [u64; 3],
}

pub type AmCallback = unsafe extern "C" fn(
    arg: *mut c_void,
    header: *const c_void,
    header_length: usize,
    data: *mut c_void,
    length: usize,
    param: *const AmRecvParam,
) -> Status;

#[repr(C)]
pub struct AmHandlerParam {
    pub field_mask: u64,
    pub id: c_uint,
    pub flags: u32,
    pub cb: Option<AmCallback>,
    pub arg: *mut c_void,
}

#[repr(C)]
pub struct AmRecvParam {
    pub recv_attr: u64,
    pub reply_ep: Handle,
}

/// What is called when an operation ends; which one it is follows from the operation.
#[repr(C)]
#[derive(Clone, Copy)]
pub union OpCallback {
    pub none: usize,
    pub send: unsafe extern "C" fn(request: *mut c_void, status: Status, user_data: *mut c_void),
    pub recv_am: unsafe extern "C" fn(
        request: *mut c_void,
        status: Status,
        length: usize,
        user_data: *mut c_void,
    ),
}

#[repr(C)]
pub struct RequestParam {
    pub op_attr_mask: u32,
    pub flags: u32,
    pub request: *mut c_void,
    pub cb: OpCallback,
    pub datatype: u64,
    pub user_data: *mut c_void,
    /// A reply's buffer, a kind of memory, where a length goes, and a memory handle: not filled in.
    pub unused: [u64; 4],
}

pub type GetVersion = unsafe extern "C" fn(*mut c_uint, *mut c_uint, *mut c_uint);
pub type ConfigRead = unsafe extern "C" fn(*const c_char, *const c_char, *mut Handle) -> Status;
pub type ConfigModify = unsafe extern "C" fn(Handle, *const c_char, *const c_char) -> Status;
pub type Init = unsafe extern "C" fn(c_uint, c_uint, *const Params, Handle, *mut Handle) -> Status;
pub type WorkerCreate = unsafe extern "C" fn(Handle, *const WorkerParams, *mut Handle) -> Status;
pub type WorkerEfd = unsafe extern "C" fn(Handle, *mut c_int) -> Status;
pub type OfHandle = unsafe extern "C" fn(Handle);
pub type StatusOfHandle = unsafe extern "C" fn(Handle) -> Status;
pub type CountOfHandle = unsafe extern "C" fn(Handle) -> c_uint;
pub type ListenerCreate =
    unsafe extern "C" fn(Handle, *const ListenerParams, *mut Handle) -> Status;
pub type ListenerQuery = unsafe extern "C" fn(Handle, *mut ListenerAttr) -> Status;
pub type ListenerReject = unsafe extern "C" fn(Handle, Handle) -> Status;
pub type EpCreate = unsafe extern "C" fn(Handle, *const EpParams, *mut Handle) -> Status;
pub type EpClose = unsafe extern "C" fn(Handle, *const RequestParam) -> StatusPointer;
pub type SetAmHandler = unsafe extern "C" fn(Handle, *const AmHandlerParam) -> Status;
pub type AmSend = unsafe extern "C" fn(
    Handle,
    c_uint,
    *const c_void,
    usize,
    *const c_void,
    usize,
    *const RequestParam,
) -> StatusPointer;
pub type AmReceive = unsafe extern "C" fn(
    Handle,
    *mut c_void,
    *mut c_void,
    usize,
    *const RequestParam,
) -> StatusPointer;
pub type AmRelease = unsafe extern "C" fn(Handle, *mut c_void);

impl SockAddr {
    /// No address.
    pub const NONE: SockAddr = SockAddr { addr: std::ptr::null(), addrlen: 0 };
}

impl RequestParam {
    /// Nothing is filled in.
    pub const NONE: RequestParam = RequestParam {
        op_attr_mask: 0,
        flags: 0,
        request: std::ptr::null_mut(),
        cb: OpCallback { none: 0 },
        datatype: 0,
        user_data: std::ptr::null_mut(),
        unused: [0; 4],
    };
}

/// What a status pointer says: done, an error, or a request that goes on.
pub enum Outcome {
    Done,
    Failed(Status),
    Pending(*mut c_void),
}

/// Reads a status pointer.
pub fn outcome(pointer: StatusPointer) -> Outcome {
    if pointer.is_null() {
        return Outcome::Done;
    }
    let signed = pointer as isize;
    if (STATUS_LAST as isize..0).contains(&signed) {
        Outcome::Failed(signed as Status)
    } else {
        Outcome::Pending(pointer)
    }
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<Params>() == 80);
    assert!(size_of::<WorkerParams>() == 200 && offset_of!(WorkerParams, thread_mode) == 8);
    assert!(size_of::<SockAddr>() == 16);
    assert!(size_of::<ListenerParams>() == 56 && offset_of!(ListenerParams, sockaddr) == 8);
    assert!(offset_of!(ListenerParams, conn_handler) == 40);
    assert!(size_of::<ListenerAttr>() == 136 && offset_of!(ListenerAttr, sockaddr) == 8);
    assert!(size_of::<EpParams>() == 104 && offset_of!(EpParams, err_mode) == 16);
    assert!(offset_of!(EpParams, err_handler) == 24 && offset_of!(EpParams, flags) == 48);
    assert!(offset_of!(EpParams, sockaddr) == 56 && offset_of!(EpParams, conn_request) == 72);
    assert!(size_of::<AmHandlerParam>() == 32 && offset_of!(AmHandlerParam, cb) == 16);
    assert!(size_of::<AmRecvParam>() == 16 && offset_of!(AmRecvParam, reply_ep) == 8);
    assert!(size_of::<RequestParam>() == 72 && offset_of!(RequestParam, cb) == 16);
    assert!(offset_of!(RequestParam, datatype) == 24 && offset_of!(RequestParam, user_data) == 32);
};

//! A worker of UCX with a listener and its endpoints, used by one thread at a time.
//!
//! ```text
//! knock --accept--> endpoint --Failed--> close --progress--> gone
//!       \-reject      ^-- connect
//! ```

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use super::abi::{self, Handle, OpCallback, Outcome, RequestParam, Status};
use super::callbacks::{
    came, failed, knocked, received, sent, Announced, Happening, Knock, Receiving, Sending, Shared,
};
use super::library::Library;
use super::sockaddr::{address_of, Raw};

/// The one kind of active message that we send.
const MESSAGE: u32 = 1;
/// Calls of progress in one go.
const PROGRESS_AT_ONCE: usize = 64;
/// Calls of progress after which endpoints that do not close are left to the system.
const CLOSING_AT_MOST: usize = 100_000;

/// A worker. Dropping it closes its endpoints by force.
pub struct Worker {
    shared: Arc<Shared>,
    context: Handle,
    worker: Handle,
    listener: Handle,
    local: SocketAddr,
    descriptor: RawFd,
    endpoints: BTreeMap<u64, Handle>,
    /// Requests to close that go on.
    closing: Vec<Handle>,
}

impl Worker {
    /// Makes a worker that listens there, with these settings where the environment has none.
    pub fn listen(
        functions: &'static Library,
        at: SocketAddr,
        settings: &[(&CStr, &CStr)],
    ) -> Result<Worker, Status> {
        let mut worker = Worker {
            shared: Arc::new(Shared::new(functions)),
            context: init(functions, settings)?,
            worker: null_mut(),
            listener: null_mut(),
            local: at,
            descriptor: -1,
            endpoints: BTreeMap::new(),
            closing: Vec::new(),
        };
        // What is made before one of these fails is taken down by `drop`.
        worker.create()?;
        worker.set_handler()?;
        worker.begin_to_listen(at)?;
        Ok(worker)
    }

    fn functions(&self) -> &'static Library {
        self.shared.functions
    }

    /// What UCX gives its callbacks: it stays where it is while the worker lives.
    fn argument(&self) -> Handle {
        Arc::as_ptr(&self.shared).cast_mut().cast()
    }

    fn create(&mut self) -> Result<(), Status> {
        let params = abi::WorkerParams {
            field_mask: abi::WORKER_THREAD_MODE,
            thread_mode: abi::THREAD_SERIALIZED,
            unused: [0; 23],
        };
        // SAFETY: the context is alive, the record filled in as its mask says, the place writable.
        check(unsafe {
            (self.functions().worker_create)(self.context, &params, &mut self.worker)
        })?;
        // SAFETY: the worker is alive, and the place writable.
        check(unsafe { (self.functions().worker_efd)(self.worker, &mut self.descriptor) })
    }

    fn set_handler(&self) -> Result<(), Status> {
        let param = abi::AmHandlerParam {
            field_mask: abi::AM_ID | abi::AM_FLAGS | abi::AM_CB | abi::AM_ARG,
            id: MESSAGE,
            flags: abi::AM_WHOLE,
            cb: Some(came),
            arg: self.argument(),
        };
        // SAFETY: the worker is alive; the argument outlives it, since `drop` destroys it first.
        check(unsafe { (self.functions().set_am_handler)(self.worker, &param) })
    }

    fn begin_to_listen(&mut self, at: SocketAddr) -> Result<(), Status> {
        let raw = Raw::of(at);
        let params = abi::ListenerParams {
            field_mask: abi::LISTENER_SOCK_ADDR | abi::LISTENER_CONN_HANDLER,
            sockaddr: abi::SockAddr { addr: raw.as_ptr(), addrlen: raw.length() },
            unused: [0; 2],
            conn_handler: abi::ConnHandler { cb: Some(knocked), arg: self.argument() },
        };
        // SAFETY: the worker is alive, the address is valid during the call, and the argument outlives
        // the listener, which `drop` destroys first.
        check(unsafe {
            (self.functions().listener_create)(self.worker, &params, &mut self.listener)
        })?;
        // UCX 1.13 may say OK and have made none, and would ask that one for its address.
        if self.listener.is_null() {
            return Err(abi::BUSY);
        }
        // SAFETY: a record of numbers, for which all zero is a value.
        let mut attr: abi::ListenerAttr = unsafe { std::mem::zeroed() };
        attr.field_mask = abi::LISTENER_SOCK_ADDR;
        // SAFETY: the listener is alive, and the record writable.
        check(unsafe { (self.functions().listener_query)(self.listener, &mut attr) })?;
        self.local = address_of(&attr.sockaddr).unwrap_or(at);
        Ok(())
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// What becomes readable once it is armed.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: UCX keeps the descriptor open as long as the worker, which `self` keeps alive.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }

    /// Lets UCX do what there is to do, until something has happened or there is no more.
    pub fn progress(&mut self) {
        for _ in 0..PROGRESS_AT_ONCE {
            // SAFETY: the worker is alive, and this is not a callback.
            let count = unsafe { (self.functions().worker_progress)(self.worker) };
            if count == 0 || !self.shared.is_quiet() {
                break;
            }
        }
        self.reap();
    }

    /// What happened first of what was not taken yet.
    pub fn take(&self) -> Option<Happening> {
        self.shared.take()
    }

    /// Prepares the descriptor; whether a thread may sleep on it.
    pub fn arm(&mut self) -> Result<bool, Status> {
        if !self.shared.is_quiet() {
            return Ok(false);
        }
        // SAFETY: the worker is alive.
        match unsafe { (self.functions().worker_arm)(self.worker) } {
            abi::OK => Ok(true),
            abi::BUSY => Ok(false),
            status => Err(status),
        }
    }

    /// Begins to connect.
    pub fn connect(&mut self, key: u64, to: SocketAddr) -> Result<(), Status> {
        let raw = Raw::of(to);
        let sockaddr = abi::SockAddr { addr: raw.as_ptr(), addrlen: raw.length() };
        let fields = abi::EP_FLAGS | abi::EP_SOCK_ADDR;
        self.add_endpoint(key, fields, abi::EP_CLIENT_SERVER, sockaddr, null_mut())
    }

    /// Lets somebody in.
    pub fn accept(&mut self, key: u64, knock: Knock) -> Result<(), Status> {
        self.add_endpoint(key, abi::EP_CONN_REQUEST, 0, abi::SockAddr::NONE, knock.0 as Handle)
    }

    /// Sends somebody away.
    pub fn reject(&mut self, knock: Knock) {
        // SAFETY: the request came from this listener and was not used yet, since `Knock` has no copy.
        // Its status says nothing that one could act upon.
        unsafe { (self.functions().listener_reject)(self.listener, knock.0 as Handle) };
    }

    fn add_endpoint(
        &mut self,
        key: u64,
        fields: u64,
        flags: u32,
        sockaddr: abi::SockAddr,
        conn_request: Handle,
    ) -> Result<(), Status> {
        let params = abi::EpParams {
            field_mask: abi::EP_ERR_MODE | abi::EP_ERR_HANDLER | fields,
            address: null(),
            err_mode: abi::ERR_MODE_PEER,
            err_handler: abi::ErrHandler { cb: Some(failed), arg: self.argument() },
            user_data: null_mut(),
            flags,
            sockaddr,
            conn_request,
            unused: [0; 3],
        };
        let mut endpoint = null_mut();
        // SAFETY: the worker is alive, the record filled in as its mask says; an address in it is valid
        // during the call, a request in it is used here only, and the argument outlives the worker.
        check(unsafe { (self.functions().ep_create)(self.worker, &params, &mut endpoint) })?;
        self.endpoints.insert(key, endpoint);
        self.shared.add(endpoint, key);
        Ok(())
    }

    /// Sends a message. Whether it is out already; if not, [`Happening::Sent`] follows.
    pub fn send(
        &mut self,
        key: u64,
        token: u64,
        header: Vec<u8>,
        payload: Vec<u8>,
    ) -> Result<bool, (Status, Vec<u8>, Vec<u8>)> {
        let Some(&endpoint) = self.endpoints.get(&key) else {
            return Err((abi::BUSY, header, payload));
        };
        let sending =
            Box::new(Sending { shared: Arc::clone(&self.shared), key, token, header, payload });
        let (head, data) = (
            (sending.header.as_ptr(), sending.header.len()),
            (sending.payload.as_ptr(), sending.payload.len()),
        );
        let held = Box::into_raw(sending);
        let param = RequestParam {
            op_attr_mask: abi::OP_CALLBACK | abi::OP_USER_DATA | abi::OP_DATATYPE | abi::OP_FLAGS,
            flags: abi::AM_SEND_REPLY,
            cb: OpCallback { send: sent },
            datatype: abi::DATATYPE_BYTES,
            user_data: held.cast(),
            ..RequestParam::NONE
        };
        // SAFETY: the endpoint is alive; header and payload lie on the heap and stay there until the
        // callback takes `held`, or until it is taken below where no callback will come.
        let result = unsafe {
            (self.functions().am_send)(
                endpoint,
                MESSAGE,
                head.0.cast(),
                head.1,
                data.0.cast(),
                data.1,
                &param,
            )
        };
        match abi::outcome(result) {
            Outcome::Pending(_) => Ok(false),
            Outcome::Done => {
                // SAFETY: made by `into_raw` above; UCX calls back only for requests that go on.
                drop(unsafe { Box::from_raw(held) });
                Ok(true)
            }
            Outcome::Failed(status) => {
                // SAFETY: made by `into_raw` above, and no callback comes for a request that failed at once.
                let sending = unsafe { Box::from_raw(held) };
                Err((status, sending.header, sending.payload))
            }
        }
    }

    /// Fetches the payload of a message; [`Happening::Received`] follows.
    pub fn receive(&mut self, key: u64, header: Vec<u8>, payload: Announced) {
        let buffer = Vec::with_capacity(payload.bytes);
        let shared = Arc::clone(&self.shared);
        let mut receiving =
            Box::new(Receiving { shared, key, header, payload: buffer, bytes: payload.bytes });
        let to = receiving.payload.as_mut_ptr();
        let held = Box::into_raw(receiving);
        let param = RequestParam {
            op_attr_mask: abi::OP_CALLBACK | abi::OP_USER_DATA | abi::OP_DATATYPE,
            cb: OpCallback { recv_am: received },
            datatype: abi::DATATYPE_BYTES,
            user_data: held.cast(),
            ..RequestParam::NONE
        };
        let descriptor = payload.descriptor as Handle;
        // SAFETY: the descriptor came with the message and was not used yet, since `Announced` has no
        // copy; the buffer holds so many bytes and stays until the callback takes `held`.
        let result = unsafe {
            (self.functions().am_receive)(self.worker, descriptor, to.cast(), payload.bytes, &param)
        };
        let status = match abi::outcome(result) {
            Outcome::Pending(_) => return,
            Outcome::Done => abi::OK,
            Outcome::Failed(status) => status,
        };
        // SAFETY: made by `into_raw` above; UCX calls back only for requests that go on.
        unsafe { Box::from_raw(held) }.end(status);
    }

    /// Refuses the payload of a message.
    pub fn discard(&mut self, payload: Announced) {
        // SAFETY: the descriptor came with the message and was not used yet.
        unsafe { (self.functions().am_release)(self.worker, payload.descriptor as Handle) };
    }

    /// Closes an endpoint at once. What is under way on it ends by its callback.
    pub fn close(&mut self, key: u64) {
        let Some(endpoint) = self.endpoints.remove(&key) else { return };
        self.shared.remove(endpoint);
        let param = RequestParam {
            op_attr_mask: abi::OP_FLAGS,
            flags: abi::EP_CLOSE_FORCE,
            ..RequestParam::NONE
        };
        // SAFETY: the endpoint is alive and nobody has its handle any more.
        let result = unsafe { (self.functions().ep_close)(endpoint, &param) };
        if let Outcome::Pending(request) = abi::outcome(result) {
            self.closing.push(request);
        }
    }

    /// Frees the requests of endpoints that are closed by now.
    fn reap(&mut self) {
        let functions = self.functions();
        self.closing.retain(|request| {
            // SAFETY: a request of ours that was not freed yet: those that end leave the list here.
            let goes_on = unsafe { (functions.request_status)(*request) } == abi::IN_PROGRESS;
            if !goes_on {
                // SAFETY: it has ended, and leaves the list.
                unsafe { (functions.request_free)(*request) };
            }
            goes_on
        });
    }

    fn close_all(&mut self) {
        let keys: Vec<u64> = self.endpoints.keys().copied().collect();
        keys.into_iter().for_each(|key| self.close(key));
        for _ in 0..CLOSING_AT_MOST {
            if self.closing.is_empty() {
                return;
            }
            self.progress();
        }
    }
}

/// Makes a context that has active messages and can sleep, and nothing else.
fn init(functions: &'static Library, settings: &[(&CStr, &CStr)]) -> Result<Handle, Status> {
    let mut config = null_mut();
    // SAFETY: no prefix, no file, and a writable place.
    check(unsafe { (functions.config_read)(null(), null(), &mut config) })?;
    for (name, value) in settings {
        // SAFETY: the configuration is alive, and both texts end with a zero byte. A version that lacks
        // the setting keeps its own.
        unsafe { (functions.config_modify)(config, name.as_ptr(), value.as_ptr()) };
    }
    let params = abi::Params {
        field_mask: abi::PARAM_FEATURES,
        features: abi::FEATURE_AM | abi::FEATURE_WAKEUP,
        unused: [0; 8],
    };
    let mut context = null_mut();
    // SAFETY: the record is filled in as its mask says, the configuration alive, the place writable.
    let status =
        unsafe { (functions.init)(abi::API_MAJOR, abi::API_MINOR, &params, config, &mut context) };
    // SAFETY: UCX has read it, and it is not used after this.
    unsafe { (functions.config_release)(config) };
    check(status).map(|()| context)
}

fn check(status: Status) -> Result<(), Status> {
    if status < 0 {
        Err(status)
    } else {
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let functions = self.functions();
        if !self.listener.is_null() {
            // SAFETY: it is alive, and its worker too.
            unsafe { (functions.listener_destroy)(self.listener) };
        }
        if !self.worker.is_null() {
            self.close_all();
            // SAFETY: its listener is gone, its endpoints are closed; no callback comes after this.
            unsafe { (functions.worker_destroy)(self.worker) };
        }
        // SAFETY: its worker is gone.
        unsafe { (functions.cleanup)(self.context) };
    }
}

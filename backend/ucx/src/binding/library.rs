//! UCX's library, loaded when it is asked for: its functions by name, and its version.

use std::ffi::{c_void, CStr, CString};
use std::sync::OnceLock;

use super::abi;

/// The name by which the system finds it.
const NAME: &CStr = c"libucp.so.0";
/// Names another file instead, as of a build of one's own.
const VARIABLE: &str = "HELIOSTAT_UCX";
/// The oldest version whose records are those of `abi`.
const VERSION_MIN: (u32, u32) = (1, 13);

/// The functions that are used.
pub struct Library {
    pub version: (u32, u32),
    pub config_read: abi::ConfigRead,
    pub config_modify: abi::ConfigModify,
    pub config_release: abi::OfHandle,
    pub init: abi::Init,
    pub cleanup: abi::OfHandle,
    pub worker_create: abi::WorkerCreate,
    pub worker_destroy: abi::OfHandle,
    pub worker_progress: abi::CountOfHandle,
    pub worker_efd: abi::WorkerEfd,
    pub worker_arm: abi::StatusOfHandle,
    pub listener_create: abi::ListenerCreate,
    pub listener_destroy: abi::OfHandle,
    pub listener_query: abi::ListenerQuery,
    pub listener_reject: abi::ListenerReject,
    pub ep_create: abi::EpCreate,
    pub ep_close: abi::EpClose,
    pub set_am_handler: abi::SetAmHandler,
    pub am_send: abi::AmSend,
    pub am_receive: abi::AmReceive,
    pub am_release: abi::AmRelease,
    pub request_status: abi::StatusOfHandle,
    pub request_free: abi::OfHandle,
}

/// Why there is no UCX here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoUcx {
    /// The system finds no such library, in its own words.
    NotFound(String),
    /// It lacks a function.
    Incomplete(&'static str),
    /// It is older than what can be used.
    TooOld {
        /// Its version.
        found: (u32, u32),
        /// The oldest that can.
        wanted: (u32, u32),
    },
}

/// Loads the library, once in a process; it stays loaded.
pub fn load() -> Result<&'static Library, NoUcx> {
    static LOADED: OnceLock<Result<Library, NoUcx>> = OnceLock::new();
    LOADED.get_or_init(open).as_ref().map_err(NoUcx::clone)
}

fn open() -> Result<Library, NoUcx> {
    let named = std::env::var(VARIABLE).ok().and_then(|name| CString::new(name).ok());
    let name = named.as_deref().unwrap_or(NAME);
    // SAFETY: `name` ends with a zero byte. The library's constructors read the environment and set
    // signal handlers, which are taken back below; none of them runs code of ours.
    let opened = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if opened.is_null() {
        return Err(NoUcx::NotFound(last_error()));
    }
    let library = Library::find_all(Symbols(opened))?;
    if library.version < VERSION_MIN {
        return Err(NoUcx::TooOld { found: library.version, wanted: VERSION_MIN });
    }
    leave_signals_alone();
    Ok(library)
}

/// Takes back the handlers of SIGSEGV and others that UCX's constructor set: a debugger of its own,
/// which `UCX_HANDLE_ERRORS=none` would have kept it from, if the environment could be changed in a
/// process with threads.
fn leave_signals_alone() {
    // SAFETY: the name ends with a zero byte; the library is loaded, since libucp needs it.
    let opened =
        unsafe { libc::dlopen(c"libucs.so.0".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if opened.is_null() {
        return;
    }
    // SAFETY: `opened` is a library, and the name ends with a zero byte.
    let found = unsafe { libc::dlsym(opened, c"ucs_debug_disable_signals".as_ptr()) };
    if !found.is_null() {
        // SAFETY: the function of this name takes nothing and returns nothing (ucs/debug/debug.h).
        let disable: unsafe extern "C" fn() = unsafe { std::mem::transmute(found) };
        // SAFETY: it gives each signal that UCX took the action that it had before.
        unsafe { disable() };
    }
}

fn last_error() -> String {
    // SAFETY: the function takes nothing, and its answer is looked at below.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: a text of the loader that is valid until the next call of its functions by this thread.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A loaded library.
struct Symbols(*mut c_void);

impl Symbols {
    fn find(&self, name: &'static CStr) -> Result<*mut c_void, NoUcx> {
        // SAFETY: `self.0` is a library that stays loaded, and the name ends with a zero byte.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if found.is_null() {
            return Err(NoUcx::Incomplete(name.to_str().unwrap_or("a function")));
        }
        Ok(found)
    }
}

/// The function of a name, as its type.
macro_rules! function {
    ($symbols:expr, $name:literal, $type:ty) => {
        // SAFETY: a function of this name has the type that `abi` gives it, in every version
        // since 1.13 (ucp/api/ucp.h).
        unsafe { std::mem::transmute::<*mut c_void, $type>($symbols.find($name)?) }
    };
}

impl Library {
    fn find_all(symbols: Symbols) -> Result<Library, NoUcx> {
        let get_version = function!(symbols, c"ucp_get_version", abi::GetVersion);
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: all three are writable numbers.
        unsafe { get_version(&mut major, &mut minor, &mut release) };
        Ok(Library {
            version: (major, minor),
            config_read: function!(symbols, c"ucp_config_read", abi::ConfigRead),
            config_modify: function!(symbols, c"ucp_config_modify", abi::ConfigModify),
            config_release: function!(symbols, c"ucp_config_release", abi::OfHandle),
            init: function!(symbols, c"ucp_init_version", abi::Init),
            cleanup: function!(symbols, c"ucp_cleanup", abi::OfHandle),
            worker_create: function!(symbols, c"ucp_worker_create", abi::WorkerCreate),
            worker_destroy: function!(symbols, c"ucp_worker_destroy", abi::OfHandle),
            worker_progress: function!(symbols, c"ucp_worker_progress", abi::CountOfHandle),
            worker_efd: function!(symbols, c"ucp_worker_get_efd", abi::WorkerEfd),
            worker_arm: function!(symbols, c"ucp_worker_arm", abi::StatusOfHandle),
            listener_create: function!(symbols, c"ucp_listener_create", abi::ListenerCreate),
            listener_destroy: function!(symbols, c"ucp_listener_destroy", abi::OfHandle),
            listener_query: function!(symbols, c"ucp_listener_query", abi::ListenerQuery),
            listener_reject: function!(symbols, c"ucp_listener_reject", abi::ListenerReject),
            ep_create: function!(symbols, c"ucp_ep_create", abi::EpCreate),
            ep_close: function!(symbols, c"ucp_ep_close_nbx", abi::EpClose),
            set_am_handler: function!(
                symbols,
                c"ucp_worker_set_am_recv_handler",
                abi::SetAmHandler
            ),
            am_send: function!(symbols, c"ucp_am_send_nbx", abi::AmSend),
            am_receive: function!(symbols, c"ucp_am_recv_data_nbx", abi::AmReceive),
            am_release: function!(symbols, c"ucp_am_data_release", abi::AmRelease),
            request_status: function!(symbols, c"ucp_request_check_status", abi::StatusOfHandle),
            request_free: function!(symbols, c"ucp_request_free", abi::OfHandle),
        })
    }
}

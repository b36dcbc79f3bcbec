//! Remote procedure calls between programs: names, requests, records, limits.
//!
//! A *function* has a name among those of one user. Sessions that *serve* it receive its calls, those
//! that found it *call* it. The control plane says who may do what; calls themselves travel over a
//! session's rings to the server loop, which matches each with somebody who waits for one.
//! `docs/rpc.md` tells the whole.

pub mod limits;
pub mod name;
pub mod peer;
pub mod reply;
pub mod request;

pub use crate::file::delegated::function_operation as operation;
pub use name::FunctionName;
pub use operation::{CallHead, CALL_FAILED, HEAD_BYTES};
pub use reply::{FunctionInfo, ListedFunction, RpcReply};
pub use request::{Publication, RpcRequest};

//! TCP sockets of delegated operations: requests, records, limits.
//!
//! A session's operations on sockets travel over its rings to a server loop, which has the sockets and
//! speaks to the kernel. The control plane says who has such a session, and to which addresses and
//! folders one is *confined* that is handed to somebody who is not trusted. `docs/sockets.md` tells the
//! whole.

pub mod limits;
pub mod reply;
pub mod request;

pub use crate::file::delegated::socket_operation as operation;
pub use reply::SocketReply;
pub use request::{Access, SocketRequest};

//! A program's end of a session with a server loop, whichever service that loop is of.
//!
//! ```text
//! push ... ring ------> submission ring -----> server loop
//! pop, look, wait <---- completion ring <----/     ^
//! call, call_operation <======== one line =========/
//! ```
//!
//! What is asked and what it means is the service's own: its stub asks the control plane for the
//! session, and has the rings that come with the answer attached here. The other end is
//! `server/loop`, the records are `abi::file::delegated`.
//!
//! *Hot* (`push`, `ring`, `pop`, `call`): no system call unless the server sleeps, no allocation. `wait`
//! spins a little and then sleeps on the ring's bell.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod call;
mod error;
mod record;
mod server_connection;
mod shared_connection;

pub use error::{LinkError, SharedError};
pub use record::push_encoded;
pub use server_connection::{is_kept, ServerConnection};
pub use shared_connection::SharedConnection;

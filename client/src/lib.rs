//! The control protocol's one client: a request, its answer, and the session of a process.
//!
//! `exchange` is one request and one answer on a connection, for everybody who asks: the stubs, the
//! command line and the supervisor of sealed programs. `session` is the one that a process has with
//! its control plane, greeted when it is first needed. What the answers mean belongs to the service
//! that asks.
//!
//! It runs beneath the libc of unmodified programs: every call is raw, so that none is caught, and
//! a signal handler of the program must not interrupt it (the caller's critical section).
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod error;
mod exchange;
mod own_session;
mod page;
pub mod session;

pub use error::ControlError;
pub use exchange::{exchange, Answered};
pub use own_session::OwnSession;
pub use page::NodePage;

//! Messages between nodes over UCX: shared memory, TCP, InfiniBand and what else UCX finds.
//!
//! UCX is loaded when a node asks for it (`libucp.so.0`, version 1.13 or later): to build, nothing of
//! it is needed, and where it is missing, nodes use our own TCP transport. [`Ucx`] is a
//! [`Transport`](heliostat_backend_transport::transport::Transport) over its active messages; what
//! nodes say over it is the same as over any other (`docs/transport.md`).

mod binding;
mod inbox;
mod ucx;

pub use binding::NoUcx;
pub use ucx::{version, ListenError, Ucx};

//! What both planes agree on: records, codes, layouts and limits.
//!
//! `session` is the protocol and its pages; each service has a module with the layouts of its own
//! memory. Codes, limits, names and the table of generations are everybody's.
//!
//! One truth for the control plane, the stubs and every other language. No unsafe code, no
//! dependencies, no I/O: only fixed-width numbers, their places, and the checks that turn
//! foreign bytes into values. Byte order is little-endian throughout.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod code;
pub mod cores;
pub mod file;
pub mod lean;
pub mod limits;
pub mod listener;
pub mod lock;
pub mod memory;
pub mod name;
mod name_record;
pub mod needs;
pub mod offload;
pub mod peer;
pub mod place;
pub mod right;
pub mod rpc;
pub mod session;
pub mod snapshot;
pub mod socket;
pub mod store;
pub mod stream;
pub mod table;
pub mod wire;

/// Version of the session protocol and of every layout in this crate; both sides must match.
pub const VERSION: u16 = 1;

//! What both planes agree on: records, codes, layouts and limits.
//!
//! One truth for the control plane, the stubs and every other language. No unsafe code, no
//! dependencies, no I/O: only fixed-width numbers, their places, and the checks that turn
//! foreign bytes into values. Byte order is little-endian throughout.
#![forbid(unsafe_code)]

pub mod channel;
pub mod code;
pub mod delegated;
pub mod limits;
pub mod name;
pub mod node;
pub mod place;
pub mod queue;
pub mod record;
pub mod region;
pub mod region_name;
pub mod region_scope;
pub mod report;
pub mod restriction;
pub mod right;
pub mod snapshot;
pub mod table;
pub mod wire;

/// Version of the session protocol and of every layout in this crate; both sides must match.
pub const VERSION: u16 = 1;

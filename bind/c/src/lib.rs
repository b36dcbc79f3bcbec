//! The C interface: rings, snapshots, delegated operations, memory regions, locks, remote procedure calls, logs, queues and areas, with ownership and nulls checked at the border and no logic of its own.
//!
//! Every function catches panics, checks its pointers in release builds too, and answers with a
//! `heliostat_code`. A handle belongs to one thread at a time; a reserved or taken element belongs
//! to the handle until it is committed or released.
#![warn(missing_docs)]

mod area_queue;
mod border;
mod code;
mod delegated;
mod joint;
mod lock;
mod log;
mod log_append;
mod log_reader;
mod memory;
mod memory_bytes;
mod memory_operations;
mod memory_pieces;
mod memory_spread;
mod names;
mod operations;
mod pending;
mod queue;
mod queue_push;
mod region;
mod ring;
mod rpc;
mod service;
mod snapshot;
mod store;

/// Its own system calls are not to be caught in a program that runs under Heliostat.
#[used]
#[link_section = ".note.heliostat"]
static EXEMPT: [u8; 24] = heliostat_base::exempt::NOTE;

pub use area_queue::*;
pub use border::heliostat_last_message;
pub use code::heliostat_code;
pub use delegated::*;
pub use joint::*;
pub use lock::*;
pub use log::*;
pub use log_append::*;
pub use log_reader::*;
pub use memory::*;
pub use memory_bytes::*;
pub use memory_operations::*;
pub use memory_pieces::*;
pub use memory_spread::*;
pub use names::*;
pub use operations::*;
pub use pending::*;
pub use queue::*;
pub use queue_push::*;
pub use region::*;
pub use ring::*;
pub use rpc::*;
pub use service::*;
pub use snapshot::*;
pub use store::*;

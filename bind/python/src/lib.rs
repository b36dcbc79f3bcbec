//! The extension module `heliostat._native`: snapshot and memory regions, locks, logs, areas, and calls of functions, for the Python package.
//!
//! Thin on purpose: it turns Python's arguments into the stub's and the stub's errors into the
//! package's exceptions. What arrays, data types and event loops are is known in
//! `python/heliostat/`; what versions are, in `heliostat_stub_snapshot`; what memory regions are, in
//! `heliostat_stub_memory`; what locks are, in `heliostat_stub_lock`; what logs are, in
//! `heliostat_stub_log`; what areas are, in `heliostat_stub_store`; what calls are, in `heliostat_stub_rpc`.
//!
//! - `buffer`: Python's buffer protocol, both ways
//! - `exported`: bytes that live as long as a buffer of them
//! - `region`, `attachment`, `version`: the three classes, each the base of one in Python
//! - `queue`, `item`: the producer of a queue and its slot, a consumer and its item
//! - `memory`, `memory_region`, `memory_spread`, `memory_access`: access to memory regions, one of them,
//!   one that is spread over nodes, and what both have alike
//! - `memory_bytes`, `memory_operations`: a region's bytes where they lie, and what completes later
//! - `lock`, `lock_held`: locks, semaphores and barriers that are open, and what is held of them
//! - `log`, `log_entry`, `log_payload`, `log_place`, `log_reader`: a log or queue that is open, an entry,
//!   what is appended, where it lies, and readers
//! - `area`: an area of a store that is open
//! - `rpc`, `rpc_function`, `rpc_service`, `rpc_call`: which functions there are, one that is called, one
//!   that is served, and a call of it
//! - `waiting`: how long a wait takes, and how often it looks for signals
//! - `lent`: a value together with what is borrowed from it
//! - `process`: what belongs to the process that made it, and forks
//! - `error`: which exception says what

mod area;
mod attachment;
mod buffer;
mod error;
mod exported;
mod item;
mod lent;
mod lock;
mod lock_held;
mod log;
mod log_entry;
mod log_payload;
mod log_place;
mod log_reader;
mod memory;
mod memory_access;
mod memory_bytes;
mod memory_operations;
mod memory_region;
mod memory_spread;
mod process;
mod queue;
mod region;
mod rpc;
mod rpc_call;
mod rpc_function;
mod rpc_service;
mod version;
mod waiting;

/// Its own system calls are not to be caught in a program that runs under Heliostat.
#[used]
#[link_section = ".note.heliostat"]
static EXEMPT: [u8; 24] = heliostat_base::exempt::NOTE;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::area::AreaHandle;
    #[pymodule_export]
    use super::attachment::Attachment;
    #[pymodule_export]
    use super::item::{Item, QueueConsumer};
    #[pymodule_export]
    use super::lock::{LockHandle, Locks};
    #[pymodule_export]
    use super::lock_held::LockHeld;
    #[pymodule_export]
    use super::log::LogHandle;
    #[pymodule_export]
    use super::log_entry::{LogEntry, LogPosition};
    #[pymodule_export]
    use super::log_reader::{LogEntries, LogReader};
    #[pymodule_export]
    use super::memory::Memory;
    #[pymodule_export]
    use super::memory_bytes::MemoryBytes;
    #[pymodule_export]
    use super::memory_operations::MemoryOperations;
    #[pymodule_export]
    use super::memory_region::MemoryRegion;
    #[pymodule_export]
    use super::memory_spread::SpreadRegion;
    #[pymodule_export]
    use super::process::{configure, forget_after_fork};
    #[pymodule_export]
    use super::queue::{Queue, Slot};
    #[pymodule_export]
    use super::region::Region;
    #[pymodule_export]
    use super::rpc::Rpc;
    #[pymodule_export]
    use super::rpc_call::RpcCall;
    #[pymodule_export]
    use super::rpc_function::{RpcFunction, RpcPending};
    #[pymodule_export]
    use super::rpc_service::RpcService;
    #[pymodule_export]
    use super::version::Version;
}

//! A namespace of an NVMe device, driven by the device's own commands (/dev/ngXnY).
//!
//! ```text
//! request -> commands of so many bytes at most -> io_uring (NVME_URING_CMD_IO) -> all have ended: its result
//!            a durable write has forced unit access: no flush
//! ```
//! The kernel's block layer is passed by: no page cache, no scheduler, no merging. What is sent is checked
//! by nobody but the device, so who may open it may do anything with it.

mod admin;
mod command;
mod ring;

pub(crate) use admin::Namespace;
pub(crate) use ring::{flush_now, transfer_now, try_out, NamespaceRing, Transfer};

/// Sectors that one command names at most.
const SECTORS_MAX: u64 = 1 << 16;
/// Bytes that one command moves at most: what every controller and every kernel takes.
const COMMAND_BYTES_MAX: u32 = 128 << 10;

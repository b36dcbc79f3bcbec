//! How a machine's cores are parted: for applications, for server loops, for interrupts.
//!
//! The control plane keeps the partition; `docs/cores.md` tells the whole. A word of the node page
//! ([`crate::session::node::PARTITION`]) changes with it, so that nobody asks who need not.

pub mod cpu_mask;
pub mod cpu_ranges;
pub mod limits;
pub mod reply;
pub mod request;

pub use cpu_mask::CpuMask;
pub use cpu_ranges::CpuRanges;
pub use reply::{CoresReply, CoresState, Means};
pub use request::{CoresRequest, Layout, Wanted};

//! The fence to the operating system: everything here is a thin, checked wrapper.
//!
//! Nothing in this crate goes through libc's system-call wrappers: the stub of an unmodified
//! program runs *underneath* libc, so a call made here must not be caught again.
#![warn(missing_docs)]

pub mod affinity;
pub mod alive;
pub mod bell;
pub mod call;
pub mod clock;
pub mod descriptor_limit;
pub mod event;
pub mod executor;
pub mod exempt;
pub mod fd;
pub mod flush_ring;
pub mod futex;
pub mod guarded;
#[cfg(not(loom))] // its words are those of one thread
pub mod heap;
pub mod load;
pub mod lock;
pub mod looking;
pub mod mapping;
pub mod membarrier;
pub mod memory_limits;
pub mod memory_node;
pub mod packet;
pub mod place;
pub mod placement;
pub mod process;
pub mod range_lock;
pub mod sleeper;
pub mod spin;
pub mod sync;
pub mod sys;
pub mod umask;
pub mod unforked;

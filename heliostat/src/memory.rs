//! Memory regions: bytes with a name, rights and a life of their own, shared by programs of the node.
//!
//! A region is allocated by one program and mapped by others. Programs of the same user read and write
//! it where it lies; those of other users, and sealed ones, have the control plane's server loop do it:
//! the calls are the same. A region ends with the last program that may manage it, unless it is
//! lasting; who still has a handle then is told so, and never meets another region's bytes.
//! `docs/memory.md` tells what is promised.
//!
//! ```no_run
//! use heliostat::control;
//! use heliostat::memory::{Memory, MemoryError, Rights};
//!
//! // One program.
//! control::configure_as_usual("cache");
//! let memory = Memory::open()?;
//! let cache = memory.allocate(1 << 30).name("kv/cache").make()?;
//! cache.write(4096, b"value")?;
//!
//! // Another one.
//! control::configure_as_usual("reader");
//! let memory = Memory::open()?;
//! let cache = memory.map("kv/cache", Rights::READ.and(Rights::ATOMIC))?;
//! let mut value = [0; 5];
//! cache.read(4096, &mut value)?;
//! let readers = cache.fetch_add(0, 1)?;
//!
//! // On node 2 of the cluster, by the same calls.
//! let far = memory.on(2).map("kv/cache", Rights::READ)?;
//! far.read(4096, &mut value)?;
//!
//! // What is asked for and not allowed is an error that says so, on every path.
//! assert!(matches!(cache.write(0, b"x"), Err(MemoryError::Denied { .. })));
//! # Ok::<(), MemoryError>(())
//! ```
//!
//! Without a control plane there are none:
//!
//! ```
//! use heliostat::control::{self, ControlError};
//! use heliostat::memory::{Memory, MemoryError};
//!
//! control::configure("/nonexistent/control.sock", "example");
//! let opened = Memory::open().map(drop);
//! assert!(matches!(opened, Err(MemoryError::Control(ControlError::NotRunning(_)))));
//! ```

pub use heliostat_stub_memory::*;

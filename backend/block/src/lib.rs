//! Block devices behind one narrow interface: a file or a disk, memory, and devices that fail.
//!
//! ```text
//! begin(token, request) ---> under way --- reap ---> (token, outcome)
//! ```
//!
//! An operation owns what the device touches: a share of the mapping that holds its bytes. Operations
//! that are under way together are done in any order, and a crash may leave any of those that were not
//! yet followed by a flush done, undone, or done in part (in whole sectors). What a flush that has
//! completed covers is exactly what had *completed* when the flush was begun; of a durable write,
//! itself. Who needs an order waits.
//!
//! | device | what for |
//! |---|---|
//! | [`FileDevice`] | a file or a disk; a namespace of an NVMe device by its own commands |
//! | [`MemoryDevice`] | tests, and what need not last |
//! | [`FaultDevice`] | another device, with faults by script or by seed |
//! | [`LatencyDevice`] | another device, slower |
//! | [`RecordingDevice`] | another device, and every crash of it |
//! | [`AreaDevice`] | a part of another device, which may lie in several places there |
//!
//! Rights, areas and formats are left to others.
// But for the commands of a namespace, which have addresses of this process in them.
#![deny(unsafe_code)]
#![warn(missing_docs)]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use heliostat_base::mapping::SharedMapping;

mod area;
mod check;
mod error;
mod extents;
mod fault;
mod file;
mod image;
mod latency;
mod memory;
mod namespace;
mod random;
mod record;

pub use area::AreaDevice;
pub use error::{BeginError, BlockError};
pub use extents::{Extents, Run};
pub use fault::{Fault, FaultDevice, Faults, Odds};
pub use file::{
    Costs, Driven, Durability, FileDevice, NewFile, NoCommands, OpenError, Options, SharedFile,
    CLAIMS,
};
pub use image::Image;
pub use latency::{Extra, LatencyDevice};
pub use memory::{MemoryDevice, Order};
pub use random::Random;
pub use record::{CrashState, CrashStates, Recorder, Recording, RecordingDevice};

/// What a device is like. It does not change while it is open, except that a file may be made longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes from 0 on that can be read and written; a multiple of `sector_bytes`.
    pub bytes: u64,
    /// What a crash leaves whole or untouched: 512 or 4096. Offsets and lengths are multiples of it.
    pub sector_bytes: u32,
    /// What memory has to be aligned to.
    pub memory_alignment: u32,
    /// Whether discarded bytes read as zero.
    pub discard_zeroes: bool,
}

/// Bytes of a mapping, for as long as an operation needs them.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The mapping, which stays mapped.
    pub memory: Arc<SharedMapping>,
    /// First byte, aligned as the geometry says.
    pub at: usize,
    /// Number of bytes; a multiple of the sector.
    pub bytes: usize,
}

/// What a device is asked to do.
#[derive(Clone, Debug)]
pub enum Request {
    /// Bytes from `offset` on into the buffer.
    Read {
        /// First byte on the device.
        offset: u64,
        /// Where they go.
        into: Buffer,
    },
    /// The buffer's bytes to `offset`.
    Write {
        /// First byte on the device.
        offset: u64,
        /// What is written. The memory may be changed meanwhile; which bytes are written then is open.
        from: Buffer,
        /// Whether they survive a loss of power when this completes (as by RWF_DSYNC).
        durable: bool,
    },
    /// Makes what had completed when this was begun survive a loss of power.
    Flush,
    /// Gives bytes back to the device; what they read as afterwards, the geometry says.
    Discard {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Makes bytes read as zero.
    Zero {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

/// How an operation ended. After an error of a write its sectors may hold the old or the new bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Of the operation.
    pub token: u64,
    /// Done as a whole, or why not.
    pub result: Result<(), BlockError>,
}

/// A device. One thread drives it.
pub trait Device: Send {
    /// What it is like.
    fn geometry(&self) -> Geometry;

    /// Operations that may be under way at once, at least 1.
    fn depth(&self) -> usize;

    /// Begins an operation. Does not block; it may wait to be handed on until the next `reap`.
    ///
    /// # Errors
    /// Full, or a range that is not the device's or not aligned: nothing was begun.
    fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError>;

    /// Hands on what was begun and takes what has completed, in any order, onto the end of
    /// `completions`. Waits for the first at most for `wait`, or not at all; returns at once where
    /// nothing is under way.
    ///
    /// # Errors
    /// The device as a whole has failed; nothing that is under way will complete.
    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError>;

    /// A descriptor that is readable while a `reap` would find something, for whoever sleeps elsewhere.
    /// A device that has none is looked at from time to time.
    fn event(&mut self) -> Option<Arc<OwnedFd>> {
        None
    }

    /// Lets go of a mapping that no operation will name any more. A device may have the kernel keep
    /// pages of what is transferred often, and keeps the mapping until it hears this.
    fn forget(&mut self, _memory: &Arc<SharedMapping>) {}
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }

    fn depth(&self) -> usize {
        (**self).depth()
    }

    fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        (**self).begin(token, request)
    }

    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        (**self).reap(wait, completions)
    }

    fn event(&mut self) -> Option<Arc<OwnedFd>> {
        (**self).event()
    }

    fn forget(&mut self, memory: &Arc<SharedMapping>) {
        (**self).forget(memory);
    }
}

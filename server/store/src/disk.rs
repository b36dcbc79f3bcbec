//! The loop's device, and which parts of operations it has.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::name::ObjectId;
use heliostat_backend_block::{BeginError, BlockError, Completion, Device, Geometry, Request};
use heliostat_base::mapping::SharedMapping;

use crate::bounce::{Bounce, BounceId};

/// Bytes under way from which on nothing more begins: what the device does in a few milliseconds.
const UNDER_WAY_BYTES: u64 = 4 << 20;

/// A part of an operation, as one request to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Of which operation.
    pub job: ObjectId,
    /// Of which area.
    pub area: ObjectId,
    /// Where it ends in the area; 0 of a flush.
    pub end: u64,
    /// How many bytes of the operation come before it.
    pub at: u64,
    /// Bytes between the device and memory.
    pub moved: u64,
    /// The memory, where that is not the window.
    pub bounce: Option<BounceId>,
}

impl Part {
    /// Whether it is a flush, which ends nowhere.
    pub fn is_flush(&self) -> bool {
        self.end == 0
    }
}

/// A device, and what it has.
pub struct Disk {
    device: Box<dyn Device>,
    /// By token.
    parts: Vec<Option<Part>>,
    free: Vec<usize>,
    bytes: u64,
    event: Option<Arc<OwnedFd>>,
    failed: Option<i32>,
    taken: Vec<Completion>,
    /// Memory for what cannot lie in a window.
    pub bounce: Bounce,
}

impl Disk {
    /// A device that has nothing under way.
    pub fn new(mut device: Box<dyn Device>) -> Disk {
        let (depth, event) = (device.depth(), device.event());
        Disk {
            device,
            parts: vec![None; depth],
            free: (0..depth).rev().collect(),
            bytes: 0,
            event,
            failed: None,
            taken: Vec::new(),
            bounce: Bounce::default(),
        }
    }

    /// What it is like.
    pub fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    /// The errno by which every operation fails, if the device is none or has failed.
    pub fn failure(&self) -> Option<i32> {
        let is_none = self.geometry().bytes == 0;
        self.failed.map(|_| libc::EIO).or(is_none.then_some(libc::ENODEV))
    }

    /// Whether another part may begin.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() && self.bytes < UNDER_WAY_BYTES
    }

    /// How many parts it has.
    pub fn under_way(&self) -> usize {
        self.parts.len() - self.free.len()
    }

    /// The parts that it has.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().flatten()
    }

    /// What is readable when something of it has ended.
    pub fn event(&self) -> Option<&Arc<OwnedFd>> {
        self.event.as_ref()
    }

    /// Begins a part.
    ///
    /// # Errors
    /// As [`Device::begin`]; of others than `Full` the part can never begin.
    pub fn begin(&mut self, part: Part, request: Request) -> Result<(), BeginError> {
        let Some(place) = self.free.last().copied() else {
            return Err(BeginError::Full { depth: self.parts.len() });
        };
        self.device.begin(place as u64, request)?;
        self.free.pop();
        self.parts[place] = Some(part);
        self.bytes += part.moved;
        Ok(())
    }

    /// Takes what has ended. Says what the device answered when it has failed as a whole, once: then
    /// everything has ended.
    pub fn collect(&mut self, ended: &mut Vec<(Part, Result<(), i32>)>) -> Option<i32> {
        if self.under_way() == 0 {
            return None;
        }
        let mut taken = std::mem::take(&mut self.taken);
        let reaped = self.device.reap(None::<Duration>, &mut taken);
        for Completion { token, result } in taken.drain(..) {
            let part = self.parts.get_mut(token as usize).and_then(Option::take);
            let Some(part) = part else { continue };
            self.free.push(token as usize);
            self.bytes -= part.moved;
            ended.push((part, result.map_err(errno_of)));
        }
        self.taken = taken;
        let errno = reaped.err().map(errno_of)?;
        self.fail(errno, ended);
        Some(errno)
    }

    /// Ends everything that it has, since nothing of it will complete.
    pub fn fail(&mut self, errno: i32, ended: &mut Vec<(Part, Result<(), i32>)>) {
        self.failed = Some(errno);
        let parts = self.parts.iter_mut().filter_map(Option::take);
        ended.extend(parts.map(|part| (part, Err(libc::EIO))));
        (self.free, self.bytes) = ((0..self.parts.len()).rev().collect(), 0);
    }

    /// Lets go of a window that nothing under way names.
    pub fn forget(&mut self, window: &Arc<SharedMapping>) {
        self.device.forget(window);
    }
}

fn errno_of(error: BlockError) -> i32 {
    match error {
        BlockError::Device { errno } if errno > 0 => errno,
        _ => libc::EIO,
    }
}

/// What a loop has before there is a store: every operation fails with ENODEV.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDevice;

impl Device for NoDevice {
    fn geometry(&self) -> Geometry {
        Geometry { bytes: 0, sector_bytes: 512, memory_alignment: 1, discard_zeroes: true }
    }

    fn depth(&self) -> usize {
        1
    }

    fn begin(&mut self, _: u64, _: Request) -> Result<(), BeginError> {
        Err(BeginError::Unsupported)
    }

    fn reap(&mut self, _: Option<Duration>, _: &mut Vec<Completion>) -> Result<(), BlockError> {
        Ok(())
    }
}

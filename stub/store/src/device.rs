//! An open area as a device of its own, by the way that it has.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::store::{DurableBy, StoreReply, StoreRequest, Way};
use heliostat_backend_block::{
    AreaDevice, BeginError, BlockError, Completion, Device, Durability, Extents, FileDevice,
    Geometry, OpenError, Options, Request,
};
use heliostat_base::mapping::SharedMapping;
use heliostat_base::range_lock::lock_for_reading;

use crate::ask::AskStore;
use crate::emulated::EmulatedDevice;
use crate::opened::Opened;
use crate::StoreError;

/// Operations that a device of an area has under way at most, unless another number is asked for.
pub const DEPTH: usize = 32;

/// An area as a device: one contiguous range from 0 to its size, as it was when this was made. One thread
/// drives it; others have devices of their own.
pub struct AreaIo {
    way: Way,
    ring: Option<i32>,
    own: [Option<i32>; 2],
    // Before the area, which is given back only when the device is driven no more.
    device: Box<dyn Device>,
    _opened: Arc<Opened>,
}

impl AreaIo {
    pub(crate) fn new(opened: &Arc<Opened>, options: Options) -> Result<AreaIo, StoreError> {
        let depth = options.depth.max(1);
        let (mut ring, mut own) = (None, [None; 2]);
        let device: Box<dyn Device> = match &opened.device {
            Some(device) => {
                let extents = opened.extents()?;
                let options = Options { depth, ..options };
                let driven = driven(opened, device, &extents, options)?;
                (ring, own) = (driven.descriptor(), driven.own_descriptors());
                // Pieces that do not lie on the device are the control plane's mistake.
                let area = AreaDevice::new(driven, extents);
                Box::new(area.map_err(|_| StoreError::Corrupt)?)
            }
            None => Box::new(EmulatedDevice::new(opened.shared.link()?, opened.clone(), depth)),
        };
        Ok(AreaIo { way: opened.is.way, ring, own, device, _opened: opened.clone() })
    }

    /// What is readable when something has completed that nobody has reaped, where there is such a
    /// thing: by the emulated way there is none.
    pub fn descriptor(&self) -> Option<i32> {
        self.ring
    }

    /// The descriptors that are this device's own, for who closes descriptors by their numbers.
    pub fn own_descriptors(&self) -> [Option<i32>; 2] {
        self.own
    }

    /// By which way it works, and why not by the direct one.
    pub fn way(&self) -> Way {
        self.way
    }
}

/// The device as a whole, with a queue of its own.
fn driven(
    opened: &Opened,
    device: &heliostat_base::fd::OwnedFd,
    extents: &Extents,
    options: Options,
) -> Result<FileDevice, StoreError> {
    for run in extents.runs() {
        // What the area has gained since it was granted is held like the rest, also over the end of the
        // control plane.
        lock_for_reading(device.as_fd(), run.offset, run.bytes).map_err(|errno| {
            let call = "fcntl(F_OFD_SETLK)";
            StoreError::NotDriven(OpenError::System { call, errno: errno.0 })
        })?;
    }
    let copy = device.duplicate().map_err(|errno| {
        StoreError::NotDriven(OpenError::System { call: "dup", errno: errno.0 })
    })?;
    let durability = Some(match opened.is.durable_by {
        DurableBy::Dsync => Durability::Dsync,
        DurableBy::Flush => Durability::Flush,
        DurableBy::DsyncAlone => Durability::DsyncAlone,
    });
    let options = Options { durability, ..options };
    let mut driven = FileDevice::adopt(copy.into(), options).map_err(StoreError::NotDriven)?;
    // A disk refuses what it does not take; a file would get holes, which its store may not want.
    if !driven.is_disk() && !gives_back(opened)? {
        driven.keep_discarded();
    }
    Ok(driven)
}

/// Whether the store gives back what is discarded.
fn gives_back(opened: &Opened) -> Result<bool, StoreError> {
    match opened.shared.control.ask_store(&StoreRequest::Store, &[])? {
        (StoreReply::Store(info), _) => Ok(info.does_discard),
        _ => Err(StoreError::Corrupt),
    }
}

impl Device for AreaIo {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn depth(&self) -> usize {
        self.device.depth()
    }

    fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        self.device.begin(token, request)
    }

    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        self.device.reap(wait, completions)
    }

    fn event(&mut self) -> Option<Arc<OwnedFd>> {
        self.device.event()
    }

    fn forget(&mut self, memory: &Arc<SharedMapping>) {
        self.device.forget(memory);
    }
}

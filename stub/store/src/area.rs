//! An open area: what it is, and how this process reads and writes it.

use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};

use heliostat_abi::store::{
    Alone, AreaKind, AreaName, AreaRights, Creation, StoreRequest, Way, WayWanted,
};
use heliostat_backend_block::Options;

use crate::device::{AreaIo, DEPTH};
use crate::opened::Opened;
use crate::transfer::Transfer;
use crate::{Shared, StoreError, OWN_USER};

/// An open area. Dropped with the last of its devices, its handle is given back.
pub struct Area {
    pub(crate) opened: Arc<Opened>,
    pub(crate) place: Place,
    /// What blocking reads and writes go by, once there was one.
    pub(crate) transfer: Mutex<Option<Transfer>>,
}

/// By which words an area was opened.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) user: u32,
    pub(crate) name: AreaName,
    pub(crate) rights: AreaRights,
    pub(crate) way: WayWanted,
    pub(crate) alone: Alone,
}

impl Area {
    pub(crate) fn open(shared: &Arc<Shared>, place: Place) -> Result<Area, StoreError> {
        let opened = Opened::ask(shared, &place.request(place.way, place.alone))?;
        Ok(Area { opened: Arc::new(opened), place, transfer: Mutex::default() })
    }

    pub(crate) fn create(shared: &Arc<Shared>, creation: Creation) -> Result<Area, StoreError> {
        let Creation { name, rights, way, alone, .. } = creation.clone();
        let place = Place { user: OWN_USER, name, rights, way, alone };
        let opened = Opened::ask(shared, &StoreRequest::Create(creation))?;
        Ok(Area { opened: Arc::new(opened), place, transfer: Mutex::default() })
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.place.name.as_str()
    }

    /// Returns its size, as it was when it was opened, or became after a change by this handle.
    pub fn bytes(&self) -> u64 {
        self.opened.is.bytes
    }

    /// Returns what it is for.
    pub fn kind(&self) -> AreaKind {
        self.opened.is.kind
    }

    /// Returns what the handle allows.
    pub fn rights(&self) -> AreaRights {
        self.opened.is.rights
    }

    /// Returns by which way it is used, and why not by the direct one.
    pub fn way(&self) -> Way {
        self.opened.is.way
    }

    /// Returns what offsets and lengths are multiples of.
    pub fn sector_bytes(&self) -> u32 {
        self.opened.is.sector_bytes
    }

    /// Returns what its size is a multiple of.
    pub fn grain_bytes(&self) -> u32 {
        self.opened.is.grain_bytes
    }

    /// Returns what names it for ever: an area of the same name that is made later has another.
    pub fn generation(&self) -> u64 {
        self.opened.is.generation
    }

    /// Makes a device of it with [`DEPTH`] operations at once, which has its size and begins at 0. Each
    /// has a queue of its own; the area stays open as long as one is there.
    ///
    /// # Errors
    /// The control plane has ended or says no, or there is no way to drive the device.
    pub fn device(&self) -> Result<AreaIo, StoreError> {
        self.device_of(DEPTH)
    }

    /// The same with another number of operations at once, 1 at least.
    ///
    /// # Errors
    /// As `device`.
    pub fn device_of(&self, depth: usize) -> Result<AreaIo, StoreError> {
        self.device_with(Options { depth, ..Options::default() })
    }

    /// The same, where it also is said how a device is driven that this process has directly.
    ///
    /// # Errors
    /// As `device`.
    pub fn device_with(&self, options: Options) -> Result<AreaIo, StoreError> {
        AreaIo::new(&self.opened, options)
    }

    /// Whether the handle is still of use: by the emulated way it is not once the control plane, or the
    /// session, has ended. Two loads.
    pub fn is_kept(&self) -> bool {
        self.opened.device.is_some() || self.opened.shared.control.stands()
    }

    /// The descriptor that came with the handle, by the direct way; not one of its devices'.
    pub fn descriptor(&self) -> Option<i32> {
        self.opened.device.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Claims to be the only one who writes an area that is used directly, as logs have it; false where
    /// another process has claimed so and still has it, also since before this control plane began. By
    /// the emulated way there is nothing to claim. Who asks holds a lock that all who ask have agreed on.
    ///
    /// # Errors
    /// The control plane has ended, or the kernel tells nothing.
    pub fn claim_alone(&self) -> Result<bool, StoreError> {
        self.opened.claim_alone()
    }
}

impl Place {
    /// What asks for a handle.
    pub(crate) fn request(&self, way: WayWanted, alone: Alone) -> StoreRequest {
        let Place { user, rights, .. } = *self;
        StoreRequest::Open { user, name: self.name.clone(), rights, way, alone }
    }

    /// What asks for another handle, beside the one that is there: who has the area alone lets nobody
    /// in between.
    pub(crate) fn another(&self, way: WayWanted) -> StoreRequest {
        let alone = if self.alone.shuts_out() { Alone::Beside } else { Alone::No };
        self.request(way, alone)
    }
}

/// The name, if it is one.
pub(crate) fn named(name: &str) -> Result<AreaName, StoreError> {
    AreaName::parse(name).map_err(StoreError::Name)
}

//! Areas of durable storage: bytes with a name that last, for any program of the node.
//!
//! ```text
//! create, open --> control plane: handle, rights, way
//! direct     a queue of this process's own on the device, within the area's extents
//! emulated   window and rings: the server loop checks bounds, adds the offset, drives the device
//! ```
//!
//! Which way an area is used the control plane decides when it is opened, and says, with the reason where
//! it is not direct. An area is one device from 0 on, by either way: [`Area::device`] is a
//! `heliostat_backend_block::Device`, so that whatever works on a device works on an area. `docs/store.md`
//! tells the whole.
//!
//! The direct way goes on when the control plane has ended; by the other one operations then fail.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod area;
mod ask;
mod buffer;
mod change;
mod creation;
mod device;
mod emulated;
mod error;
mod link;
mod listing;
mod news;
mod opened;
mod pages;
mod part;
mod queue;
mod transfer;
mod waited;
mod watched;

use std::sync::{Arc, Mutex, PoisonError};

use heliostat_abi::store::{StoreReply, StoreRequest};
use heliostat_client::{session, OwnSession};

pub use area::Area;
pub use buffer::AreaBuffer;
pub use creation::NewArea;
pub use device::{AreaIo, DEPTH};
pub use error::StoreError;
pub use heliostat_abi::store::name::OWN_USER;
pub use heliostat_abi::store::{
    Alone, AreaKind, AreaRights, DurableBy, ListedArea, NotDone, OpenedArea, Spill, StoreInfo, Way,
    WayWanted, Why,
};
pub use heliostat_backend_block::{
    BeginError, BlockError, Buffer, Completion, Device, Geometry, Options, Request,
};
pub use queue::{AreaQueue, Ended};

use ask::AskStore;
use link::Link;

/// This process's access to the store, in one session with the control plane. Clones are the same.
///
/// A child of a fork connects by itself: handles are its parent's.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// What the areas of one session share.
pub(crate) struct Shared {
    pub(crate) control: OwnSession,
    link: Mutex<Option<Arc<Link>>>,
}

impl Store {
    /// Connects, where `session::configure` or `heliostat run` has said that the control plane is.
    ///
    /// # Errors
    /// No control plane answers.
    pub fn connect() -> Result<Store, StoreError> {
        // A session that has ended is noticed here, so that the next one is asked.
        session::check_alive();
        let control = OwnSession::new(session::standing().map_err(StoreError::Control)?);
        Ok(Store { shared: Arc::new(Shared { control, link: Mutex::new(None) }) })
    }

    /// Begins to say what a new area of so many bytes is to be; [`NewArea::make`] makes it. Its bytes
    /// are zero.
    pub fn create<'a>(&'a self, name: &'a str, bytes: u64) -> NewArea<'a> {
        NewArea::new(self, name, bytes)
    }

    /// Opens the area of this name, among those of this process's user, by the direct way where that is
    /// to be had. All of the rights are granted, or nothing.
    ///
    /// # Errors
    /// No area has the name, a rule or its owner says no, or a limit is reached.
    pub fn open(&self, name: &str, rights: AreaRights) -> Result<Area, StoreError> {
        self.open_of(OWN_USER, name, rights, WayWanted::Any)
    }

    /// The same, among the areas of a user, by a way. `Direct` is refused where that is not to be had.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_of(
        &self,
        user: u32,
        name: &str,
        rights: AreaRights,
        way: WayWanted,
    ) -> Result<Area, StoreError> {
        self.open_as(user, name, rights, way, Alone::No)
    }

    /// Opens an area for this session alone, by any way: as long as it is open no other session opens
    /// it to write or manage it; readers come and go.
    ///
    /// # Errors
    /// As `open_of`; or another session has it alone, or may write it: the error names its process.
    pub fn open_exclusive(
        &self,
        user: u32,
        name: &str,
        rights: AreaRights,
        way: WayWanted,
    ) -> Result<Area, StoreError> {
        self.open_as(user, name, rights, way, Alone::Yes)
    }

    fn open_as(
        &self,
        user: u32,
        name: &str,
        rights: AreaRights,
        way: WayWanted,
        alone: Alone,
    ) -> Result<Area, StoreError> {
        let name = area::named(name)?;
        Area::open(&self.shared, area::Place { user, name, rights, way, alone })
    }

    /// Returns what the store is, and how much of it is free.
    ///
    /// # Errors
    /// No control plane answers. That there is no store is an answer.
    pub fn info(&self) -> Result<StoreInfo, StoreError> {
        match self.shared.control.ask_store(&StoreRequest::Store, &[])? {
            (StoreReply::Store(info), _) => Ok(info),
            _ => Err(StoreError::Corrupt),
        }
    }
}

impl Shared {
    /// This process's session with a server loop, which begins at its first use.
    pub(crate) fn link(&self) -> Result<Arc<Link>, StoreError> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = &*link {
            return Ok(link.clone());
        }
        let begun = Arc::new(Link::begin(&self.control)?);
        Ok(link.insert(begun).clone())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let link = self.link.get_mut().unwrap_or_else(PoisonError::into_inner);
        if link.take().is_some() {
            // A session that has ended delegates nothing.
            let _ = self.control.tell_store(&StoreRequest::EndSession);
        }
    }
}

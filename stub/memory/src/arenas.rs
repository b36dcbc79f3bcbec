//! The arenas that this process has mapped, and the areas that regions are in them.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use heliostat_abi::memory::limits::{PIECES_MAX, REGIONS_MAX, REGION_PAGE_BYTES};
use heliostat_abi::memory::page::{word, State};
use heliostat_abi::memory::presence::PRESENCE_BYTES;
use heliostat_abi::memory::{Granted, MemoryReply, MemoryRequest};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::{Access, MappingError, SharedMapping};
use heliostat_base::membarrier;
use heliostat_client::OwnSession;
use heliostat_ring::presence::Presence;
use heliostat_ring::region_page::RegionPage;
use heliostat_ring::Area;

use super::MemoryError;
use crate::ask::AskMemory;

/// Locates that are made over because the region changed in between.
const TRIES_MAX: usize = 8;

/// Mapped arenas by name. Those that no region uses any more go when another one comes.
#[derive(Default)]
pub(crate) struct Arenas(HashMap<ObjectId, Arc<SharedMapping>>);

/// Where the bytes of a region lie, and the epoch for which that holds.
pub(crate) struct Placed {
    pub(crate) epoch: u32,
    /// What the region's word is as long as that holds.
    pub(crate) word: u64,
    pub(crate) area: Area,
}

impl Arenas {
    /// Finds the area of a region that was granted; asks for the pieces that the answer had no room
    /// for, and maps arenas that are new.
    pub(crate) fn place(
        &mut self,
        control: &OwnSession,
        granted: Granted,
    ) -> Result<Placed, MemoryError> {
        let handle = granted.handle;
        let mut known = granted;
        for _ in 0..TRIES_MAX {
            let whole = whole_of(control, known)?;
            let placed = self.place_whole(control, &whole);
            let Err(error) = placed else { return placed };
            // An arena is gone that the region lay in before it has moved.
            known = control.grant(&MemoryRequest::Locate { handle, from: 0 })?;
            if known.epoch == whole.epoch {
                return Err(error);
            }
        }
        Err(MemoryError::Corrupt)
    }

    /// Unmaps the arenas that no region uses any more.
    pub(crate) fn forget_unused(&mut self) {
        self.0.retain(|_, arena| Arc::strong_count(arena) > 1);
    }

    fn place_whole(
        &mut self,
        control: &OwnSession,
        whole: &Granted,
    ) -> Result<Placed, MemoryError> {
        let mut pieces = Vec::with_capacity(whole.pieces.len());
        for piece in &whole.pieces {
            pieces.push((self.arena(control, piece.arena)?, piece.offset, piece.bytes));
        }
        let area = Area::new(pieces, whole.bytes).map_err(|_| MemoryError::Corrupt)?;
        let epoch = whole.epoch;
        Ok(Placed { epoch, word: word(whole.region, State::Live, epoch), area })
    }

    fn arena(
        &mut self,
        control: &OwnSession,
        id: ObjectId,
    ) -> Result<Arc<SharedMapping>, MemoryError> {
        if let Some(known) = self.0.get(&id) {
            return Ok(known.clone());
        }
        let (reply, fds) = control.ask_own(&MemoryRequest::Arena { arena: id }, &[])?;
        let (MemoryReply::Arena { bytes }, [fd]) = (reply, fds.as_slice()) else {
            return Err(MemoryError::Corrupt);
        };
        let len = usize::try_from(bytes).map_err(|_| MemoryError::Corrupt)?;
        let mapped = SharedMapping::from_fd(fd.as_raw_fd(), len, Access::ReadWrite);
        let mapped = Arc::new(mapped.map_err(MemoryError::Mapping)?);
        self.forget_unused();
        self.0.insert(id, mapped.clone());
        Ok(mapped)
    }
}

/// Maps the region page.
pub(crate) fn map_page(control: &OwnSession) -> Result<RegionPage, MemoryError> {
    let (reply, fds) = control.ask_own(&MemoryRequest::RegionPage, &[])?;
    let (MemoryReply::Page { places }, [fd]) = (reply, fds.as_slice()) else {
        return Err(MemoryError::Corrupt);
    };
    if places != REGIONS_MAX as u64 {
        return Err(MemoryError::Corrupt);
    }
    let mapped = SharedMapping::from_fd(fd.as_raw_fd(), REGION_PAGE_BYTES, Access::Read);
    Ok(RegionPage::new(Arc::new(mapped.map_err(MemoryError::Mapping)?)))
}

/// Maps this session's presence page.
pub(crate) fn map_presence(control: &OwnSession) -> Result<Presence, MemoryError> {
    // Before it is said: from then on the control plane's fences reach this process's threads.
    let is_registered = membarrier::register().is_ok();
    let request = MemoryRequest::Presence { fenced: is_registered };
    let (reply, fds) = control.ask_own(&request, &[])?;
    let (MemoryReply::Presence(fenced), [fd]) = (reply, fds.as_slice()) else {
        return Err(MemoryError::Corrupt);
    };
    let mapped = SharedMapping::from_fd(fd.as_raw_fd(), PRESENCE_BYTES, Access::ReadWrite);
    let mapped = mapped.map_err(MemoryError::Mapping)?;
    let presence = Presence::new(Arc::new(mapped), fenced && is_registered);
    let system = |errno| MemoryError::Mapping(MappingError::System { call: "mmap", errno });
    presence.map_err(system)?.ok_or(MemoryError::Corrupt)
}

/// All pieces of a region at one epoch.
fn whole_of(control: &OwnSession, granted: Granted) -> Result<Granted, MemoryError> {
    let handle = granted.handle;
    let mut whole = granted;
    for _ in 0..TRIES_MAX * PIECES_MAX {
        let from = whole.pieces.len() as u32;
        if whole.from == 0 && from == whole.pieces_all {
            return Ok(whole);
        }
        let part = control.grant(&MemoryRequest::Locate { handle, from })?;
        let goes_on = part.epoch == whole.epoch && part.from == from && !part.pieces.is_empty();
        if goes_on {
            whole.pieces.extend(part.pieces);
        } else {
            whole = control.grant(&MemoryRequest::Locate { handle, from: 0 })?;
        }
    }
    Err(MemoryError::Corrupt)
}

//! A table of handles on regions of this node: by handle the region, what may be done, where it lies.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use heliostat_abi::memory::page::State;
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Area, RegionPage};

use super::memories::Farewell;
use super::message::Hold;

/// The handles of a session of a loop, or of a user of another node.
#[derive(Default)]
pub struct HeldTable {
    held: HashMap<ObjectId, Held>,
    by_region: HashMap<ObjectId, HashSet<ObjectId>>,
}

struct Held {
    region: ObjectId,
    rights: Rights,
    area: Arc<Area>,
    epoch: u32,
    /// Tells the control plane when the handle is released; nothing where it releases it itself.
    _farewell: Option<Farewell>,
}

/// Why a handle leads nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The operation ends with this errno.
    Errno(i32),
    /// It waits: this region is on its way to other pieces, or the order that says to which is.
    Moves(ObjectId),
    /// There is no such handle, unless the order that brings it is on its way.
    Unknown,
}

impl HeldTable {
    /// Finds where the region of a handle lies, if it may be used so.
    pub fn find(
        &self,
        page: &RegionPage,
        handle: ObjectId,
        wanted: Rights,
    ) -> Result<&Area, Refusal> {
        let held = self.held.get(&handle).ok_or(Refusal::Unknown)?;
        match page.state(held.region) {
            (State::Live, epoch) if epoch == held.epoch => {}
            (State::Live | State::Moving, _) => return Err(Refusal::Moves(held.region)),
            (State::Gone, _) => return Err(Refusal::Errno(libc::ESTALE)),
        }
        if !held.rights.have(wanted) {
            return Err(Refusal::Errno(libc::EACCES));
        }
        Ok(&held.area)
    }

    /// Takes a handle in; one of the same name makes way for it. Returns the region that one was on.
    pub fn insert(&mut self, hold: Hold, farewell: Option<Farewell>) -> Option<ObjectId> {
        let Hold { handle, region, rights, area, epoch, .. } = hold;
        let before = self.remove(handle);
        self.by_region.entry(region).or_default().insert(handle);
        self.held.insert(handle, Held { region, rights, area, epoch, _farewell: farewell });
        before
    }

    /// Forgets a handle; returns its region.
    pub fn remove(&mut self, handle: ObjectId) -> Option<ObjectId> {
        let held = self.held.remove(&handle)?;
        if let Some(all) = self.by_region.get_mut(&held.region) {
            all.remove(&handle);
            if all.is_empty() {
                self.by_region.remove(&held.region);
            }
        }
        Some(held.region)
    }

    /// A region lies elsewhere.
    pub fn place(&mut self, region: ObjectId, area: &Arc<Area>, epoch: u32) {
        for handle in self.by_region.get(&region).into_iter().flatten() {
            if let Some(held) = self.held.get_mut(handle) {
                (held.area, held.epoch) = (area.clone(), epoch);
            }
        }
    }

    /// Forgets the handles on a region.
    pub fn lose(&mut self, region: ObjectId) {
        for handle in self.by_region.remove(&region).into_iter().flatten() {
            self.held.remove(&handle);
        }
    }
}

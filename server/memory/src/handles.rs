//! What one session holds on its loop: by handle the region, what may be done, and where it lies.

use std::collections::HashMap;
use std::sync::Arc;

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::memory::operation::CopySource;
use heliostat_abi::memory::page::State;
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Area, PerSession, RegionPage};

use super::message::{Farewell, Hold};

/// The handles of a session, and its operations that wait or go on.
#[derive(Default)]
pub struct Handles {
    held: HashMap<ObjectId, Held>,
    by_region: HashMap<ObjectId, Vec<ObjectId>>,
    /// Operations that wait until a region lies where it goes: region and operation.
    waits: Vec<(ObjectId, ObjectId)>,
    /// Operations that have waited and look again.
    woken: Vec<ObjectId>,
    /// Where copies that go on for several turns come from: their words were read once.
    copies: HashMap<ObjectId, CopySource>,
}

struct Held {
    region: ObjectId,
    rights: Rights,
    area: Arc<Area>,
    _farewell: Farewell,
}

/// Why a handle leads nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The operation ends with this errno.
    Errno(i32),
    /// It waits: this region is on its way to other pieces.
    Moves(ObjectId),
}

impl Handles {
    /// Finds where the region of a handle lies, if it may be used so.
    pub(crate) fn find(
        &self,
        page: &RegionPage,
        handle: ObjectId,
        wanted: Rights,
    ) -> Result<&Area, Refusal> {
        let held = self.held.get(&handle).ok_or(Refusal::Errno(libc::EBADF))?;
        match page.state(held.region).0 {
            State::Live => {}
            State::Moving => return Err(Refusal::Moves(held.region)),
            State::Gone => return Err(Refusal::Errno(libc::ESTALE)),
        }
        if !held.rights.have(wanted) {
            return Err(Refusal::Errno(libc::EACCES));
        }
        Ok(&held.area)
    }

    /// Takes a handle in; one of the same name makes way for it.
    pub(crate) fn insert(&mut self, hold: Hold, farewell: Farewell) {
        let Hold { handle, region, rights, area, .. } = hold;
        self.remove(handle);
        self.by_region.entry(region).or_default().push(handle);
        self.held.insert(handle, Held { region, rights, area, _farewell: farewell });
    }

    /// Forgets a handle.
    pub(crate) fn remove(&mut self, handle: ObjectId) {
        let Some(held) = self.held.remove(&handle) else { return };
        if let Some(all) = self.by_region.get_mut(&held.region) {
            all.retain(|other| *other != handle);
            if all.is_empty() {
                self.by_region.remove(&held.region);
            }
        }
        self.wake(held.region);
    }

    /// A region lies elsewhere.
    pub(crate) fn place(&mut self, region: ObjectId, area: &Arc<Area>) {
        for handle in self.by_region.get(&region).into_iter().flatten() {
            if let Some(held) = self.held.get_mut(handle) {
                held.area = area.clone();
            }
        }
        self.wake(region);
    }

    /// An operation waits for a region.
    pub(crate) fn wait(&mut self, region: ObjectId, operation: ObjectId) {
        self.waits.push((region, operation));
    }

    /// Where a copy that goes on comes from.
    pub(crate) fn copy_source(&self, operation: ObjectId) -> Option<CopySource> {
        self.copies.get(&operation).copied()
    }

    /// Keeps that for its next turn.
    pub(crate) fn keep_copy_source(&mut self, operation: ObjectId, source: CopySource) {
        self.copies.insert(operation, source);
    }

    /// The operations that no longer wait for a region, each once.
    pub(crate) fn take_woken(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.woken)
    }

    fn wake(&mut self, region: ObjectId) {
        let waited = self.waits.iter().filter(|(its, _)| *its == region);
        self.woken.extend(waited.map(|(_, operation)| *operation));
        self.waits.retain(|(its, _)| *its != region);
    }
}

impl PerSession for Handles {
    fn ended(&mut self, kind: OpKind, operation: ObjectId) {
        if !self.waits.is_empty() {
            self.waits.retain(|(_, waiting)| *waiting != operation);
        }
        if kind == OpKind::Copy {
            self.copies.remove(&operation);
        }
    }
}

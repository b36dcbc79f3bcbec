//! What one session holds on its loop, here and on other nodes, and its operations that wait or go on.

use std::collections::HashMap;
use std::sync::Arc;

use heliostat_abi::cluster::Class;
use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::memory::operation::CopySource;
use heliostat_abi::memory::Rights;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Area, PerSession, RegionPage};
use heliostat_service_grant::Meter;

use super::elsewhere::Elsewhere;
use super::held::{HeldTable, Refusal};
use super::memories::Farewell;
use super::message::Hold;

/// The handles of a session, and its operations that wait or go on.
#[derive(Default)]
pub struct Handles {
    table: HeldTable,
    /// Its handles on regions of other nodes, and what is on the way there.
    pub(crate) elsewhere: Elsewhere,
    /// Operations that wait until a region lies where it goes: region and operation.
    waits: Vec<(ObjectId, ObjectId)>,
    /// Operations that have waited and look again.
    woken: Vec<ObjectId>,
    /// Operations by handles that were unknown, and how often orders had been looked for by then.
    doubts: HashMap<ObjectId, u64>,
    /// Where copies that go on for several turns come from: their words were read once.
    copies: HashMap<ObjectId, CopySource>,
    /// How much may be done by a handle, where its region's name has a rate.
    meters: HashMap<ObjectId, Meter>,
    /// How urgent is what is done by handles on other nodes, where that is not normal.
    classes: HashMap<ObjectId, Class>,
}

impl Handles {
    /// Finds where the region of a handle lies, if it may be used so.
    pub(crate) fn find(
        &self,
        page: &RegionPage,
        handle: ObjectId,
        wanted: Rights,
    ) -> Result<&Area, Refusal> {
        self.table.find(page, handle, wanted)
    }

    /// Takes a handle in; one of the same name makes way for it.
    pub(crate) fn insert(&mut self, hold: Hold, farewell: Farewell) {
        let before = self.table.insert(hold, Some(farewell));
        before.into_iter().for_each(|region| self.wake(region));
    }

    /// So much may be done by a handle, which may come after this.
    pub(crate) fn limit(&mut self, handle: ObjectId, meter: Meter) {
        self.meters.insert(handle, meter);
    }

    /// What is done by a handle, which may come after this, is so urgent.
    pub(crate) fn set_class(&mut self, handle: ObjectId, class: Class) {
        match class {
            Class::Normal => self.classes.remove(&handle),
            _ => self.classes.insert(handle, class),
        };
    }

    /// How urgent is what is done by a handle.
    pub(crate) fn class_of(&self, handle: ObjectId) -> Class {
        self.classes.get(&handle).copied().unwrap_or_default()
    }

    /// Forgets a handle that was given back.
    pub(crate) fn give_back(&mut self, handle: ObjectId) {
        self.meters.remove(&handle);
        self.classes.remove(&handle);
        self.remove(handle);
    }

    /// Forgets a handle.
    pub(crate) fn remove(&mut self, handle: ObjectId) {
        self.elsewhere.remove(handle);
        if let Some(region) = self.table.remove(handle) {
            self.wake(region);
        }
    }

    /// A region lies elsewhere.
    pub(crate) fn place(&mut self, region: ObjectId, area: &Arc<Area>, epoch: u32) {
        self.table.place(region, area, epoch);
        self.wake(region);
    }

    /// Forgets the handles on a region.
    pub(crate) fn lose(&mut self, region: ObjectId) {
        self.table.lose(region);
        self.wake(region);
    }

    /// Says whether a handle that is unknown to an operation is none, with orders looked for so often:
    /// those that may bring it have been carried out since the operation was first asked about.
    pub(crate) fn is_none(&mut self, operation: ObjectId, looks: u64) -> bool {
        *self.doubts.entry(operation).or_insert(looks) != looks
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
        self.elsewhere.ended(operation);
        if !self.waits.is_empty() {
            self.waits.retain(|(_, waiting)| *waiting != operation);
        }
        if !self.doubts.is_empty() {
            self.doubts.remove(&operation);
        }
        if kind == OpKind::Copy {
            self.copies.remove(&operation);
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.elsewhere.next_ns()
    }

    fn meters(&self, object: ObjectId, operation: Option<ObjectId>) -> [Option<&Meter>; 2] {
        if self.meters.is_empty() {
            return [None, None];
        }
        // Also for where a copy comes from, unless that is the same.
        let source = operation.and_then(|it| self.copies.get(&it)).map(|copy| copy.handle);
        let source = source.filter(|source| *source != object);
        [self.meters.get(&object), source.and_then(|source| self.meters.get(&source))]
    }
}

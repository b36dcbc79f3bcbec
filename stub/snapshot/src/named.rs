//! Regions by name: published and found through the control plane.
//!
//! A program that does not run under `heliostat run` says first where the control plane is
//! (`session::configure`).

use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;

use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Request;
use heliostat_abi::snapshot::region::{RegionName, OWN_USER};
use heliostat_client::session;

use super::consumer::Attachment;
use super::naming::{join, take_name, tell, Holding, NamedError};
use super::pool::PinsPage;
use super::region::Region;

/// A region that consumers find by its name, until this is dropped or the session ends. A region
/// that lost its control plane goes on for the consumers it has.
pub struct NamedRegion {
    region: Region,
    name: RegionName,
    id: ObjectId,
    generation: u64,
    epoch: u64,
}

/// Gives a region its name.
pub fn publish_as(name: &str, mut region: Region) -> Result<NamedRegion, NamedError> {
    let (held, door) = take_name(name, region.descriptors())?;
    let Holding { name, id, generation, epoch } = held;
    region.door = Some(door);
    Ok(NamedRegion { region, name, id, generation, epoch })
}

impl NamedRegion {
    /// Its name.
    pub fn name(&self) -> &RegionName {
        &self.name
    }

    /// Counts the producers of this name; 1 for the first.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Deref for NamedRegion {
    type Target = Region;
    fn deref(&self) -> &Region {
        &self.region
    }
}

impl DerefMut for NamedRegion {
    fn deref_mut(&mut self) -> &mut Region {
        &mut self.region
    }
}

impl Drop for NamedRegion {
    fn drop(&mut self) {
        tell(self.epoch, &Request::Unpublish { region: self.id });
    }
}

/// Attaches to a region of this process's own user.
pub fn attach(name: &str) -> Result<Attachment, NamedError> {
    attach_of(name, OWN_USER)
}

/// Attaches to a region of user `owner`, which takes a rule.
pub fn attach_of(name: &str, owner: u32) -> Result<Attachment, NamedError> {
    attach_to(RegionName::parse(name).map_err(NamedError::Name)?, owner)
}

impl Attachment {
    /// Asks who has the region's name now: `None` while it is the producer of this attachment, and
    /// else an attachment to the next one. What this one shows stays as it is. A region that was
    /// not found by name has no successor. Asks the control plane, so it blocks for a moment.
    ///
    /// # Errors
    /// `Refused` with `NotFound` when the producer is gone and there is no other yet.
    pub fn successor(&self) -> Result<Option<Attachment>, NamedError> {
        let Some(known) = &self.0.membership else { return Ok(None) };
        let now = attach_to(known.name.clone(), known.owner)?;
        let is_same = session::epoch() == Some(known.epoch) && now.generation() == known.generation;
        Ok((!is_same).then_some(now))
    }
}

fn attach_to(name: RegionName, owner: u32) -> Result<Attachment, NamedError> {
    let (page, bell, pins) = PinsPage::create_with_bell().map_err(NamedError::Memory)?;
    let (membership, [table, pool]) = join(name, owner, [page.as_raw_fd(), bell.as_raw_fd()])?;
    Attachment::map(&table, pool, pins, Some(membership)).map_err(NamedError::Memory)
}

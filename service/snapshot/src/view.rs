//! What can be read of the snapshot service without changing it.

use heliostat_abi::code::Thing;
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Quota;

use crate::snapshot::{Key, Snapshot};

/// A named region, for status and rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionView {
    /// Its identity.
    pub id: ObjectId,
    /// Its name and the user it belongs to.
    pub key: Key,
    /// Counts the producers of the name.
    pub generation: u64,
    /// Session of the producer.
    pub producer: ObjectId,
    /// Consumers attached.
    pub consumers: Vec<ObjectId>,
}

/// A consumer's two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConsumerView {
    /// Its session.
    pub session: ObjectId,
    /// The region; it may have ended.
    pub region: ObjectId,
}

/// What one session holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// Regions it has named.
    pub regions: usize,
    /// Regions it is attached to.
    pub attachments: usize,
}

impl Snapshot {
    /// One region.
    pub fn region(&self, id: ObjectId) -> Option<RegionView> {
        let region = self.regions.get(id)?;
        Some(RegionView {
            id,
            key: region.key.clone(),
            generation: self.names.get(&region.key).map_or(0, |standing| standing.generation),
            producer: self.regions.session(id)?,
            consumers: region.consumers.iter().copied().collect(),
        })
    }

    /// Every region, in order of index.
    pub fn regions(&self) -> impl Iterator<Item = RegionView> + '_ {
        self.regions.iter().filter_map(|(id, _)| self.region(id))
    }

    /// One consumer.
    pub fn consumer(&self, id: ObjectId) -> Option<ConsumerView> {
        let region = self.consumers.get(id)?.region;
        Some(ConsumerView { session: self.consumers.session(id)?, region })
    }

    /// Regions that have a name.
    pub fn region_count(&self) -> usize {
        self.regions.len()
    }

    /// Attachments alive, those to ended regions included.
    pub fn consumer_count(&self) -> usize {
        self.consumers.len()
    }

    /// Who has how much: regions, attachments.
    pub fn quotas(&self) -> [(Thing, &Quota); 2] {
        [self.regions.quota(), self.consumers.quota()]
    }

    /// What a session holds; nothing for one that never asked.
    pub fn holding(&self, session: ObjectId) -> Holding {
        Holding {
            regions: self.regions.count_of(session),
            attachments: self.consumers.count_of(session),
        }
    }
}

//! The state of the snapshot service: names, regions, consumers and what each session holds.
//!
//! Regions and attachments are grants (`heliostat_service_grant`): counted against a limit before
//! they are made, so that no sequence of requests grows a table. What is left of an ended region are its name's count of producers and, until they end,
//! its consumers.

use std::collections::{BTreeSet, HashMap, VecDeque};

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::limits::{
    ATTACHMENTS_MAX, FDS_PER_REPLY_MAX, JOINED_PER_REPLY_MAX, REGIONS_MAX,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::snapshot::memory::CONSUMERS_MAX;
use heliostat_abi::snapshot::region::{Change, Presence, RegionName};
use heliostat_service_grant::{Full, Grants, Holder, Limit, Revoked, Shares};

use crate::refusal::{Reason, Refusal};

/// Names without region and consumers of which the count of producers is kept.
pub const TOMBSTONES_MAX: usize = 1024;

/// A region's name among those of its user.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Key {
    /// User of the producer: nobody can take a name away from another user.
    pub uid: u32,
    /// The name.
    pub name: RegionName,
}

/// What one session, one user and the node may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Named regions of one session.
    pub regions_per_session: usize,
    /// Attachments of one session, to all regions together.
    pub attachments_per_session: usize,
    /// Named regions.
    pub regions: Shares,
    /// Attachments.
    pub attachments: Shares,
}

/// What the daemon has to carry out, in order, before it sends the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A consumer joined or left: bump the region's word.
    RegionChanged(ObjectId),
    /// The region has no name any more: close its descriptors.
    RegionFreed(ObjectId),
    /// The consumer is forgotten: close its page, if it is still there.
    ConsumerFreed(ObjectId),
}

/// A region that has got its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named {
    /// The region.
    pub region: ObjectId,
    /// Counts the producers of its name.
    pub generation: u64,
}

/// One answer to `changes`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Those that left come first.
    pub changes: Vec<Change>,
    /// Another request would bring more.
    pub more: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) key: Key,
    pub(crate) consumers: BTreeSet<ObjectId>,
    /// Of these the producer knows nothing yet, in the order of their coming.
    pub(crate) untold: VecDeque<ObjectId>,
    /// Of these it knows, and not that they left. Together with those that it knows to be there
    /// never more than `CONSUMERS_MAX`, since nobody joins in its eyes while this holds one.
    pub(crate) left: VecDeque<ObjectId>,
}

#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    pub(crate) region: ObjectId,
    pub(crate) key: Key,
}

/// What is kept for a name: also while only consumers, or nothing but the count, are left of it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Standing {
    pub(crate) generation: u64,
    pub(crate) region: Option<ObjectId>,
    /// Consumers of its regions, ended ones included.
    pub(crate) attached: usize,
}

/// The snapshot service.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) regions: Grants<Region>,
    pub(crate) consumers: Grants<Consumer>,
    pub(crate) names: HashMap<Key, Standing>,
    /// Names that have nothing but their count, oldest first.
    pub(crate) tombstones: VecDeque<Key>,
    pub(crate) revoked: Revoked,
}

impl Limits {
    fn regions(&self) -> Limit {
        Limit { per_session: self.regions_per_session, shares: self.regions }
    }

    fn attachments(&self) -> Limit {
        Limit { per_session: self.attachments_per_session, shares: self.attachments }
    }
}

impl Snapshot {
    /// A service that knows nobody yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            regions: Grants::new(Thing::Regions, REGIONS_MAX, limits.regions()),
            consumers: Grants::new(Thing::Attachments, ATTACHMENTS_MAX, limits.attachments()),
            names: HashMap::new(),
            tombstones: VecDeque::new(),
            revoked: Revoked::default(),
        }
    }

    /// New limits for what is asked from now on; what was granted stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.regions.set_limit(limits.regions());
        self.consumers.set_limit(limits.attachments());
    }

    /// Gives a region of `producer` its name. The caller has checked the rights.
    pub fn publish(
        &mut self,
        producer: ObjectId,
        holder: Holder,
        key: Key,
    ) -> Result<Named, Refusal> {
        self.revoked.check(producer)?;
        let known = self.names.get(&key).copied();
        if let Some(region) = known.and_then(|name| name.region) {
            return Err(Reason::Taken { region }.into());
        }
        let region = Region {
            key: key.clone(),
            consumers: BTreeSet::new(),
            untold: VecDeque::new(),
            left: VecDeque::new(),
        };
        let region = self.regions.grant(producer, holder, region)?;
        if known.is_some_and(|name| name.attached == 0) {
            self.tombstones.retain(|kept| *kept != key);
        }
        let standing = self.names.entry(key).or_default();
        standing.generation += 1;
        standing.region = Some(region);
        Ok(Named { region, generation: standing.generation })
    }

    /// The region that has a name now.
    pub fn resolve(&self, key: &Key) -> Option<Named> {
        let standing = self.names.get(key)?;
        let generation = standing.generation;
        standing.region.map(|region| Named { region, generation })
    }

    /// Attaches a session to a region. The caller has checked the rights.
    pub fn attach(
        &mut self,
        session: ObjectId,
        holder: Holder,
        region: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        self.revoked.check(session)?;
        let found = self.regions.get_mut(region).ok_or(Reason::NotFound)?;
        if found.consumers.len() >= CONSUMERS_MAX {
            return Err(Full::of(Thing::Attachments, Side::Object, CONSUMERS_MAX as u64).into());
        }
        let consumer = Consumer { region, key: found.key.clone() };
        let id = self.consumers.grant(session, holder, consumer)?;
        found.consumers.insert(id);
        found.untold.push_back(id);
        if let Some(standing) = self.names.get_mut(&found.key) {
            standing.attached += 1;
        }
        effects.push(Effect::RegionChanged(region));
        Ok(id)
    }

    /// Who joined and left that the producer was not told of; they count as told from now on.
    pub fn changes(&mut self, session: ObjectId, region: ObjectId) -> Result<Batch, Refusal> {
        let found = self.regions.get_held(session, region);
        let (found, ()) = found.ok_or(Reason::NotProducer { region })?;
        let mut changes = Vec::new();
        for (queue, state, most) in [
            (&mut found.left, Presence::Left, FDS_PER_REPLY_MAX),
            (&mut found.untold, Presence::Joined, JOINED_PER_REPLY_MAX),
        ] {
            let room = (FDS_PER_REPLY_MAX - changes.len()).min(queue.len()).min(most);
            changes.extend(queue.drain(..room).map(|consumer| Change { consumer, state }));
        }
        Ok(Batch { changes, more: !(found.left.is_empty() && found.untold.is_empty()) })
    }
}

//! How things end in the snapshot service: taking a name back, leaving, and a session's death.

use heliostat_abi::name::ObjectId;

use crate::refusal::{Reason, Refusal};
use crate::snapshot::{Effect, Key, Snapshot, TOMBSTONES_MAX};

impl Snapshot {
    /// Takes the name of a region of `session` back. Its consumers keep what they have mapped.
    pub fn unpublish(
        &mut self,
        session: ObjectId,
        region: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        if !self.regions.has(session, region) {
            return Err(Reason::NotProducer { region }.into());
        }
        self.free_region(region, effects);
        Ok(())
    }

    /// A consumer of `session` leaves. Also after its region has ended.
    pub fn detach(
        &mut self,
        session: ObjectId,
        region: ObjectId,
        consumer: ObjectId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        let found = self.consumers.get(consumer);
        let is_of_region = found.is_some_and(|found| found.region == region);
        if !is_of_region || !self.consumers.has(session, consumer) {
            return Err(Reason::NotAttached { consumer }.into());
        }
        self.free_consumer(consumer, effects);
        Ok(())
    }

    /// Ends a session: its regions lose their names, its attachments end.
    pub fn end(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        self.end_all_of(session, effects);
        self.revoked.forget(session);
    }

    /// Ends what the sessions hold; they get nothing new. Answers how many regions and attachments
    /// that were.
    pub fn revoke(&mut self, sessions: &[ObjectId], effects: &mut Vec<Effect>) -> usize {
        let mut count = 0;
        for session in sessions {
            count += self.end_all_of(*session, effects);
            self.revoked.insert(*session);
        }
        count
    }

    /// Consumers first: the word of a region that the same session produces says so, too.
    fn end_all_of(&mut self, session: ObjectId, effects: &mut Vec<Effect>) -> usize {
        let consumers: Vec<_> = self.consumers.of(session).collect();
        let regions: Vec<_> = self.regions.of(session).collect();
        let count = consumers.len() + regions.len();
        consumers.into_iter().for_each(|consumer| self.free_consumer(consumer, effects));
        regions.into_iter().for_each(|region| self.free_region(region, effects));
        count
    }

    fn free_region(&mut self, id: ObjectId, effects: &mut Vec<Effect>) {
        let Some(region) = self.regions.remove(id) else { return };
        if let Some(standing) = self.names.get_mut(&region.key) {
            standing.region = None;
        }
        effects.push(Effect::RegionFreed(id));
        // Nobody will ask for these pages any more.
        effects.extend(region.untold.into_iter().map(Effect::ConsumerFreed));
        self.bury(region.key);
    }

    fn free_consumer(&mut self, id: ObjectId, effects: &mut Vec<Effect>) {
        let Some(consumer) = self.consumers.remove(id) else { return };
        if let Some(region) = self.regions.get_mut(consumer.region) {
            region.consumers.remove(&id);
            let untold = region.untold.iter().position(|waiting| *waiting == id);
            match untold {
                Some(place) => drop(region.untold.remove(place)),
                None => region.left.push_back(id),
            }
            effects.push(Effect::RegionChanged(consumer.region));
        }
        effects.push(Effect::ConsumerFreed(id));
        if let Some(standing) = self.names.get_mut(&consumer.key) {
            standing.attached -= 1;
        }
        self.bury(consumer.key);
    }

    /// A name without region and consumers becomes a tombstone; the oldest makes room.
    fn bury(&mut self, key: Key) {
        let standing = self.names.get(&key);
        if !standing.is_some_and(|name| name.region.is_none() && name.attached == 0) {
            return;
        }
        self.tombstones.push_back(key);
        if self.tombstones.len() > TOMBSTONES_MAX {
            if let Some(oldest) = self.tombstones.pop_front() {
                self.names.remove(&oldest);
            }
        }
    }
}

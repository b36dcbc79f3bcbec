//! What can be read of the memory service without changing it.

use heliostat_abi::code::Thing;
use heliostat_abi::memory::limits::LISTED_PER_REPLY_MAX;
use heliostat_abi::memory::reply::NO_MORE;
use heliostat_abi::memory::{Listed, Piece};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Holder, Quota};

use crate::memory::{Memory, Region};

/// Places of the table that one answer to `list` looks at: every other session waits for it.
const LOOKED_AT_MAX: u32 = 4096;
/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// A region, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionView {
    /// What a list tells of it.
    pub listed: Listed,
    /// Of its handles, those that may manage it.
    pub managers: usize,
    /// Where its bytes lie.
    pub pieces: Vec<Piece>,
}

/// What one session holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// Handles.
    pub handles: usize,
    /// Of these, those whose operations a server loop carries out.
    pub delegated: usize,
    /// Of these, those whose region is gone.
    pub lost: usize,
}

impl Memory {
    /// Some regions from an index on that may be seen, and the index to go on from.
    pub fn list(
        &self,
        from: u32,
        beginning: &str,
        now_ns: u64,
        sees: impl Fn(u32) -> bool,
    ) -> (Vec<Listed>, u32) {
        let mut found = Vec::new();
        let end = self.regions.places() as u32;
        let last = end.min(from.saturating_add(LOOKED_AT_MAX));
        for index in from..last {
            let Some(id) = self.regions.id_at(index) else { continue };
            let Some(region) = self.regions.get(id) else { continue };
            let name = region.name.as_ref().map_or("", |name| name.as_str());
            if !sees(region.uid) || !name.starts_with(beginning) || region.is_staged {
                continue;
            }
            if found.len() == LISTED_PER_REPLY_MAX {
                return (found, index);
            }
            found.push(listed(id, region, now_ns));
        }
        (found, if last < end { last } else { NO_MORE })
    }

    /// One region.
    pub fn region(&self, id: ObjectId, now_ns: u64) -> Option<RegionView> {
        let region = self.regions.get(id)?;
        Some(RegionView {
            listed: listed(id, region, now_ns),
            managers: region.managers,
            pieces: region.pieces.clone(),
        })
    }

    /// Whose a region is, and whose share it counts against.
    pub fn owner(&self, id: ObjectId) -> Option<(u32, Holder)> {
        self.regions.get(id).map(|region| (region.uid, region.holder))
    }

    /// Regions that are there.
    pub fn region_count(&self) -> usize {
        self.regions.len()
    }

    /// Regions that are gone and whose bytes somebody may still touch.
    pub fn retired_count(&self) -> usize {
        self.retired.len()
    }

    /// How many arenas there are, and how many of their bytes regions have.
    pub fn arena_count(&self) -> (usize, u64) {
        self.arenas.count()
    }

    /// Regions with a name.
    pub fn name_count(&self) -> usize {
        self.names.len()
    }

    /// Who has how much: regions, handles, bytes, arenas.
    pub fn quotas(&self) -> [(Thing, &Quota); 4] {
        [
            (Thing::MemoryRegions, &self.region_quota),
            (Thing::MemoryHandles, self.handles.quota()),
            (Thing::MemoryBytes, &self.byte_quota),
            (Thing::MemoryArenas, self.arenas.quota()),
        ]
    }

    /// What a session holds; nothing for one that never asked.
    pub fn holding(&self, session: ObjectId) -> Holding {
        let Some(held) = self.handles.session(session) else { return Holding::default() };
        let count = |is_such: &dyn Fn(&crate::handles::Handle) -> bool| {
            held.table.iter().filter(|(_, handle)| is_such(handle)).count()
        };
        Holding {
            handles: held.table.len(),
            delegated: count(&|handle| handle.hold == crate::handles::Hold::Loop),
            lost: count(&|handle| handle.is_lost),
        }
    }
}

fn listed(id: ObjectId, region: &Region, now_ns: u64) -> Listed {
    let age_s = now_ns.saturating_sub(region.since_ns) / SECOND_NS;
    Listed {
        region: id,
        bytes: region.bytes,
        user: region.uid,
        handles: region.handles.len() as u32,
        lasting: region.lasting,
        age_s: u32::try_from(age_s).unwrap_or(u32::MAX),
        name: region.name.clone(),
    }
}

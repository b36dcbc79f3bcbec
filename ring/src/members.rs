//! The page that the members of a joint session share: their numbers, their turn, their lives.
//!
//! Laid out in `abi::delegated::joint`. A number is taken once and for ever, so that what still comes
//! for a dead member never meets another one.

use std::sync::Arc;

use heliostat_abi::file::delegated::joint::{
    life_at, taken_at, BOOT_AT, COUNT_AT, EPOCH_AT, MEMBERS_MAX, OVER_AT, SESSION_AT, TURN_AT,
    WINDOW_AT,
};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{shared_u32, AtomicU32};
use crate::turn::Members;

/// Which session a page is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// The control plane's name for the session.
    pub session: ObjectId,
    /// The number of the control plane's run.
    pub boot: u64,
    /// A number that no other session's files have.
    pub epoch: u64,
}

/// The page, mapped by one member or by the server.
#[derive(Clone, Debug)]
pub struct MembersPage {
    mapping: Arc<SharedMapping>,
    /// Read once.
    count: u32,
}

impl MembersPage {
    /// Of a page that is all zero, for so many members that have a window of this length.
    pub fn create(mapping: SharedMapping, members: u32, window_bytes: u64) -> MembersPage {
        mapping.atomic_u32(COUNT_AT).store(members, Relaxed);
        mapping.atomic_u64(WINDOW_AT).store(window_bytes, Relaxed);
        MembersPage { mapping: Arc::new(mapping), count: members }
    }

    /// Of a page that another has made; `None` when it is none.
    pub fn attach(mapping: SharedMapping) -> Option<MembersPage> {
        let count = mapping.atomic_u32(COUNT_AT).load(Relaxed);
        let fits = (1..=MEMBERS_MAX).contains(&count);
        fits.then(|| MembersPage { mapping: Arc::new(mapping), count })
    }

    /// How many members there may be.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Length of the window, as far as the members leave the page alone.
    pub fn window_bytes(&self) -> u64 {
        self.mapping.atomic_u64(WINDOW_AT).load(Relaxed)
    }

    /// The page's memory.
    pub fn mapping(&self) -> &Arc<SharedMapping> {
        &self.mapping
    }

    /// Takes the first number that is free; `None` when all are taken.
    pub fn claim(&self) -> Option<u32> {
        (0..self.count).find(|member| {
            let word = self.mapping.atomic_u32(taken_at(*member));
            word.compare_exchange(0, 1, Relaxed, Relaxed).is_ok()
        })
    }

    /// Writes whose page it is, before the descriptor is handed to another process.
    pub fn identify(&self, identity: Identity) {
        let Identity { session, boot, epoch } = identity;
        let session = u64::from(session.generation) << 32 | u64::from(session.index);
        for (at, value) in [(SESSION_AT, session), (BOOT_AT, boot), (EPOCH_AT, epoch)] {
            self.mapping.atomic_u64(at).store(value, Relaxed);
        }
    }

    /// Whose page it is, as far as its opener is to be believed.
    pub fn identity(&self) -> Identity {
        let read = |at| self.mapping.atomic_u64(at).load(Relaxed);
        let (session, boot, epoch) = (read(SESSION_AT), read(BOOT_AT), read(EPOCH_AT));
        let session = ObjectId { index: session as u32, generation: (session >> 32) as u32 };
        Identity { session, boot, epoch }
    }

    /// Says that the session has ended. Its members' bells have to be rung afterwards.
    pub fn end(&self) {
        self.mapping.atomic_u32(OVER_AT).store(1, Release);
    }

    /// Whether the session has ended.
    pub fn is_over(&self) -> bool {
        self.mapping.atomic_u32(OVER_AT).load(Acquire) != 0
    }

    /// Whether a member is there and lives.
    pub fn lives(&self, member: u32) -> bool {
        let life = self.life(member);
        life.is_some_and(|word| heliostat_base::alive::is_kept(word.load(Acquire)))
    }
}

impl Members for MembersPage {
    #[inline(always)]
    fn turn(&self) -> &AtomicU32 {
        shared_u32(self.mapping.atomic_u32(TURN_AT))
    }

    fn life(&self, member: u32) -> Option<&AtomicU32> {
        let is_one = member < self.count;
        is_one.then(|| shared_u32(self.mapping.atomic_u32(life_at(member))))
    }

    #[cfg(loom)]
    fn time_passes(&self) -> bool {
        true
    }
}

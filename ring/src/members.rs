//! The page that the members of a joint session share: their numbers, their turn, their lives.
//!
//! Laid out in `abi::delegated::joint`. A number is given again once who had it has been dead for as
//! long as its threads may still take a step. What the server still does for the dead is for the
//! successor to end (`stub/file/src/joint/succession.rs`).

use std::sync::Arc;

use heliostat_abi::file::delegated::joint::{
    member_at, BOOT_AT, COUNT_AT, EPOCH_AT, MEMBERS_MAX, OVER_AT, SESSION_AT, TURN_AT, WINDOW_AT,
};
use heliostat_abi::name::ObjectId;
use heliostat_base::alive::Life;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::sys::Errno;

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{shared_u32, shared_u64, AtomicU32, AtomicU64};
use crate::turn::{MemberId, Members, DEAD_FOR};

/// What says to the others that a member lives, for as long as it is not dropped.
pub type MemberLife = Life<Arc<SharedMapping>>;

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

    /// Takes the first of some numbers that nobody has had, or else, 20 ms later, one whose member was
    /// dead all that time; `None` when all live.
    ///
    /// # Errors
    /// The kernel's, when this process's life cannot be kept.
    pub fn claim(
        &self,
        numbers: impl Iterator<Item = u32>,
    ) -> Result<Option<(MemberId, MemberLife)>, Errno> {
        let mut dead = Vec::new();
        for number in numbers {
            match self.member(number).map(|word| word.load(Acquire)) {
                Some(0) => {
                    if let Some(taken) = self.succeed(number, 0)? {
                        return Ok(Some(taken));
                    }
                }
                Some(seen) if MemberId::after(number, seen).is_some() => dead.push((number, seen)),
                _ => {}
            }
        }
        if !dead.is_empty() {
            std::thread::sleep(DEAD_FOR);
        }
        for (number, seen) in dead {
            if let Some(taken) = self.succeed(number, seen)? {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }

    /// Takes a number whose word is still what it was.
    fn succeed(&self, number: u32, seen: u64) -> Result<Option<(MemberId, MemberLife)>, Errno> {
        let Some(id) = MemberId::after(number, seen) else { return Ok(None) };
        let at = member_at(number);
        let take = move |page: &SharedMapping, life| {
            id.succeed(shared_u64(page.atomic_u64(at)), seen, life)
        };
        let life = Life::begin_unless_taken(self.mapping.clone(), at, take)?;
        Ok(life.map(|life| (id, life)))
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
}

impl Members for MembersPage {
    #[inline(always)]
    fn turn(&self) -> &AtomicU32 {
        shared_u32(self.mapping.atomic_u32(TURN_AT))
    }

    fn member(&self, number: u32) -> Option<&AtomicU64> {
        let is_one = number < self.count;
        is_one.then(|| shared_u64(self.mapping.atomic_u64(member_at(number))))
    }

    #[cfg(loom)]
    fn time_passes(&self) -> bool {
        true
    }
}

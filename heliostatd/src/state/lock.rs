//! Locks, semaphores and barriers: who has which, and the bells of sessions that are told of them.

pub mod across;

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use heliostat_abi::name::ObjectId;
use heliostat_control::config::Config;
use heliostat_service_grant::{Holder, Quota};
use heliostat_service_lock::{Locks, RemoteLocks};
use rustix::net::{send, SendFlags};

use self::across::Across;
use crate::closer::ReceivedFd;
use crate::shares;

/// What the daemon keeps of locks.
pub struct HeldLocks {
    /// Who has which.
    pub grants: Locks,
    /// Whose bells there are.
    pub quota: Quota,
    /// Acquisitions so far, and of these those that had to wait.
    pub acquired: u64,
    pub waited: u64,
    /// Locks between nodes.
    pub across: Across,
    bells: HashMap<ObjectId, (ReceivedFd, Holder)>,
}

impl HeldLocks {
    /// There are none yet.
    pub fn new(config: &Config) -> HeldLocks {
        let limits = shares::locks(config);
        HeldLocks {
            grants: Locks::new(limits, first_token()),
            quota: Quota::new(shares::lock_bells(config)),
            acquired: 0,
            waited: 0,
            across: Across::new(RemoteLocks::new(limits.handles, limits.tickets)),
            bells: HashMap::new(),
        }
    }

    /// Rings a session's bell from now on, instead of the one that it had.
    pub fn set_bell(&mut self, session: ObjectId, holder: Holder, bell: ReceivedFd) {
        self.drop_bell(session);
        self.quota.take_anyway(holder, 1);
        self.bells.insert(session, (bell, holder));
    }

    /// Whether a session has a bell.
    pub fn has_bell(&self, session: ObjectId) -> bool {
        self.bells.contains_key(&session)
    }

    /// Closes a session's bell: at its other end that is seen.
    pub fn drop_bell(&mut self, session: ObjectId) {
        if let Some((_, holder)) = self.bells.remove(&session) {
            self.quota.give_back(holder, 1);
        }
    }

    /// Rings it. Never waits: where it is full its owner has not looked for long, and will.
    pub fn ring(&self, session: ObjectId) {
        if let Some((bell, _)) = self.bells.get(&session) {
            let _ = send(bell, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }
}

/// Nanoseconds since 1970: above every token of an earlier run, which has given fewer than one a
/// nanosecond, as long as nobody sets the clock back.
fn first_token() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(1)
}

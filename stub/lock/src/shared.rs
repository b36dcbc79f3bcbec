//! What all users of locks in one process share: its session's one bell, and who waits.

use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use heliostat_abi::lock::LockRequest;
use heliostat_base::bell::Bell;
use heliostat_client::{session, OwnSession};

use crate::ask::AskLock;
use crate::waits::Waits;
use crate::LockError;

/// The one of this process. A session has one bell, whose rings are for all that wait.
static OF_PROCESS: Mutex<Weak<Shared>> = Mutex::new(Weak::new());

pub(crate) struct Shared {
    pub(crate) control: OwnSession,
    pub(crate) waits: Waits,
}

impl Shared {
    /// The one of the session that stands, or a new one.
    pub(crate) fn of_process() -> Result<Arc<Shared>, LockError> {
        let mut kept = OF_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.upgrade();
        if let Some(known) = known.as_ref().filter(|known| !known.control.is_own()) {
            // In a forked child nobody may have said that the session is the parent's.
            if session::epoch() == Some(known.control.standing().epoch) {
                session::forget_in_forked_child();
            }
        }
        // A session that has ended is noticed here, so that the next one is asked.
        session::check_alive();
        let standing = session::standing()?;
        if let Some(known) = known.filter(|known| known.control.is(standing.epoch)) {
            return Ok(known);
        }
        let control = OwnSession::new(standing);
        let (near, far) = Bell::pair().map_err(LockError::Bell)?;
        control.tell(&LockRequest::Bell, &[far.as_raw_fd()])?;
        let shared = Arc::new(Shared { control, waits: Waits::new(near) });
        *kept = Arc::downgrade(&shared);
        Ok(shared)
    }
}

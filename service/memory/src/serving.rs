//! A session that gives its server loop up, and may take one again.
//!
//! The loop lets go of what it had, handle by handle, as at a session's end. Until it has, the session
//! is served by no other one: never do two hold a handle.

use heliostat_abi::name::ObjectId;

use crate::handles::{Held, Hold};
use crate::memory::Memory;

impl Memory {
    /// The session's operations are delegated no more; its loop is about to let go of its handles, of
    /// each of which it tells. The handles stay.
    pub fn unserve(&mut self, session: ObjectId) {
        if let Some(held) = self.handles.session_mut(session) {
            held.is_served = false;
        }
    }
}

impl Held {
    /// Whether a loop serves the session, or has still to let go of a handle of its.
    pub(crate) fn has_loop(&self) -> bool {
        self.is_served || self.table.iter().any(|(_, handle)| handle.hold == Hold::Loop)
    }
}

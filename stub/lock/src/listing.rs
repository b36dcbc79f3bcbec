//! Which locks there are.

use heliostat_abi::lock::limits::LOCKS_MAX;
use heliostat_abi::lock::reply::NO_MORE;
use heliostat_abi::lock::{ListedLock, LockReply, LockRequest};

use crate::ask::AskLock;
use crate::{LockError, Locks, OWN_USER};

impl Locks {
    /// Returns the locks, semaphores and barriers that this process's user may see and whose names
    /// begin so. Those that come or go meanwhile may be among them or not.
    ///
    /// # Errors
    /// The control plane says no, or is gone.
    pub fn list(&self, beginning: &str) -> Result<Vec<ListedLock>, LockError> {
        self.list_of(OWN_USER, beginning)
    }

    /// The same of one user's.
    ///
    /// # Errors
    /// As `list`.
    pub fn list_of(&self, user: u32, beginning: &str) -> Result<Vec<ListedLock>, LockError> {
        let (mut found, mut from) = (Vec::new(), 0);
        while (from as usize) < LOCKS_MAX {
            let asked = LockRequest::List { user, from, beginning: beginning.to_owned() };
            let answer = self.shared.control.ask_own(&self.placed(asked), &[]);
            let answer = answer.map_err(|error| error.of_node(self.node))?;
            let Some(LockReply::Listed { locks, next }) = answer else {
                return Err(LockError::Corrupt);
            };
            found.extend(locks);
            if next == NO_MORE {
                break;
            }
            // Each answer goes on behind the last one, or this would not end.
            if next <= from {
                return Err(LockError::Corrupt);
            }
            from = next;
        }
        Ok(found)
    }
}

//! Locks, semaphores and barriers: how many a user may have.

use heliostat_abi::lock::limits::{HANDLES_MAX, LOCKS_MAX, TICKETS_MAX};

use super::error::ConfigError;
use super::field::Field;

/// Locks, semaphores and barriers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Locks {
    /// Of one user.
    pub locks_per_user: usize,
    /// Handles of one session.
    pub handles_per_session: usize,
    /// Handles of one user's sessions.
    pub handles_per_user: usize,
    /// What one session holds and waits for.
    pub tickets_per_session: usize,
    /// What one user's sessions hold and wait for.
    pub tickets_per_user: usize,
}

impl Default for Locks {
    fn default() -> Self {
        Self {
            // Of one user half of what the node has, as of sessions.
            locks_per_user: LOCKS_MAX / 2,
            // The end of a session takes all of these in one go, while others wait.
            handles_per_session: 4096,
            handles_per_user: HANDLES_MAX / 2,
            tickets_per_session: 4096,
            tickets_per_user: TICKETS_MAX / 2,
        }
    }
}

impl Locks {
    /// From the table `[locks]`.
    pub(super) fn read(field: &Field<'_>) -> Result<Locks, ConfigError> {
        let section = field.section(&[
            "locks_per_user",
            "handles_per_session",
            "handles_per_user",
            "tickets_per_session",
            "tickets_per_user",
        ])?;
        let mut locks = Locks::default();
        let (all, handles) = ((1, LOCKS_MAX as u64), (1, HANDLES_MAX as u64));
        let tickets = (1, TICKETS_MAX as u64);
        section.number("locks_per_user", all, &mut locks.locks_per_user)?;
        section.number("handles_per_session", handles, &mut locks.handles_per_session)?;
        section.number("handles_per_user", handles, &mut locks.handles_per_user)?;
        section.number("tickets_per_session", tickets, &mut locks.tickets_per_session)?;
        section.number("tickets_per_user", tickets, &mut locks.tickets_per_user)?;
        Ok(locks)
    }
}

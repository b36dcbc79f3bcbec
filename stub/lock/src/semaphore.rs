//! Semaphores: so many permits, of which any number is acquired at once.

use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::lock::Claim;

use crate::claim::{claim, request};
use crate::held::Held;
use crate::opened::{Opened, Patience};
use crate::{LockError, LockId, Pending};

/// A semaphore. Who waits for many permits is not overtaken by those who want few.
pub struct Semaphore {
    pub(crate) opened: Arc<Opened>,
    pub(crate) permits: u32,
}

impl Semaphore {
    /// Acquires `count` permits. Blocks until they are there and it is this one's turn.
    ///
    /// # Errors
    /// `Count` for none, and for more than there are; else as `Lock::acquire`.
    pub fn acquire(&self, count: u32) -> Result<Held, LockError> {
        self.claim(count, Patience::Always)?.ok_or(LockError::Corrupt)
    }

    /// The same within `limit`; else `None`.
    ///
    /// # Errors
    /// As `acquire`.
    pub fn acquire_within(&self, count: u32, limit: Duration) -> Result<Option<Held>, LockError> {
        self.claim(count, Patience::Within(limit))
    }

    /// Acquires them where they are there and nobody waits; else `None`.
    ///
    /// # Errors
    /// As `acquire`.
    pub fn try_acquire(&self, count: u32) -> Result<Option<Held>, LockError> {
        self.claim(count, Patience::Never)
    }

    /// Takes a place in its line for `count` permits, to wait or to give it up later.
    ///
    /// # Errors
    /// As `acquire`.
    pub fn request(&self, count: u32) -> Result<Pending, LockError> {
        self.check(count)?;
        request(&self.opened, Claim::Permits(count))
    }

    fn check(&self, count: u32) -> Result<(), LockError> {
        let most = self.permits;
        (1..=most).contains(&count).then_some(()).ok_or(LockError::Count { count, most })
    }

    fn claim(&self, count: u32, patience: Patience) -> Result<Option<Held>, LockError> {
        self.check(count)?;
        claim(&self.opened, Claim::Permits(count), patience)
    }

    /// Returns how many permits there are, held and not.
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Returns its identity, as of a lock.
    pub fn id(&self) -> LockId {
        self.opened.lock
    }
}

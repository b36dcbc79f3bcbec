//! Locks of one holder, and those of one writer or many readers.

use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::lock::Claim;

use crate::claim::{claim, request};
use crate::held::Held;
use crate::opened::{Opened, Patience};
use crate::{LockError, LockId, Pending};

/// A lock that one holder has at a time. Threads may share it; it is not the thread that holds, but
/// the value that `acquire` returns, and a thread that acquires twice waits for itself.
pub struct Lock {
    pub(crate) opened: Arc<Opened>,
}

impl Lock {
    /// Acquires it. Blocks until it is this one's turn.
    ///
    /// # Errors
    /// `Gone` when the session or the control plane ends; `Unreachable` when the lock's node is lost, or
    /// does not answer: nothing is held then; a limit on what is held and waited for.
    pub fn acquire(&self) -> Result<Held, LockError> {
        self.claim(Patience::Always)?.ok_or(LockError::Corrupt)
    }

    /// Acquires it, where its turn comes within `limit`; else `None`.
    ///
    /// # Errors
    /// As `acquire`.
    pub fn acquire_within(&self, limit: Duration) -> Result<Option<Held>, LockError> {
        self.claim(Patience::Within(limit))
    }

    /// Acquires it where it is free and nobody waits; else `None`.
    ///
    /// # Errors
    /// As `acquire`.
    pub fn try_acquire(&self) -> Result<Option<Held>, LockError> {
        self.claim(Patience::Never)
    }

    /// Takes a place in its line, to wait or to give it up later.
    ///
    /// # Errors
    /// As `acquire`.
    pub fn request(&self) -> Result<Pending, LockError> {
        request(&self.opened, Claim::Exclusive)
    }

    fn claim(&self, patience: Patience) -> Result<Option<Held>, LockError> {
        claim(&self.opened, Claim::Exclusive, patience)
    }

    /// Returns its identity. A lock that is made later by the same name has another one.
    pub fn id(&self) -> LockId {
        self.opened.lock
    }
}

/// A lock that one writer or any number of readers have. Who comes after a waiting writer waits for it.
pub struct ReaderWriterLock {
    pub(crate) opened: Arc<Opened>,
}

impl ReaderWriterLock {
    /// Acquires it for reading. Blocks until it is this one's turn.
    ///
    /// # Errors
    /// As `Lock::acquire`.
    pub fn read(&self) -> Result<Held, LockError> {
        claim(&self.opened, Claim::Shared, Patience::Always)?.ok_or(LockError::Corrupt)
    }

    /// Acquires it for reading within `limit`; else `None`.
    ///
    /// # Errors
    /// As `Lock::acquire`.
    pub fn read_within(&self, limit: Duration) -> Result<Option<Held>, LockError> {
        claim(&self.opened, Claim::Shared, Patience::Within(limit))
    }

    /// Acquires it for reading where nobody writes or waits; else `None`.
    ///
    /// # Errors
    /// As `Lock::acquire`.
    pub fn try_read(&self) -> Result<Option<Held>, LockError> {
        claim(&self.opened, Claim::Shared, Patience::Never)
    }

    /// Acquires it for writing. Blocks until it is this one's turn.
    ///
    /// # Errors
    /// As `Lock::acquire`.
    pub fn write(&self) -> Result<Held, LockError> {
        claim(&self.opened, Claim::Exclusive, Patience::Always)?.ok_or(LockError::Corrupt)
    }

    /// Acquires it for writing within `limit`; else `None`.
    ///
    /// # Errors
    /// As `Lock::acquire`.
    pub fn write_within(&self, limit: Duration) -> Result<Option<Held>, LockError> {
        claim(&self.opened, Claim::Exclusive, Patience::Within(limit))
    }

    /// Acquires it for writing where nobody has it or waits; else `None`.
    ///
    /// # Errors
    /// As `Lock::acquire`.
    pub fn try_write(&self) -> Result<Option<Held>, LockError> {
        claim(&self.opened, Claim::Exclusive, Patience::Never)
    }

    /// Takes a place in its line for reading, to wait or to give it up later.
    ///
    /// # Errors
    /// As `Lock::acquire`.
    pub fn request_read(&self) -> Result<Pending, LockError> {
        request(&self.opened, Claim::Shared)
    }

    /// Takes a place in its line for writing.
    ///
    /// # Errors
    /// As `Lock::acquire`.
    pub fn request_write(&self) -> Result<Pending, LockError> {
        request(&self.opened, Claim::Exclusive)
    }

    /// Returns its identity, as of a lock.
    pub fn id(&self) -> LockId {
        self.opened.lock
    }
}

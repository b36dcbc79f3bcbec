//! What is to be opened by a name.

use std::sync::Arc;

use heliostat_abi::code::Code;
use heliostat_abi::lock::limits::{PARTICIPANTS_MAX, PERMITS_MAX};
use heliostat_abi::lock::{LockName, LockReply, LockRequest, Shape};

use crate::ask::AskLock;
use crate::opened::Opened;
use crate::{Barrier, Lock, LockError, Locks, ReaderWriterLock, Semaphore, OWN_USER};

/// A name, and whose and what it is.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    locks: &'a Locks,
    name: &'a str,
    user: u32,
    is_silent: bool,
}

impl<'a> Named<'a> {
    pub(crate) fn new(locks: &'a Locks, name: &'a str) -> Self {
        Self { locks, name, user: OWN_USER, is_silent: false }
    }

    /// Among the names of another user, which takes a rule that allows it.
    pub fn of_user(self, user: u32) -> Self {
        Self { user, ..self }
    }

    /// Nobody is told that a holder has died. All who open the name have to say so. A barrier breaks
    /// all the same.
    pub fn silent(self) -> Self {
        Self { is_silent: true, ..self }
    }

    /// Opens a lock.
    ///
    /// # Errors
    /// As `Locks::lock`.
    pub fn lock(self) -> Result<Lock, LockError> {
        Ok(Lock { opened: self.open(Shape::LOCK)? })
    }

    /// Opens a reader-writer lock.
    ///
    /// # Errors
    /// As `Locks::lock`.
    pub fn reader_writer(self) -> Result<ReaderWriterLock, LockError> {
        Ok(ReaderWriterLock { opened: self.open(Shape::READER_WRITER)? })
    }

    /// Opens a semaphore of so many permits.
    ///
    /// # Errors
    /// As `Locks::semaphore`.
    pub fn semaphore(self, permits: u32) -> Result<Semaphore, LockError> {
        let most = PERMITS_MAX;
        let shape = Shape::semaphore(permits).ok_or(LockError::Count { count: permits, most })?;
        Ok(Semaphore { opened: self.open(shape)?, permits })
    }

    /// Opens a barrier of so many participants.
    ///
    /// # Errors
    /// As `Locks::barrier`.
    pub fn barrier(self, participants: u32) -> Result<Barrier, LockError> {
        let most = PARTICIPANTS_MAX;
        let shape = Shape::barrier(participants);
        let shape = shape.ok_or(LockError::Count { count: participants, most })?;
        Ok(Barrier { opened: self.open(shape)? })
    }

    fn open(self, shape: Shape) -> Result<Arc<Opened>, LockError> {
        let name = LockName::parse(self.name).map_err(LockError::Name)?;
        let shape = if self.is_silent { shape.silent() } else { shape };
        let (shared, node) = (self.locks.shared.clone(), self.locks.node);
        let request = self.locks.placed(LockRequest::Open { user: self.user, name, shape });
        match shared.control.ask_own(&request, &[]) {
            Ok(Some(LockReply::Opened { handle, lock })) => {
                Ok(Arc::new(Opened { shared, handle, lock, node }))
            }
            Ok(_) => Err(LockError::Corrupt),
            Err(error) if error.refusal() == Some(Code::BadState) => Err(LockError::Shape),
            Err(error) => Err(error.of_node(node)),
        }
    }
}

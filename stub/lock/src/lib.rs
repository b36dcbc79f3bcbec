//! Locks, reader-writer locks, semaphores and barriers between programs, by name.
//!
//! ```text
//! acquire --> control plane: granted with a token, or a ticket that waits
//! waiting --> the process's bell rings; one thread asks what has happened, and wakes the others
//! release --> control plane
//! ```
//!
//! Lines are served first come, first served. Whoever holds something has a *token*, which is larger
//! than that of every holder before: what a lock protects can refuse smaller ones, and so a holder that
//! was taken for dead and is not. What a process holds ends with its session, and the next holder is
//! told so. `docs/locks.md` tells the whole.
//!
//! A call takes one exchange with the control plane. A thread that waits sleeps in the kernel, for as
//! long as it takes.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod ask;
mod barrier;
mod claim;
mod error;
mod held;
mod listing;
mod lock;
mod named;
mod opened;
mod pending;
mod semaphore;
mod shared;
mod waiting;
mod waits;

use std::sync::Arc;

pub use barrier::{Arrival, Barrier, Passed};
pub use error::LockError;
pub use held::Held;
pub use heliostat_abi::lock::name::OWN_USER;
pub use heliostat_abi::lock::{Kind, ListedLock, LockName, Shape, Why};
pub use heliostat_abi::name::ObjectId as LockId;
pub use lock::{Lock, ReaderWriterLock};
pub use named::Named;
pub use pending::Pending;
pub use semaphore::Semaphore;

use heliostat_abi::lock::LockRequest;
use shared::Shared;

/// This process's access to locks, in one session with the control plane. Clones are the same.
///
/// A child of a fork opens its own: what its parent holds is its parent's.
#[derive(Clone)]
pub struct Locks {
    shared: Arc<Shared>,
    /// The node of names; none for this one.
    node: Option<u64>,
}

impl Locks {
    /// Opens it, where `session::configure` or `heliostat run` has said that the control plane is.
    ///
    /// # Errors
    /// No control plane answers, or the process has no descriptors for a bell.
    pub fn open() -> Result<Locks, LockError> {
        Ok(Locks { shared: Shared::of_process()?, node: None })
    }

    /// Returns the descriptor of this process's bell, for who closes descriptors by their numbers.
    pub fn descriptor(&self) -> i32 {
        self.shared.waits.descriptor()
    }

    /// Returns the same for names on another node: what is opened and listed by it is on that node, whose
    /// control plane decides about it. The node's own number is as if it were not said.
    pub fn on(&self, node: u64) -> Locks {
        Locks { shared: self.shared.clone(), node: Some(node) }
    }

    /// Names the node that a request goes to, if that was said.
    pub(crate) fn placed(&self, request: LockRequest) -> LockRequest {
        match self.node {
            Some(node) => LockRequest::On { node, request: Box::new(request) },
            None => request,
        }
    }

    /// Begins to say what is to be opened by a name; its calls open it.
    pub fn named<'a>(&'a self, name: &'a str) -> Named<'a> {
        Named::new(self, name)
    }

    /// Opens the lock of this name, among the names of this process's user; makes it where there is none.
    ///
    /// # Errors
    /// `Shape` where the name is that of something else; a rule says no; a limit is reached.
    pub fn lock(&self, name: &str) -> Result<Lock, LockError> {
        self.named(name).lock()
    }

    /// Opens the reader-writer lock of this name.
    ///
    /// # Errors
    /// As `lock`.
    pub fn reader_writer(&self, name: &str) -> Result<ReaderWriterLock, LockError> {
        self.named(name).reader_writer()
    }

    /// Opens the semaphore of this name and of so many permits, 1 to 2^31.
    ///
    /// # Errors
    /// As `lock`; `Count` for a number of permits that none has.
    pub fn semaphore(&self, name: &str, permits: u32) -> Result<Semaphore, LockError> {
        self.named(name).semaphore(permits)
    }

    /// Opens the barrier of this name and of so many participants, 1 to 65,536.
    ///
    /// # Errors
    /// As `lock`; `Count` for a number of participants that none has.
    pub fn barrier(&self, name: &str, participants: u32) -> Result<Barrier, LockError> {
        self.named(name).barrier(participants)
    }
}

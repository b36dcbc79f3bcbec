//! Locks, reader-writer locks, semaphores and barriers of programs: the records of their service.
//!
//! Who has opened one by its name has a *handle*; who asks to acquire one, or arrives at a barrier, has
//! a *ticket* until it releases, cancels or is told how it ended. An *outcome* says how a ticket stands.
//! `docs/locks.md` tells the whole.

pub mod limits;
pub mod name;
pub mod outcome;
pub mod peer;
pub mod reply;
pub mod request;
pub mod shape;

pub use name::LockName;
pub use outcome::{Outcome, Why};
pub use reply::{Event, ListedLock, LockReply};
pub use request::LockRequest;
pub use shape::{Claim, Kind, Shape};

//! Small records under keys, with revisions, that all nodes of a cluster share.
//!
//! ```text
//! begin(token, operation, deadline) --> exactly one Event::Ended { token, outcome }
//! watch(prefix, after revision)     --> Event::Changed in order of revision, or Event::Broken: list again
//! ```
//! [`Registry`] is the interface, [`Store`] the records themselves as a pure state machine, and
//! [`Memory`] the registry of one process, which can also lose what it is told, for tests.
//! It leaves to others what records mean, and who is declared dead when a lease ends.
#![forbid(unsafe_code)]

pub mod etcd;
mod key;
mod memory;
mod registry;
mod store;

pub use key::{Key, Value, KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use memory::{Loss, Memory, SharedStore};
pub use registry::{
    Change, Event, Guard, Operation, Outcome, Record, Registry, WatchId, Why, Write, LISTED_MAX,
    OPERATIONS_MAX, WATCHES_MAX,
};
pub use store::{LeaseId, Limits, Store, Watched};

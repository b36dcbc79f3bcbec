//! Files whose appended bytes are kept in a log until the files themselves are on their device.
//!
//! ```text
//! fdatasync --> log entry (file, offset, bytes), durable      the file: in the page cache only
//! now and then: the file is flushed, the log is trimmed       a checkpoint
//! the machine crashes:  log --recover--> file                 what was acknowledged is there again
//! ```
//!
//! Here are the entries' bytes, the log's place, and recovery. Who appends, and when a checkpoint is
//! due, is the stub's (`stub/posix/src/flush`); the page for people is docs/durable.md.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod boot;
pub mod entry;
mod find;
mod peek;
mod place;
mod recover;

#[cfg(test)]
mod tests;

pub use boot::{Boot, BootId};
pub use peek::is_left_by_crash;
pub use place::{create, is_being_recovered, open, open_to_recover, Opened, PlaceError, LOG_BYTES};
pub use recover::{recover, FileOutcome, Outcome, RecoverError, What};

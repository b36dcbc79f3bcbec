//! Memory regions that live on several nodes: a primary that orders what is done, and backups that have
//! it before it is answered.
//!
//! ```text
//! client --Operate--> primary: entry in the log --Append--> backups
//!        <--Answer--- all backups have it <-----Have-------'
//! primary lost -> a backup claims: its record in the registry, by put-if-revision --> primary, epoch + 1
//! backup lost  -> nothing is answered until the record without it stands
//! ```
//!
//! Pure: no I/O, no clock. What a node may believe stands in one record of the registry for each region
//! ([`Placement`]); each message carries the epoch of the one that its sender knows. A read is an entry
//! that changes nothing: so it is answered only by a primary that all its backups still follow, and no
//! clock has to be believed. Every change carries the identity of its request, which all replicas keep
//! ([`Recent`]): what is asked again is done once.
#![forbid(unsafe_code)]

mod action;
mod append;
mod client;
mod log;
mod placement;
mod recent;
mod replica;
mod wire;

pub use action::{Action, Answer, Answered, Operate, Unanswered};
pub use append::{Append, Change, Entry, Invitation, Received};
pub use client::{Client, ClientEffect, Failed, Submitted};
pub use placement::{Alter, Identity, Member, Placement, RequestId, Revision};
pub use recent::{Recent, RECENT_MAX};
pub use replica::{Effect, Fault, Outcome, Record, Replica};

/// Bytes of entries that a primary keeps because a backup has not confirmed them. Where there are more
/// it takes no operation for a moment.
pub const LOG_BYTES_MAX: usize = 8 << 20;
/// Entries that it keeps so.
pub const LOG_ENTRIES_MAX: usize = 8192;
/// Bytes of entries in one message.
pub const APPEND_BYTES_MAX: usize = 1 << 20;
/// Bytes that one operation reads, writes, sets or copies.
pub const OPERATION_BYTES_MAX: u64 = 1 << 20;
/// Users that are appointed to a region: they stand in its record and in each message to a backup.
pub const APPOINTED_MAX: usize = 16;
/// Nodes that have a region.
pub const REPLICAS_MAX: usize = 7;

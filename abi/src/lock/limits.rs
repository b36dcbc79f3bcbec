//! Limits of locks that both planes know, each with its reason.

/// Locks, semaphores and barriers of a node at once.
pub const LOCKS_MAX: usize = 1 << 16;
/// Handles of a node at once: four for each.
pub const HANDLES_MAX: usize = 4 * LOCKS_MAX;
/// Tickets of a node at once, those that hold and those that wait.
pub const TICKETS_MAX: usize = 4 * LOCKS_MAX;
/// Permits of a semaphore: what a signed number of 32 bits of any language still counts.
pub const PERMITS_MAX: u32 = 1 << 31;
/// Participants of a barrier: all of them have a ticket at once.
pub const PARTICIPANTS_MAX: u32 = 1 << 16;
/// Events in one answer to `Next`.
pub const EVENTS_PER_REPLY_MAX: usize = 16;
/// Locks in one answer to `List`.
pub const LISTED_PER_REPLY_MAX: usize = 4;
/// Events in one message to another node.
pub const NEWS_MAX: usize = 1024;
/// Handles of one session on locks of other nodes.
pub const REMOTE_HANDLES_MAX: usize = 4096;
/// Tickets of one session at locks of other nodes.
pub const REMOTE_TICKETS_MAX: usize = 4096;

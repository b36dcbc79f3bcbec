//! Limits of delegated sockets that both planes know, each with its reason.

/// Sockets of one session: one lean worker has as many peers as a busy server of one process.
pub const SOCKETS_PER_SESSION_MAX: usize = 4096;
/// Connections that were accepted for a session which has not asked for them yet: what one sweep
/// takes, so that the kernel's own queue is where the rest waits.
pub const ARRIVED_MAX: usize = 64;
/// Folders and addresses of a confined session: each is compared with each name that it opens.
pub const CONFINED_NAMES_MAX: usize = 64;
/// Largest window of a session.
pub const WINDOW_BYTES_MAX: u64 = 1 << 30;

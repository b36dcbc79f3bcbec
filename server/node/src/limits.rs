//! How much may wait on a node's thread, and of whom.

use heliostat_backend_transport::limits::{HEADER_BYTES_MAX, WINDOW_BYTES};

use crate::header::SERVICE_BYTES;

/// A service's own header in a request; an answer's may be as long as the transport's.
pub const REQUEST_HEADER_BYTES_MAX: usize = HEADER_BYTES_MAX - SERVICE_BYTES;
/// An answer's header.
pub const REPLY_HEADER_BYTES_MAX: usize = HEADER_BYTES_MAX;

/// Calls of one [`Caller`](crate::Caller) that have not ended: as many as a server loop has operations.
pub const CALLS_PER_CALLER_MAX: usize = 4096;
/// Bytes of their headers and payloads: two windows, so that one peer that is slow is not all of it.
pub const BYTES_PER_CALLER_MAX: usize = 2 * WINDOW_BYTES as usize;

/// Calls that wait for room in one peer's window.
pub const QUEUED_CALLS_MAX: usize = 4096;
/// Bytes of those: one window's worth follows when the window that is full is free.
pub const QUEUED_BYTES_MAX: usize = WINDOW_BYTES as usize;
/// Bytes of answers of other threads that wait for room in one peer's window.
pub const QUEUED_ANSWER_BYTES_MAX: usize = WINDOW_BYTES as usize;

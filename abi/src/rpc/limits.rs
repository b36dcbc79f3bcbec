//! Limits of remote procedure calls that both planes know, each with its reason.

/// Functions of a node at once.
pub const FUNCTIONS_MAX: usize = 4096;
/// Functions that one session serves and calls, together: the loop looks each up by hash, and walks
/// them when the session ends.
pub const FUNCTIONS_PER_SESSION_MAX: usize = 256;
/// Bytes of one call's payload, and of its reply.
pub const PAYLOAD_BYTES_MAX: u32 = 1 << 20;
/// Bytes of one message that is sent one way: the loop keeps a copy until somebody receives it.
pub const MESSAGE_BYTES_MAX: u32 = 64 << 10;
/// Messages that wait for the servers of one function.
pub const QUEUE_MAX: u32 = 1024;
/// Messages that wait where a publisher does not say how many may.
pub const QUEUE_USUAL: u32 = 64;
/// Largest window of a session.
pub const WINDOW_BYTES_MAX: u64 = 1 << 30;
/// Functions in one answer to `List`.
pub const LISTED_PER_REPLY_MAX: usize = 4;

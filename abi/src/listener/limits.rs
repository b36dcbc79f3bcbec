//! Limits of shared listeners that both planes know, each with its reason.

/// Shared listeners of a node at once: each has listening sockets, which one thread looks at.
pub const LISTENERS_MAX: usize = 256;
/// Workers of a node at once, those of all listeners together: three descriptors and a page each.
pub const WORKERS_MAX: usize = 4096;
/// Workers of one listener: a decision looks at all of them.
pub const WORKERS_PER_LISTENER_MAX: usize = 256;
/// Listening sockets of one listener: programs that set SO_REUSEPORT may bring one each, where they
/// bind before the first of them listens.
pub const SOCKETS_PER_LISTENER_MAX: usize = 64;
/// Processes that take from one queue.
pub const HOLDERS_PER_WORKER_MAX: usize = 1024;
/// First bytes of a connection that a rule may ask for.
pub const PEEK_BYTES_MAX: u32 = 4096;
/// The same where nobody says how many: a request line.
pub const PEEK_BYTES_USUAL: u32 = 256;
/// Longest wait for the first bytes of a connection, or for a plug-in's word on it.
pub const DEADLINE_MS_MAX: u32 = 60_000;
/// The same where nobody says how long.
pub const DEADLINE_MS_USUAL: u32 = 1000;
/// Connections of one listener whose first bytes are waited for: a descriptor of the control plane each.
pub const PEEKED_MAX: usize = 4096;
/// Connections that a plug-in has been asked about and has not answered.
pub const PLUGIN_ASKED_MAX: usize = 1024;

//! How many nodes there may be, and with which numbers.

/// The largest number of a node: names of objects on other nodes have 16 bits for it. 0 is no node's.
pub const NODE_MAX: u64 = u16::MAX as u64;
/// Other nodes that one node knows of. A transport has 256 links, of which some are strangers'.
pub const MEMBERS_MAX: usize = 192;
/// Nodes in one reply.
pub const LISTED_PER_REPLY_MAX: usize = 4;

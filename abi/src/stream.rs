//! Streams between two programs of a node, and those that the network service carries.

pub mod carry;
pub mod channel;
pub mod delegated;

//! Streams between two programs of a node.

pub mod channel;

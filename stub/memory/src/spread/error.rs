//! Why an operation on a region that is spread over nodes was not done, and where.

use std::fmt;

use crate::MemoryError;

/// What went wrong, and with which bytes on which node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpreadError {
    /// It is about no part: the name, the session, this process.
    Memory(MemoryError),
    /// A part did not do it. What lies in other parts may have been done.
    Part {
        /// The part's node; 0 without a cluster.
        node: u64,
        /// The first byte of the whole that lies there.
        from: u64,
        /// The byte behind the last.
        to: u64,
        /// Why; of a node that is lost it says whether what was asked may have been done there.
        why: MemoryError,
    },
    /// Ours: the bytes do not all lie in the region; nothing was done.
    Range {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// Bytes that the region has.
        limit: u64,
    },
    /// Ours: words lie at multiples of 8.
    Misaligned {
        /// Where the word was meant to be.
        offset: u64,
    },
    /// Ours: it takes one node or more, each of them once.
    Nodes {
        /// How many were given.
        given: usize,
        /// How many there may be.
        most: usize,
    },
    /// Another region has the name.
    Taken {
        /// On this node, and perhaps on others.
        node: u64,
    },
    /// The region is being made or freed. Asked again a moment later it is there, or it is not.
    Unfinished {
        /// The node whose part says so.
        node: u64,
    },
    /// A region that has the name of a part is none.
    Corrupt {
        /// On which node.
        node: u64,
    },
    /// Ours: operations on their way, or mapped bytes, still hold a part. It is as it was.
    Held {
        /// The part's node.
        node: u64,
    },
}

impl fmt::Display for SpreadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Part { node, from, to, why } => {
                write!(f, "bytes {from} to {to}, on node {node}: {why}")
            }
            Self::Range { offset, bytes, limit } => {
                write!(f, "{bytes} bytes at {offset}, the spread region has {limit}")
            }
            Self::Misaligned { offset } => {
                write!(f, "a word at {offset}, which is no multiple of 8")
            }
            Self::Nodes { given, most } => {
                write!(f, "{given} nodes, where 1 to {most} are possible, each of them once")
            }
            Self::Taken { node } => write!(f, "another region on node {node} has the name"),
            Self::Unfinished { node } => {
                write!(f, "the part on node {node} says that the region is being made or freed")
            }
            Self::Corrupt { node } => {
                write!(f, "what has the part's name on node {node} is no part of a spread region")
            }
            Self::Held { node } => {
                write!(f, "operations on the part on node {node}, or arrays of it, are not over")
            }
        }
    }
}

impl std::error::Error for SpreadError {}

impl From<MemoryError> for SpreadError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

//! An atomic log in the memory of several nodes: whole transactions, in one order for all, on n nodes.
//!
//! ```text
//! log       segment 3 --next--> segment 4 --next--> segment 5       the cleaner frees the oldest
//! segment   one region on each of its nodes, all of one form:
//!             head | slots: a word for each transaction | transactions
//!
//! append    reserve   fetch_add at the first copy: a slot and a place, in one step
//!           write     the transaction to its place on every copy
//!           commit    its slot from 0, by compare_swap, on one copy after the other
//! read      the last copy's slots: what is there is on every copy, whole
//! ```
//!
//! Copies are a chain. Whoever decides a slot decides it at the first copy and carries that on to the last,
//! and readers look at the last: what one has seen is never undone by the death of nodes, as long as one
//! lives. A writer that dies leaves a slot that nobody has decided; whoever has waited for it for long
//! enough gives it up, or carries on what the first copy says. When a node dies the log goes on in the next
//! segment, on nodes that live, as long as most of them do. Places are used once, and memory of a segment
//! that was freed is nobody's (`Stale`), so a writer that was asleep for long cannot write over others.
//!
//! `docs/applications.md` tells what an append means, and what is not promised.
#![forbid(unsafe_code)]

mod extent;
pub mod log;
pub mod reader;
pub mod segment;
pub mod transaction;

use heliostat::memory::MemoryError;

/// Why something was not done.
#[derive(Debug)]
pub enum LogError {
    /// None of the log's nodes can be reached, or those that can have nothing of it.
    Lost,
    /// A node is lost, and so few others can be reached that it may be this one that is cut off.
    CutOff,
    /// The transaction is longer than a segment takes.
    TooLong {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that it may have.
        limit: u64,
    },
    /// It found no place for so often that something else is wrong; nothing was appended.
    Busy,
    /// A reader has waited too long for this writer, and goes on without it; nothing was appended.
    GivenUp,
    /// The cleaner has freed what was to be read.
    Cleaned,
    /// What lies in memory is no log.
    Corrupt(&'static str),
    /// A node's memory says no.
    Memory(MemoryError),
}

impl std::fmt::Display for LogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lost => f.write_str("no node that can be reached has the log, or a part of it"),
            Self::CutOff => {
                f.write_str("most nodes of the log cannot be reached: it may be cut off")
            }
            Self::TooLong { bytes, limit } => {
                write!(f, "a transaction of {bytes} bytes; a segment takes {limit}")
            }
            Self::Busy => f.write_str("nothing was appended: no segment had a place"),
            Self::GivenUp => {
                f.write_str("the writer was silent for too long; nothing was appended")
            }
            Self::Cleaned => f.write_str("the cleaner has freed this part of the log"),
            Self::Corrupt(what) => write!(f, "what lies there is no log: {what}"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LogError {}

impl From<MemoryError> for LogError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

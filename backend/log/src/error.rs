//! Why something was not done with a log.

use std::fmt;

use heliostat_backend_block::{BeginError, BlockError};
use heliostat_base::mapping::MappingError;

use crate::format::{Broken, HeaderError, Position};

/// What went wrong, and whose limit or fault it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogError {
    /// The log was closed.
    Closed,
    /// A write failed, so what lies on the device is not known any more. Nothing more is written or
    /// acknowledged; opening the log again finds out what there is.
    Failed(BlockError),
    /// The device refuses what it should do.
    Refused(BeginError),
    /// Bytes could not be read. The log goes on.
    Unreadable {
        /// First byte, as an offset on the device.
        offset: u64,
        /// What the device says.
        error: BlockError,
    },
    /// The area is full: trim the log.
    Full {
        /// Bytes that the entry takes.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
        /// Bytes for entries in this area.
        limit: u64,
    },
    /// The payload is longer than this log takes.
    TooLong {
        /// Its bytes.
        found: u64,
        /// Bytes at most.
        limit: u64,
    },
    /// So many appends are reserved and not committed, and no more may be.
    Reservations {
        /// How many.
        limit: usize,
    },
    /// A reservation was committed before its payload was whole.
    Unfilled {
        /// Bytes that were put.
        found: u64,
        /// Bytes that were reserved.
        wanted: u64,
    },
    /// An acknowledged entry is not there any more: its bytes were changed, lost or never written.
    Damaged {
        /// Which entry.
        position: Position,
        /// What stands in its place.
        why: Broken,
    },
    /// The position lies before the log's begin.
    Trimmed {
        /// The position.
        wanted: Position,
        /// The begin.
        begin: Position,
    },
    /// The position lies behind the acknowledged end.
    Beyond {
        /// The position.
        wanted: Position,
        /// The end.
        end: Position,
    },
    /// No entry begins at the position.
    NotAnEntry {
        /// The position.
        wanted: Position,
    },
    /// The range of the device cannot hold a log, or is not the one that the log was made in.
    Area {
        /// What of it.
        what: &'static str,
        /// What it is.
        found: u64,
        /// What it has to be, or has to be at least.
        wanted: u64,
    },
    /// Neither header block is one, or none can be believed.
    NoLog(HeaderError),
    /// There is a log in this area already.
    Exists,
    /// A reader beside the writer: the log was removed, and another one made in its place.
    Replaced,
    /// The log was opened 2^32 times, or 2^63 bytes were written: it has to be made anew.
    WornOut,
    /// A queue has handed out as many entries without acknowledgement as it keeps account of.
    Taken {
        /// How many.
        limit: u64,
    },
    /// No entry that was handed out has this ticket, or it was acknowledged before.
    NotTaken {
        /// Which entry.
        position: Position,
    },
    /// A queue uses the log: its begin is where its consumers are.
    IsQueue,
    /// Memory for the log's buffer could not be had.
    Memory(MappingError),
    /// The driver's thread or the descriptor could not be made.
    System {
        /// Its errno.
        errno: i32,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the log is closed"),
            Self::Failed(error) => write!(f, "the log has stopped, open it again: {error}"),
            Self::Refused(error) => write!(f, "the device refuses an operation: {error}"),
            Self::Unreadable { offset, error } => {
                write!(f, "the device cannot read at {offset}: {error}")
            }
            Self::Full { wanted, free, limit } => write!(
                f,
                "the log is full: an entry of {wanted} bytes, {free} of {limit} are free; trim it"
            ),
            Self::TooLong { found, limit } => {
                write!(f, "a payload of {found} bytes, {limit} are the most that this log takes")
            }
            Self::Reservations { limit } => {
                write!(f, "{limit} appends are reserved and not committed, as many as may")
            }
            Self::Unfilled { found, wanted } => {
                write!(f, "{found} of {wanted} reserved bytes were put")
            }
            Self::Damaged { position, why } => {
                write!(f, "the acknowledged entry at {position} is damaged: {why}")
            }
            Self::Trimmed { wanted, begin } => {
                write!(f, "position {wanted} was trimmed, the log begins at {begin}")
            }
            Self::Beyond { wanted, end } => {
                write!(f, "position {wanted} is not acknowledged, the log ends at {end}")
            }
            Self::NotAnEntry { wanted } => write!(f, "no entry begins at {wanted}"),
            Self::Area { what, found, wanted } => {
                write!(f, "the area's {what} is {found} where {wanted} is needed")
            }
            Self::NoLog(error) => error.fmt(f),
            Self::Exists => f.write_str("there is a log in this area; remove it first"),
            Self::Replaced => {
                f.write_str("another log was made in place of this one; open it anew")
            }
            Self::WornOut => {
                f.write_str("the log's numbers have come to their end; make a new one")
            }
            Self::Taken { limit } => {
                write!(f, "{limit} entries are handed out and not acknowledged, as many as may")
            }
            Self::NotTaken { position } => write!(f, "the entry at {position} is not handed out"),
            Self::IsQueue => {
                f.write_str("a queue is not trimmed: its entries go when they are acknowledged")
            }
            Self::Memory(error) => error.fmt(f),
            Self::System { errno } => std::io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

impl std::error::Error for LogError {}

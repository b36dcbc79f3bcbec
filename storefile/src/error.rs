//! Why bytes are no store of ours, and why a change was refused.

use std::fmt;

use crate::identity::Identity;

/// A part of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Both superblocks.
    Superblock,
    /// Both copies of the table.
    Table,
    /// A field of the superblock or of the table.
    Field(&'static str),
}

/// Why a store could not be opened or changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// The device holds zeroes where a store begins.
    Blank,
    /// The device holds something else.
    Foreign,
    /// The device holds a store already.
    Exists {
        /// Which.
        identity: Identity,
    },
    /// It is another store than the one that is wanted.
    WrongStore {
        /// The one that is wanted.
        wanted: Identity,
        /// The one that is there.
        found: Identity,
    },
    /// The store was made by a newer program.
    Newer {
        /// Its format.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// The device is smaller than the store in it.
    Truncated {
        /// Bytes of the store.
        wanted: u64,
        /// Bytes of the device.
        found: u64,
    },
    /// Bytes that cannot have been written so.
    Damaged(Part),
    /// A number is too small or too large, or no multiple of the grain.
    Number {
        /// What it counts.
        what: &'static str,
        /// The number.
        wanted: u64,
        /// What it may be at most, or has to be a multiple of.
        limit: u64,
    },
    /// The name is empty, too long, or holds a zero byte.
    BadName {
        /// Bytes of the name.
        bytes: usize,
        /// Bytes that it may have.
        limit: usize,
    },
    /// The owner has an area of this name.
    NameTaken,
    /// There is no such area; it may have been deleted.
    NoArea,
    /// Not enough free bytes.
    Full {
        /// Bytes wanted.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
        /// Bytes that will be free when they were zeroed.
        zeroing: u64,
    },
    /// The free bytes lie in too many pieces.
    Fragmented {
        /// Extents that an area may have.
        limit: usize,
    },
    /// As many areas as may be.
    TooManyAreas {
        /// How many.
        limit: u32,
    },
    /// The table has no room for more names and extents.
    TableFull {
        /// Bytes that it would have.
        wanted: u64,
        /// Bytes that it may have.
        limit: u64,
    },
    /// Too many ranges wait to be zeroed: later there is room.
    ZeroingFull {
        /// How many may wait.
        limit: usize,
    },
    /// The change was planned on another state of the store.
    Stale,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("the device is empty: no store was made in it"),
            Self::Foreign => f.write_str("the device holds something that is no store"),
            Self::Exists { identity } => write!(f, "the device holds a store already, {identity}"),
            Self::WrongStore { wanted, found } => {
                write!(f, "the device holds the store {found}, not {wanted}")
            }
            Self::Newer { found, known } => {
                write!(f, "the store has format {found}; this program knows {known} at most")
            }
            Self::Truncated { wanted, found } => {
                write!(f, "the store has {wanted} bytes and its device only {found}")
            }
            Self::Damaged(Part::Superblock) => f.write_str("both superblocks are damaged"),
            Self::Damaged(Part::Table) => f.write_str("both copies of the table are damaged"),
            Self::Damaged(Part::Field(field)) => write!(f, "damaged: {field}"),
            Self::Number { what, wanted, limit } => write!(f, "{what}: {wanted} (limit {limit})"),
            Self::BadName { bytes, limit } => write!(
                f,
                "a name has 1 to {limit} bytes and no zero among them, this one has {bytes}"
            ),
            Self::NameTaken => f.write_str("the owner has an area of this name"),
            Self::NoArea => f.write_str("there is no such area"),
            Self::Full { wanted, free, zeroing } => write!(
                f,
                "{wanted} bytes are wanted, {free} are free, and {zeroing} will be when zeroed"
            ),
            Self::Fragmented { limit } => {
                write!(f, "the free bytes lie in more than {limit} pieces")
            }
            Self::TooManyAreas { limit } => write!(f, "there are {limit} areas, as many as may be"),
            Self::TableFull { wanted, limit } => {
                write!(f, "the table would have {wanted} bytes and may have {limit}")
            }
            Self::ZeroingFull { limit } => {
                write!(f, "{limit} ranges wait to be zeroed, as many as may")
            }
            Self::Stale => f.write_str("the store has changed since this was planned"),
        }
    }
}

impl std::error::Error for StoreError {}

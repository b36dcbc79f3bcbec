//! How an order to the store has ended.

/// What the store has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Of the area: of a new one, what it got.
    pub generation: u64,
}

/// Why the store has done nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failed {
    /// The size is no multiple of what sizes are multiples of.
    Size {
        /// The size.
        wanted: u64,
        /// What it has to be a multiple of.
        grain: u64,
    },
    /// Not enough is free.
    NoRoom {
        /// Bytes that were wanted.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// What is free lies in too many pieces.
    Fragmented {
        /// Pieces that an area may have.
        limit: u64,
    },
    /// There are as many areas as may be, or the table is full.
    TooMany {
        /// How many areas, or bytes of the table.
        limit: u64,
    },
    /// Too many ranges wait to be zeroed.
    Zeroing {
        /// How many may.
        limit: u64,
    },
    /// A program that no session here knows has the bytes directly.
    Held,
    /// The device failed. What it holds is open until the store is opened anew.
    Device,
}

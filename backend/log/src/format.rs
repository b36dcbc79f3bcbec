//! The bytes of a log on a device: header blocks and entries. Bytes in, values out.
//!
//! The page for people is docs/log-format.md. Nothing here reads a device, and nothing believes a
//! byte before its checksum agrees.

mod entry;
mod header;

pub use entry::{Broken, EntryHeader, EntryKind, PayloadChecksum, Search, Seed};
pub use header::{Header, HeaderError, Marks};

/// Bytes before the payload of an entry.
pub const ENTRY_BYTES: u64 = 32;
/// Entries begin at multiples of it, so that a header's words are aligned in memory.
pub const ENTRY_ALIGNMENT: u64 = 8;
/// Longest payload that the format can say.
pub const PAYLOAD_BYTES_MAX: u64 = (1 << 31) - 1;
/// Bytes of a header block that mean something. They fit into the smallest sector, so that a header
/// block is written as a whole or not at all.
pub const HEADER_BYTES: usize = 512;
/// Distance of the two header blocks, whatever the sector: at most one sector of 4,096 bytes each.
pub const HEADER_DISTANCE: u64 = 4096;
/// Bytes of an area before its entries.
pub const DATA_OFFSET: u64 = 2 * HEADER_DISTANCE;
/// Longest area: positions then count 2^20 rounds of it before they end.
pub const DATA_BYTES_MAX: u64 = 1 << 44;
/// Least space for entries: the longest one, and the sectors that it shares, fit in twice.
pub const DATA_SECTORS_MIN: u64 = 8;
/// Most bytes behind the acknowledged end that entries may begin in. Recovery may look through as
/// many to tell a torn tail from damage.
pub const WINDOW_BYTES_MAX: u64 = 256 << 20;
/// Where positions end. At 10 GB/s that is 29 years away.
pub const POSITION_MAX: u64 = 1 << 63;

/// Bytes that an entry takes with `payload` bytes: header, payload, and up to the next multiple of 8.
pub fn entry_bytes(payload: u64) -> u64 {
    (ENTRY_BYTES + payload).next_multiple_of(ENTRY_ALIGNMENT)
}

/// An entry's place in the log: where it begins, and how many were written before it.
///
/// Positions rise for ever; the byte at position `p` lies at `p` modulo the data bytes of the area.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position {
    /// Bytes of the log before this entry, over all rounds.
    pub at: u64,
    /// Entries of the log before this entry, fillers included.
    pub sequence: u64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (entry {})", self.at, self.sequence)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "format/tests.rs"]
mod tests;

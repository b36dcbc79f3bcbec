//! What is chosen when a log is made or opened.

use std::time::Duration;

use crate::area::Layout;
use crate::format::{Header, Position, DATA_SECTORS_MIN, ENTRY_BYTES, WINDOW_BYTES_MAX};
use crate::memory::whole_pages;

/// Bytes of memory that a log uses for what is not yet durable, unless somebody says otherwise.
pub const WINDOW_BYTES: u64 = 4 << 20;
/// An entry takes at most this part of the window, so that several are under way.
const ENTRIES_PER_WINDOW: u64 = 4;
/// Batches under way at once where a device is slow.
const IN_FLIGHT: usize = 4;
/// Where a batch takes less than this, one at a time is best: what comes meanwhile shares the next
/// flush, and each can be a system call of its own.
const OVERLAP_FROM: Duration = Duration::from_micros(250);
/// A checkpoint is written at least each such part of the area, within these bounds.
const CHECKPOINTS_PER_ROUND: u64 = 16;
const CHECKPOINT_BYTES_MIN: u64 = 64 << 10;
const CHECKPOINT_BYTES_MAX: u64 = 16 << 20;

/// How a log is made and driven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Bytes of memory for what is not yet durable; counts when the log is made, and is cut to what
    /// the area allows. The longest payload is a quarter of it.
    pub window_bytes: u64,
    /// Batches under way at once, 1 at least and as the device allows.
    pub in_flight: usize,
    /// Another batch is begun beside one that is under way only where batches take so long.
    pub overlap_from: Duration,
    /// The header's end lags at most so many bytes behind, and recovery reads as many; 0 leaves it
    /// to the size of the area.
    pub checkpoint_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            window_bytes: WINDOW_BYTES,
            in_flight: IN_FLIGHT,
            overlap_from: OVERLAP_FROM,
            checkpoint_bytes: 0,
        }
    }
}

impl Options {
    /// The header of a new log.
    pub(crate) fn new_header(&self, layout: Layout, identity: [u8; 16]) -> Header {
        let least = DATA_SECTORS_MIN * layout.sector;
        let most = self.window_bytes.clamp(least, WINDOW_BYTES_MAX);
        let window_bytes = whole_pages(most.min(layout.data_bytes));
        let longest = window_bytes / ENTRIES_PER_WINDOW - ENTRY_BYTES;
        Header {
            sector_bytes: layout.sector as u32,
            identity,
            data_bytes: layout.data_bytes,
            window_bytes,
            counter: 1,
            generation: 1,
            longest: longest as u32,
            begin: Position::default(),
            end: Position::default(),
            marks: Default::default(),
        }
    }

    /// How far the durable end may go before the header says so.
    pub(crate) fn checkpoint_bytes(&self, data_bytes: u64) -> u64 {
        match self.checkpoint_bytes {
            0 => (data_bytes / CHECKPOINTS_PER_ROUND)
                .clamp(CHECKPOINT_BYTES_MIN, CHECKPOINT_BYTES_MAX),
            bytes => bytes,
        }
    }
}

//! A ring's memory: mapped by us beside the program's own mapping, or the program's (NO_MMAP).

use std::sync::atomic::Ordering::Acquire;

use heliostat_base::mapping::SharedMapping;

use super::layout::{Shape, ENTRY_BYTES};
use super::{Program, Unseen};

/// Where the ring and its entries begin (source: linux/io_uring.h, IORING_OFF_SQ_RING and SQES).
const OFFSET_RING: usize = 0;
const OFFSET_ENTRIES: usize = 0x1000_0000;

/// How a submission queue is reached.
pub(crate) enum Memory {
    /// By mappings of our own, which are there as long as we have them.
    Own {
        /// Head, tail and array.
        ring: SharedMapping,
        /// The entries.
        entries: SharedMapping,
    },
    /// Where the program keeps it.
    Given {
        /// Head, tail and array.
        ring: u64,
        /// The entries.
        entries: u64,
    },
}

impl Memory {
    /// The memory that the program has given the ring, if it has.
    pub fn given(shape: &Shape) -> Option<Self> {
        shape.given().map(|(ring, entries)| Self::Given { ring, entries })
    }

    /// The memory of the ring behind `fd`.
    pub fn of(fd: i32, shape: &Shape) -> Result<Self, Unseen> {
        if let Some(given) = Self::given(shape) {
            return Ok(given);
        }
        let map = |offset, bytes| SharedMapping::of_ring(fd, offset, bytes).map_err(|_| Unseen);
        Ok(Self::Own {
            ring: map(OFFSET_RING, shape.ring_bytes())?,
            entries: map(OFFSET_ENTRIES, shape.entries_bytes())?,
        })
    }

    /// A word of the ring; `None` when it is not there.
    pub fn word(&self, offset: usize, program: &impl Program) -> Option<u32> {
        match self {
            Self::Own { ring, .. } => Some(ring.atomic_u32(offset).load(Acquire)),
            Self::Given { ring, .. } => {
                let mut bytes = [0; 4];
                let is_there = program.fetch(ring.wrapping_add(offset as u64), &mut bytes);
                is_there.then(|| u32::from_le_bytes(bytes))
            }
        }
    }

    /// Copies the entry at `offset` out.
    pub fn fetch_entry(
        &self,
        offset: usize,
        room: &mut [u8; ENTRY_BYTES],
        program: &impl Program,
    ) -> Option<()> {
        match self {
            Self::Own { entries, .. } => entries.copy_out(offset, room).ok(),
            Self::Given { entries, .. } => {
                program.fetch(entries.wrapping_add(offset as u64), room).then_some(())
            }
        }
    }

    /// Copies an entry back.
    pub fn store_entry(
        &self,
        offset: usize,
        bytes: &[u8; ENTRY_BYTES],
        program: &impl Program,
    ) -> Option<()> {
        match self {
            Self::Own { entries, .. } => entries.copy_in(offset, bytes).ok(),
            Self::Given { entries, .. } => {
                program.store(entries.wrapping_add(offset as u64), bytes).then_some(())
            }
        }
    }
}

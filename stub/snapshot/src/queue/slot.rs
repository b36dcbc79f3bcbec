//! A slot of the window, while the producer writes an item in it.

use heliostat_base::mapping::OutOfRange;

use super::producer::Queue;
use super::QueueError;

/// A slot that nobody reads, until it is committed; dropped, its number goes to the next item.
pub struct Slot<'a> {
    queue: &'a mut Queue,
    slot: usize,
}

impl<'a> Slot<'a> {
    pub(super) fn of(queue: &'a mut Queue, slot: usize) -> Self {
        Self { queue, slot }
    }

    /// First byte, for writing in place: as many as an item may have, which hold whatever an
    /// earlier item left. Good until the slot is committed or dropped.
    pub fn as_ptr(&self) -> *mut u8 {
        self.queue.pool.as_ptr().wrapping_add(self.queue.table.shape.slot(self.slot))
    }

    /// Copies bytes to `offset` of the item.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfRange> {
        OutOfRange::check(offset, bytes.len(), self.queue.settings.item_bytes as usize)?;
        self.queue.pool.copy_in(self.queue.table.shape.slot(self.slot) + offset, bytes)
    }

    /// Makes the first `len` bytes known as an item; answers its number. Wakes who sleeps.
    pub fn commit(self, len: usize) -> Result<u64, QueueError> {
        self.queue.check_length(len)?;
        Ok(self.queue.commit(self.slot, len))
    }
}

//! Memory of a queue: slots that hold items, a table that says which, and each consumer's page.
//!
//! ```text
//! pool   slot 0, slot 1, ..   each `slot_bytes` rounded up to 64
//! table  0     magic u32, version u32, generation u64, slot_bytes u64, slots u32, delivery u32
//!        64    head u64             number behind the newest item
//!        132   closed u32           1 once the producer has ended the queue
//!        256   description          as in a region's table: length u32, then so many bytes
//!        4096  one entry per slot, 64 bytes each:
//!              mark u64 (number of its item + 1; 0 while it is written), length u64,
//!              ordinal u64 (items before it), to u64 (handle of the one who gets it; 0 for all)
//! page   0     magic u32, version u32;  68 armed u32, waited u32; 80 handle u64
//!        128   cursor u64           no item below it is wanted any more
//!        192   hold u64             mark of the item being read, 0 for none
//! ```
//!
//! Pool and table are written by the producer alone, and consumers map them read-only. A page is
//! written by its consumer; the producer writes `handle` and `waited` in it and clears `armed`. Item
//! `n` lies in slot `n % slots` or nowhere: a number may be left out.

use crate::wire::{Reader, Writer};

/// First four bytes of a queue's table: "HSQT".
pub const TABLE_MAGIC: u32 = u32::from_le_bytes(*b"HSQT");
/// First four bytes of a consumer's page: "HSQC".
pub const PAGE_MAGIC: u32 = u32::from_le_bytes(*b"HSQC");
/// Fewest slots: one that is read and one that is written.
pub const SLOTS_MIN: usize = 2;
/// Most slots: a table of 4 MiB.
pub const SLOTS_MAX: usize = 1 << 16;
/// Largest pool.
pub const POOL_BYTES_MAX: u64 = 1 << 40;
/// Bytes of a table's head.
pub const HEAD_BYTES: usize = 32;
/// Offset in the table of the number behind the newest item.
pub const HEAD: usize = 64;
/// Offset in the table of the word that is 1 once the producer has ended the queue.
pub const CLOSED: usize = 132;
/// Offset in an entry of the mark.
pub const MARK: usize = 0;
/// Offset in an entry of the item's length.
pub const LENGTH: usize = 8;
/// Offset in an entry of the count of items before this one.
pub const ORDINAL: usize = 16;
/// Offset in an entry of the handle of the consumer that gets the item.
pub const TO: usize = 24;
/// Offset in a page of the word that is 1 while its consumer wants a ring.
pub const ARMED: usize = crate::snapshot::memory::ARMED;
/// Offset in a page of the word that is 1 while the producer wants a ring.
pub const WAITED: usize = 72;
/// Offset in a page of the consumer's handle, 0 before it has one. No two consumers of a queue have
/// the same.
pub const HANDLE: usize = 80;
/// Offset in a page of the cursor.
pub const CURSOR: usize = 128;
/// Offset in a page of the mark of the item being read.
pub const HOLD: usize = 192;
/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Shape of a queue, from its table's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Counts producers of this queue.
    pub generation: u64,
    /// Most bytes of an item.
    pub slot_bytes: u64,
    /// Slots of the window.
    pub slots: u32,
    /// Each item goes to one consumer instead of to all.
    pub is_dealt: bool,
}

impl Shape {
    /// A shape; `None` beyond a limit.
    pub fn new(generation: u64, slot_bytes: u64, slots: u32, is_dealt: bool) -> Option<Self> {
        let total = slot_bytes.checked_next_multiple_of(64)?.checked_mul(u64::from(slots))?;
        let fits = slot_bytes > 0
            && (SLOTS_MIN..=SLOTS_MAX).contains(&(slots as usize))
            && total <= POOL_BYTES_MAX;
        fits.then_some(Self { generation, slot_bytes, slots, is_dealt })
    }

    /// Offset in the pool of slot `index`.
    pub fn slot(&self, index: usize) -> usize {
        index * self.slot_bytes.next_multiple_of(64) as usize
    }

    /// Offset in the table of the entry of slot `index`.
    pub fn entry(&self, index: usize) -> usize {
        4096 + index * 64
    }

    /// Bytes of the pool.
    pub fn pool_bytes(&self) -> usize {
        self.slot(self.slots as usize).next_multiple_of(4096)
    }

    /// Bytes of the table.
    pub fn table_bytes(&self) -> usize {
        self.entry(self.slots as usize).next_multiple_of(4096)
    }

    /// The head of a table.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let mut w = Writer::new(&mut bytes);
        w.u32(TABLE_MAGIC).u32(u32::from(crate::VERSION)).u64(self.generation);
        w.u64(self.slot_bytes).u32(self.slots).u32(u32::from(self.is_dealt));
        bytes
    }

    /// The shape in foreign bytes; `None` when they are no queue's head.
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let mut r = Reader::new(bytes);
        let is_queue = r.u32() == TABLE_MAGIC && r.u32() == u32::from(crate::VERSION);
        let (generation, slot_bytes, slots, dealt) = (r.u64(), r.u64(), r.u32(), r.u32());
        let shape = Self::new(generation, slot_bytes, slots, dealt == 1)?;
        (is_queue && dealt <= 1).then_some(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_round_trips_and_nothing_else_is_taken_for_one() {
        let shape = Shape::new(3, 100, 5, true).unwrap();
        let bytes = shape.encode();
        assert_eq!(Shape::decode(&bytes), Some(shape));
        for (at, value) in [(0, 0), (4, 9), (24, 1), (28, 2), (23, 1)] {
            let mut changed = bytes;
            changed[at] = value;
            assert_eq!(Shape::decode(&changed), None, "byte {at}");
        }
    }

    #[test]
    fn limits_are_kept_and_slots_do_not_touch() {
        assert_eq!(Shape::new(1, 0, 2, false), None);
        assert_eq!(Shape::new(1, 1, 1, false), None);
        assert_eq!(Shape::new(1, 1, SLOTS_MAX as u32 + 1, false), None);
        assert_eq!(Shape::new(1, u64::MAX, 2, false), None);
        assert_eq!(Shape::new(1, POOL_BYTES_MAX, 2, false), None);
        let shape = Shape::new(1, 65, 7, false).unwrap();
        assert!(shape.slot(6) + 65 <= shape.pool_bytes() && shape.slot(1) >= 65);
        assert!(shape.entry(6) + 64 <= shape.table_bytes());
    }
}

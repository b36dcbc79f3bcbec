//! Where the parts of a submission queue lie, as io_uring_setup(2) says.

use super::Unseen;

/// Length of `struct io_uring_params` (source: linux/io_uring.h, like all numbers here).
pub const PARAMS_BYTES: usize = 120;
/// Length of an entry's part that is looked at; with SQE128 as much again follows.
pub const ENTRY_BYTES: usize = 64;
/// No ring has more entries (source: IORING_MAX_ENTRIES, doubled for completions).
const ENTRIES_MAX: u32 = 1 << 16;

const SETUP_SQPOLL: u32 = 1 << 1;
const SETUP_SQE128: u32 = 1 << 10;
const SETUP_NO_MMAP: u32 = 1 << 14;
const SETUP_REGISTERED_FD_ONLY: u32 = 1 << 15;
const SETUP_NO_SQARRAY: u32 = 1 << 16;
/// Up to CQE_MIXED. Later ones lay entries out in other ways, or may.
const SETUP_KNOWN: u32 = (1 << 19) - 1;

const AT_ENTRIES: usize = 0;
const AT_FLAGS: usize = 8;
const AT_HEAD: usize = 40;
const AT_TAIL: usize = 44;
const AT_ARRAY: usize = 64;
const AT_ENTRIES_ADDRESS: usize = 72;
const AT_RING_ADDRESS: usize = 112;

/// A submission queue's shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// A power of two.
    pub entries: u32,
    /// Offset in the ring of the first entry that the kernel has not taken.
    pub head: usize,
    /// Offset of the end of those that the program has filled in.
    pub tail: usize,
    /// Offset of the array that says which entries these are, if the ring has one.
    pub array: Option<usize>,
    /// From one entry to the next.
    pub stride: usize,
    flags: u32,
    ring_address: u64,
    entries_address: u64,
}

impl Shape {
    /// What the kernel has filled in; refused for a ring whose entries nobody submits, and for one
    /// of a kind that is not known.
    pub fn of(params: &[u8; PARAMS_BYTES]) -> Result<Self, Unseen> {
        let flags = number(params, AT_FLAGS);
        let entries = number(params, AT_ENTRIES);
        let is_known = flags & !SETUP_KNOWN == 0 && flags & SETUP_SQPOLL == 0;
        if !is_known || !entries.is_power_of_two() || entries > ENTRIES_MAX {
            return Err(Unseen);
        }
        let offset = |at| number(params, at) as usize;
        let address = |at| u64::from(number(params, at)) | u64::from(number(params, at + 4)) << 32;
        Ok(Self {
            entries,
            head: offset(AT_HEAD),
            tail: offset(AT_TAIL),
            array: (flags & SETUP_NO_SQARRAY == 0).then(|| offset(AT_ARRAY)),
            stride: if flags & SETUP_SQE128 == 0 { ENTRY_BYTES } else { 2 * ENTRY_BYTES },
            flags,
            ring_address: address(AT_RING_ADDRESS),
            entries_address: address(AT_ENTRIES_ADDRESS),
        })
    }

    /// The ring has no descriptor, only a place among the thread's registered ones.
    pub fn is_place(&self) -> bool {
        self.flags & SETUP_REGISTERED_FD_ONLY != 0
    }

    /// Addresses of the ring and of its entries, where their memory is the program's own.
    pub fn given(&self) -> Option<(u64, u64)> {
        let is_given = self.flags & SETUP_NO_MMAP != 0;
        is_given.then_some((self.ring_address, self.entries_address))
    }

    /// Bytes of the ring that are looked at.
    pub fn ring_bytes(&self) -> usize {
        let array_end = self.array.map_or(0, |array| array + self.entries as usize * 4);
        array_end.max(self.head + 4).max(self.tail + 4)
    }

    /// Bytes of all entries.
    pub fn entries_bytes(&self) -> usize {
        self.entries as usize * self.stride
    }
}

fn number(bytes: &[u8; PARAMS_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|place| bytes[at + place]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(entries: u32, flags: u32) -> [u8; PARAMS_BYTES] {
        let mut params = [0; PARAMS_BYTES];
        for (at, value) in [(AT_ENTRIES, entries), (AT_FLAGS, flags), (AT_TAIL, 4), (AT_ARRAY, 64)]
        {
            params[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        params
    }

    #[test]
    fn a_plain_ring_has_an_array_and_short_entries() {
        let shape = Shape::of(&params(8, 0)).unwrap();
        assert_eq!((shape.array, shape.stride, shape.tail), (Some(64), 64, 4));
        assert_eq!((shape.ring_bytes(), shape.entries_bytes()), (96, 512));
        assert!(shape.given().is_none() && !shape.is_place());
    }

    #[test]
    fn long_entries_and_no_array_are_seen_by_the_flags() {
        let shape = Shape::of(&params(8, SETUP_SQE128 | SETUP_NO_SQARRAY)).unwrap();
        assert_eq!((shape.array, shape.stride, shape.ring_bytes()), (None, 128, 8));
    }

    #[test]
    fn polled_rings_and_unknown_kinds_are_refused() {
        for (entries, flags) in [(8, SETUP_SQPOLL), (8, 1 << 19), (8, 1 << 31), (0, 0), (6, 0)] {
            assert_eq!(Shape::of(&params(entries, flags)), Err(Unseen), "{entries} {flags:#x}");
        }
    }
}

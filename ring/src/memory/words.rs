//! Ordinary memory behind the ring protocol, for loom.
//!
//! Every word of the data exists twice, as an atomic for headers and as a plain cell for payload, so
//! that loom reports a payload access that no release and acquire orders as the data race it is.

use std::sync::Arc;

use super::{Memory, Word};
use crate::error::Side;
use crate::position::Geometry;
use crate::sync::{AtomicU32, AtomicU64, UnsafeCell};

/// A ring of a few words.
pub(crate) struct WordMemory {
    geometry: Geometry,
    head: AtomicU64,
    tail: AtomicU64,
    bells: [AtomicU32; 2],
    headers: Vec<AtomicU64>,
    payload: Vec<UnsafeCell<u64>>,
}

impl WordMemory {
    pub(crate) fn new(capacity: u64) -> Arc<WordMemory> {
        let words = capacity as usize / 8;
        Arc::new(WordMemory {
            geometry: Geometry::small(capacity).expect("a power of two"),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            bells: [AtomicU32::new(0), AtomicU32::new(0)],
            headers: (0..words).map(|_| AtomicU64::new(0)).collect(),
            payload: (0..words).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    fn cell(&self, at: usize) -> &UnsafeCell<u64> {
        &self.payload[at / 8 % self.payload.len()]
    }
}

// SAFETY: loom runs one thread at a time and checks every cell access for an ordering.
unsafe impl Send for WordMemory {}
// SAFETY: as above.
unsafe impl Sync for WordMemory {}

// SAFETY: ordinary vectors, indexed with bounds checks.
unsafe impl Memory for WordMemory {
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn word(&self, word: Word) -> &AtomicU64 {
        match word {
            Word::Head => &self.head,
            Word::Tail => &self.tail,
        }
    }
    fn bell(&self, side: Side) -> &AtomicU32 {
        &self.bells[usize::from(side == Side::Producer)]
    }
    fn header(&self, index: usize) -> &AtomicU64 {
        &self.headers[index / 8]
    }
    fn fill(&self, at: usize, bytes: &[u8]) {
        let value = u64::from(bytes[0]);
        // SAFETY: loom checks that nobody else accesses the cell.
        self.cell(at).with_mut(|cell| unsafe { *cell = value });
    }
    fn read(&self, at: usize, into: &mut [u8]) {
        // Read through `with_mut`: loom then also reports a second reader of an element.
        // SAFETY: as in `fill`.
        into[0] = self.cell(at).with_mut(|cell| unsafe { *cell }) as u8;
    }
    fn data(&self) -> *mut u8 {
        std::ptr::null_mut()
    }
    fn claim(&self, _side: Side) -> bool {
        true
    }
    fn unclaim(&self, _side: Side) {}
}

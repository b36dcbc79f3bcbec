//! Places in the window, one for each operation that is under way.
//!
//! ```text
//! slot n at n * 2 * AREA_BYTES    [what comes in: a call with its head, or a reply][what goes out]
//! ```
//! A slot is given back last and taken first: pages that nobody has touched stay unused.

use std::sync::{Arc, Mutex, PoisonError};

use heliostat_abi::file::delegated::Piece;
use heliostat_abi::rpc::limits::{PAYLOAD_BYTES_MAX, WINDOW_BYTES_MAX};
use heliostat_abi::rpc::HEAD_BYTES;
use heliostat_base::mapping::{OutOfRange, SharedMapping};

/// The longest payload with its head, in whole pages.
const AREA_BYTES: usize = (PAYLOAD_BYTES_MAX as usize + HEAD_BYTES).next_multiple_of(4096);
pub(crate) const SLOT_BYTES: usize = 2 * AREA_BYTES;
/// Operations of a process at once: half of what its rings hold, so that there is always room to
/// reply and to cancel.
pub(crate) const SLOTS_MAX: usize = 128;
const _: () = assert!((SLOT_BYTES * SLOTS_MAX) as u64 <= WINDOW_BYTES_MAX);

/// The slots of a window.
pub(crate) struct Slots {
    window: SharedMapping,
    free: Mutex<Vec<usize>>,
    count: usize,
}

/// A slot, until it is dropped. Nothing may be under way to it then.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    number: usize,
}

impl Slots {
    pub(crate) fn new(window: SharedMapping) -> Arc<Slots> {
        let count = window.len() / SLOT_BYTES;
        let free = Mutex::new((0..count).rev().collect());
        Arc::new(Slots { window, free, count })
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// A slot, if one is free.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Slot> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let number = free.pop()?;
        Some(Slot { slots: self.clone(), number })
    }
}

impl Slot {
    /// Where so many bytes come in.
    pub(crate) fn incoming(&self, bytes: usize) -> Piece {
        self.piece(0, bytes)
    }

    /// Where so many bytes go out from.
    pub(crate) fn outgoing(&self, bytes: usize) -> Piece {
        self.piece(AREA_BYTES, bytes)
    }

    fn piece(&self, at: usize, bytes: usize) -> Piece {
        let bytes = bytes.min(AREA_BYTES) as u32;
        Piece { offset: (self.number * SLOT_BYTES + at) as u64, bytes }
    }

    /// Puts what goes out.
    pub(crate) fn put(&self, payload: &[u8]) -> Result<(), OutOfRange> {
        self.slots.window.copy_in(self.outgoing(0).offset as usize, payload)
    }

    /// Takes of what came in the bytes from a place on.
    pub(crate) fn take(&self, from: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        self.slots.window.copy_out(self.incoming(0).offset as usize + from, into)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

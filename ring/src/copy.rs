//! Moving bytes by the engine that fits their number.
//!
//! Short copies go through the cache, because the other side reads them next. Long ones may go
//! around it (non-temporal stores), because pulling the target into the cache costs a read of
//! every line that is about to be overwritten, and evicts what both sides need. Where the border
//! lies depends on the machine, so it is measured at start ([`calibrate`]) and can be shown
//! ([`nontemporal_from`]). A device's DMA engine is one more [`CopyEngine`].

mod calibration;
mod engine;

use std::sync::atomic::{AtomicUsize, Ordering};

pub use calibration::{calibrate, measure, Sample};
pub use engine::{engines, CopyEngine, Memcpy, NonTemporal};

/// Copies of at least this many bytes go around the cache. Until [`calibrate`] has run: none.
///
/// A plain std atomic on purpose: it is a setting, and no ordering hangs on it.
static NONTEMPORAL_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);

/// From how many bytes on copies go around the cache; `usize::MAX` means never.
pub fn nontemporal_from() -> usize {
    NONTEMPORAL_FROM.load(Ordering::Relaxed)
}

/// Sets the border by hand (configuration, tests).
pub fn set_nontemporal_from(bytes: usize) {
    NONTEMPORAL_FROM.store(bytes, Ordering::Relaxed);
}

/// Copies between private and shared memory with the fitting engine.
///
/// # Safety
/// `into` is valid for writing and `from` for reading `len` bytes, and they do not overlap. One
/// of them may be shared with a process that writes it meanwhile; the bytes are then any mixture.
#[inline(always)]
pub unsafe fn move_bytes(into: *mut u8, from: *const u8, len: usize) {
    if len >= nontemporal_from() {
        // SAFETY: the caller's promise is exactly what the engine asks for.
        unsafe { NonTemporal.copy(into, from, len) };
    } else {
        // SAFETY: as above. A peer that writes at the same time changes values only; no reference
        // to the bytes exists, and `settle` keeps the compiler from reading them twice.
        unsafe { std::ptr::copy_nonoverlapping(from, into, len) };
    }
    heliostat_base::mapping::settle(into);
}

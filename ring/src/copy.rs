//! Moving bytes by the engine that fits their number.
//!
//! Short copies go through the cache, because the other side reads them next. Long ones may go
//! around it (non-temporal stores), because pulling the target into the cache costs a read of
//! every line that is about to be overwritten, and evicts what both sides need. Where the border
//! lies depends on the machine, so it is measured at start ([`calibrate_quickly`]) and can be shown
//! ([`nontemporal_from`]). A device's DMA engine is one more [`CopyEngine`].

mod calibration;
mod engine;

use std::sync::atomic::{AtomicUsize, Ordering};

use heliostat_base::mapping::{OutOfRange, SharedMapping};

pub use calibration::{calibrate, calibrate_quickly, measure, Sample};
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

/// Copies `len` bytes from one region to another, as a part of `whole` bytes that go there: what fits
/// the whole is right for each part, however small.
///
/// # Errors
/// They do not lie in the regions, or the second is mapped for reading.
#[inline]
pub fn copy_part(
    (from, at): (&SharedMapping, usize),
    (into, to): (&SharedMapping, usize),
    len: usize,
    whole: u64,
) -> Result<(), OutOfRange> {
    // A region may overlap itself, which the engine is not for.
    if whole < nontemporal_from() as u64 || std::ptr::eq(from, into) {
        return from.copy_to(at, into, to, len);
    }
    let (source, target) = (from.bytes_at(at, len)?, into.writable_at(to, len)?);
    // SAFETY: both are valid for `len` bytes and the second is writable (checked above); two
    // mappings have no address in common.
    unsafe { NonTemporal.copy(target, source, len) };
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since the border is the process's.
    #[test]
    fn parts_are_copied_alike_on_both_sides_of_the_border() {
        let (_a, from) = SharedMapping::create(c"from", 8192).unwrap();
        let (_b, into) = SharedMapping::create(c"into", 8192).unwrap();
        from.copy_in(5, &[7; 3000]).unwrap();
        let before = nontemporal_from();
        for border in [usize::MAX, 4096, 0] {
            set_nontemporal_from(border);
            for (to, len, whole) in [(100, 3000, 1 << 20), (4099, 64, 64), (1, 0, 0)] {
                into.zero(0, 8192).unwrap();
                copy_part((&from, 5), (&into, to), len, whole).unwrap();
                let mut found = vec![0; 8192];
                into.copy_out(0, &mut found).unwrap();
                let wanted = |at: usize| if (to..to + len).contains(&at) { 7 } else { 0 };
                assert!(found.iter().enumerate().all(|(at, byte)| *byte == wanted(at)));
            }
            copy_part((&from, 5), (&from, 6), 3000, 1 << 20).unwrap();
            assert!(copy_part((&from, 8000), (&into, 0), 200, 1 << 20).is_err());
            assert!(copy_part((&from, 0), (&into, 8000), 200, 1 << 20).is_err());
        }
        set_nontemporal_from(before);
    }
}

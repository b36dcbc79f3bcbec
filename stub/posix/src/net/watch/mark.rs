//! Event data under which the kernel's epoll sets report our shadows.
//!
//! ```text
//! 63 .. 32   the mark, the same in every process
//! 31 .. 17   the interest's number: another one for each
//! 16 .. 0    its place in the set
//! ```
//!
//! A set may outlive its process (exec) or be used by several (fork, SCM_RIGHTS), and what one of
//! them registered is reported to all. So the mark is known to all, and events that carry it are
//! given to no program; the number tells whether they are of a registration that still stands here.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use heliostat_base::clock;

/// An address that no program has (not canonical), and no small number.
const MARK: u64 = 0x9fd3_a6c5 << 32;
const PLACE_BITS: u32 = 17;
const NUMBER_BITS: u32 = 15;
/// Interests of one set at most.
pub const PLACES_MAX: usize = 1 << PLACE_BITS;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Numbers begin elsewhere in every process, those of forked children included.
pub fn begin() {
    NEXT.store((clock::cycles().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32, Relaxed);
}

/// A number for an interest.
pub fn number() -> u32 {
    NEXT.fetch_add(1, Relaxed) & ((1 << NUMBER_BITS) - 1)
}

/// The event data of interest `number` at `place`, which is below `PLACES_MAX`.
pub fn data(number: u32, place: usize) -> u64 {
    MARK | u64::from(number) << PLACE_BITS | place as u64
}

/// True for event data of ours, whichever process's.
pub fn is_ours(data: u64) -> bool {
    data >> 32 == MARK >> 32
}

/// The place that event data of ours names.
pub fn place(data: u64) -> usize {
    (data & (PLACES_MAX as u64 - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_ours_names_its_place_and_its_number_and_is_known_for_ours() {
        let (one, other) = (data(number(), PLACES_MAX - 1), data(number(), PLACES_MAX - 1));
        assert!(is_ours(one) && is_ours(other) && one != other);
        assert_eq!((place(one), place(other)), (PLACES_MAX - 1, PLACES_MAX - 1));
        assert!(!is_ours(0) && !is_ours(u64::MAX) && !is_ours(0x7fff_ffff_ffff));
    }
}

//! The presence page of a session: how many of its threads are in which region that it has mapped.
//!
//! ```text
//! row 0   counter u64 x PRESENCE_SLOTS   by a handle's index
//! row 1   ...                            threads have rows, so that they do not share lines
//! ```
//!
//! The program writes it: one more before it looks at a region's word, one less when it is done. The
//! control plane, which made the page, adds the rows up where a region is to be moved. A program that
//! writes nonsense keeps its own regions from being moved, or harms bytes of its own user.

use crate::name::ObjectId;

/// Counters of one row. Handles whose index is the same by this modulus share one.
pub const PRESENCE_SLOTS: usize = 512;
/// Rows. Threads of a program take them in turns.
pub const PRESENCE_ROWS: usize = 8;
/// Bytes of the page.
pub const PRESENCE_BYTES: usize = PRESENCE_SLOTS * PRESENCE_ROWS * 8;

/// Where the counter of a handle lies in a row. Rows beyond the last begin again.
pub const fn counter_at(handle: ObjectId, row: usize) -> usize {
    ((row % PRESENCE_ROWS) * PRESENCE_SLOTS + handle.index as usize % PRESENCE_SLOTS) * 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_lie_in_the_page_and_apart() {
        let handle = |index| ObjectId { index, generation: 1 };
        let mut all: Vec<_> = (0..PRESENCE_ROWS)
            .flat_map(|row| (0..PRESENCE_SLOTS as u32).map(move |it| counter_at(handle(it), row)))
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len() * 8, PRESENCE_BYTES);
        assert_eq!(all.last().map(|at| at + 8), Some(PRESENCE_BYTES));
        assert_eq!(counter_at(handle(u32::MAX), usize::MAX), PRESENCE_BYTES - 8);
    }
}

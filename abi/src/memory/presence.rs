//! The presence page of a session: how many of its threads are in which region that it has mapped.
//!
//! ```text
//! 0      rows in use u64
//! 4096   counter u64 x PRESENCE_SLOTS   of all threads, by a handle's index: locked additions
//! 8192   row 0 ...                      of one thread each, which adds without a lock
//! ```
//!
//! The program writes it: one more before it looks at a region's word, one less when it is done. The
//! control plane, which made the page, looks at the counters of all threads and at the rows in use where a
//! region is to be moved. A program that writes nonsense keeps its own regions from being moved, or
//! harms bytes of its own user.

use crate::name::ObjectId;

/// Counters of one row. Handles whose index is the same by this modulus share one.
pub const PRESENCE_SLOTS: usize = 512;
/// Rows of threads. Threads beyond them share the counters in front of the rows.
pub const PRESENCE_ROWS: usize = 64;
/// Offset of the number of rows in use. Those behind them have never been written.
pub const ROWS_IN_USE: usize = 0;
/// Bytes of the page.
pub const PRESENCE_BYTES: usize = HEAD_BYTES + (1 + PRESENCE_ROWS) * ROW_BYTES;

const HEAD_BYTES: usize = 4096;
const ROW_BYTES: usize = PRESENCE_SLOTS * 8;

/// Where the counter of a handle lies that all threads share.
pub const fn shared_counter_at(handle: ObjectId) -> usize {
    HEAD_BYTES + slot(handle) * 8
}

/// Where the counter of a handle lies in a row. Rows beyond the last begin again.
pub const fn counter_at(handle: ObjectId, row: usize) -> usize {
    HEAD_BYTES + (1 + row % PRESENCE_ROWS) * ROW_BYTES + slot(handle) * 8
}

const fn slot(handle: ObjectId) -> usize {
    handle.index as usize % PRESENCE_SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_lie_in_the_page_and_apart() {
        let handle = |index| ObjectId { index, generation: 1 };
        let slots = 0..PRESENCE_SLOTS as u32;
        let mut all: Vec<_> = slots.clone().map(|it| shared_counter_at(handle(it))).collect();
        all.extend(
            (0..PRESENCE_ROWS)
                .flat_map(|row| slots.clone().map(move |it| counter_at(handle(it), row))),
        );
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len() * 8, PRESENCE_BYTES - HEAD_BYTES);
        assert_eq!(all.first(), Some(&HEAD_BYTES), "behind the number of rows");
        assert_eq!(all.last().map(|at| at + 8), Some(PRESENCE_BYTES));
        assert_eq!(counter_at(handle(u32::MAX), usize::MAX), PRESENCE_BYTES - 8);
    }
}

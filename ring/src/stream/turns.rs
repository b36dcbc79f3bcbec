//! Whose a socket is that a loop moves bytes of: the loop's for a turn, or its program's for good.
//!
//! ```text
//! loop      0 -> 1, moves bytes, says so in both lanes, 1 -> 0         (T1)
//! program   0 -> 2: no turn begins any more, and the lanes are exact   (T1)
//! ```
//! The word lies in the lane that the loop reads, beside other words of the loop's. So a program takes
//! its connection back from a loop that does not answer, unless that was stopped within a turn.

use heliostat_abi::stream::channel::direction as at;

use super::{Lane, Place};
use crate::sync::Ordering::{Acquire, Relaxed, SeqCst};

const FREE: u32 = 0;
const TURN: u32 = 1;
const TAKEN: u32 = 2;

impl<P: Place> Lane<P> {
    /// Loop: begins a turn; false once the program has taken the socket back.
    pub fn begin_turn(&self) -> bool {
        let word = self.place.u32(at::TURNS);
        word.compare_exchange(FREE, TURN, SeqCst, Relaxed).is_ok() // T1
    }

    /// Loop: all that it has moved stands in the lanes.
    pub fn end_turn(&self) {
        // T1. A program that has written here meanwhile has itself to thank for what it loses.
        let _ = self.place.u32(at::TURNS).compare_exchange(TURN, FREE, SeqCst, Relaxed);
    }

    /// Program: takes the socket back; false during a turn.
    pub fn take_turns(&self) -> bool {
        let word = self.place.u32(at::TURNS);
        let taken = word.compare_exchange(FREE, TAKEN, SeqCst, Acquire); // T1
        matches!(taken, Ok(_) | Err(TAKEN))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use heliostat_base::mapping::SharedMapping;

    use super::*;

    #[test]
    fn a_socket_is_taken_between_two_turns_and_no_turn_follows() {
        let (_, memory) = SharedMapping::create(c"lane", 8192).unwrap();
        let lane = Lane::new(&Arc::new(memory), 0, 4096, 4096).unwrap();
        lane.reset(0);
        assert!(lane.begin_turn());
        assert!(!lane.take_turns() && !lane.begin_turn());
        lane.end_turn();
        assert!(lane.take_turns() && lane.take_turns());
        assert!(!lane.begin_turn());
        lane.end_turn();
        assert!(!lane.begin_turn());
    }
}

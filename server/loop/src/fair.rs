//! Whose turn it is: deficit round robin between sessions that have something to do.
//!
//! Each turn a session may spend [`QUANTUM`] bytes more; what it overspends is taken from its next
//! turn, and what it leaves because it has nothing more to do is lost. So over a long time sessions
//! that want more than their share get equal bytes, and one that wants little is served in its next
//! turn, whatever the others want.

use std::collections::VecDeque;

/// Bytes of a turn. A quiet session waits for at most one turn of each busy one; 16 KiB from the
/// cache are some 2 us.
pub const QUANTUM: i64 = 16 * 1024;
/// What the smallest operation costs, in bytes: its handling takes as long as copying so many.
pub const COST_MIN: i64 = 4096;

/// The sessions that have something to do.
#[derive(Clone, Debug, Default)]
pub struct Fair {
    round: VecDeque<(u32, i64)>,
    is_in: Vec<bool>,
}

impl Fair {
    /// A session has something to do; nothing happens when it is in the round already.
    pub fn join(&mut self, session: u32) {
        let index = session as usize;
        if index >= self.is_in.len() {
            self.is_in.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.is_in[index], true) {
            self.round.push_back((session, 0));
        }
    }

    /// Sessions in the round.
    pub fn len(&self) -> usize {
        self.round.len()
    }

    /// Whether nobody has anything to do.
    pub fn is_empty(&self) -> bool {
        self.round.is_empty()
    }

    /// Begins the next session's turn: which it is, and what it may spend.
    pub fn begin(&mut self) -> Option<(u32, i64)> {
        self.forgive();
        let (session, left) = self.round.pop_front()?;
        Some((session, left.saturating_add(QUANTUM)))
    }

    /// When everybody is in debt, everybody's is cut by as much, so that no turn is empty.
    fn forgive(&mut self) {
        let least = self.round.iter().map(|(_, left)| *left).max().unwrap_or(0);
        if least.saturating_add(QUANTUM) <= 0 {
            self.round.iter_mut().for_each(|(_, left)| *left = left.saturating_sub(least));
        }
    }

    /// Ends that turn with what is left; `goes_on` puts it behind the others.
    pub fn end(&mut self, session: u32, left: i64, goes_on: bool) {
        if goes_on {
            // A turn that was not used up, say for want of tokens, is not saved for later.
            self.round.push_back((session, left.min(0)));
        } else if let Some(is_in) = self.is_in.get_mut(session as usize) {
            *is_in = false;
        }
    }

    /// A session has ended.
    pub fn leave(&mut self, session: u32) {
        self.round.retain(|(other, _)| *other != session);
        if let Some(is_in) = self.is_in.get_mut(session as usize) {
            *is_in = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves operations of the given costs for so many turns; answers what each session spent.
    fn serve(costs: &[i64], turns: usize) -> Vec<i64> {
        let (mut fair, mut spent) = (Fair::default(), vec![0; costs.len()]);
        (0..costs.len()).for_each(|session| fair.join(session as u32));
        for _ in 0..turns {
            let (session, mut left) = fair.begin().unwrap();
            while left > 0 {
                left -= costs[session as usize];
                spent[session as usize] += costs[session as usize];
            }
            fair.end(session, left, true);
        }
        spent
    }

    #[test]
    fn large_and_small_operations_get_equal_bytes() {
        let spent = serve(&[1 << 20, 4096, 100_000], 3000);
        let (least, most) = (spent.iter().min().unwrap(), spent.iter().max().unwrap());
        assert!(most - least <= 2 << 20, "{spent:?}");
    }

    #[test]
    fn one_alone_never_waits_for_its_debt() {
        let mut fair = Fair::default();
        fair.join(1);
        for _ in 0..3 {
            let (session, left) = fair.begin().unwrap();
            assert!(session == 1 && left == QUANTUM, "{left}");
            fair.end(session, left - (64 << 20), true);
        }
    }

    #[test]
    fn one_that_comes_late_waits_for_one_turn_of_each_other() {
        let mut fair = Fair::default();
        (0..3).for_each(|session| fair.join(session));
        fair.join(9);
        fair.join(9);
        let turns: Vec<u32> = std::iter::from_fn(|| {
            let (session, left) = fair.begin()?;
            fair.end(session, left - 5_000_000, session != 9);
            Some(session)
        })
        .take(7)
        .collect();
        assert_eq!(turns, [0, 1, 2, 9, 0, 1, 2]);
    }

    #[test]
    fn who_has_left_has_no_turn_and_may_come_again() {
        let mut fair = Fair::default();
        fair.join(4);
        fair.leave(4);
        assert!(fair.begin().is_none());
        fair.join(4);
        assert_eq!(fair.begin(), Some((4, QUANTUM)));
    }
}

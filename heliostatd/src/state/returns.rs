//! What other nodes have granted and is to be given back, until those nodes have taken it back.
//!
//! What a node has no time for, or did not hear of, it is told again: after a short time, and each time
//! after twice that. What it does not take back in all that time is forgotten here, and ends there with
//! the link.

use std::collections::BTreeMap;

/// How long it takes until something is given back that could not be; twice that after each time.
const RETRY_NS: u64 = 20_000_000;
/// The longest of these times.
const RETRY_NS_MAX: u64 = 5_000_000_000;
/// How often a node is told: some minutes in all.
const TRIES_MAX: u32 = 40;
/// How many are kept: as many as there are of all sessions, so that a program that takes and gives back
/// for a node that never answers has an end.
const KEPT_MAX: usize = 65_536;
/// How many of those that there was no place for come to their turn together: about what may be on the
/// way to a node. The others come later, so that a node that takes nothing back costs little time.
const PER_TURN: usize = 128;
/// How many are given back at once.
const AT_ONCE: usize = 1024;

/// Something that is to be given back.
#[derive(Clone, Copy, Debug)]
pub struct Return<T> {
    /// What.
    pub remote: T,
    /// How often it was tried.
    pub tries: u32,
}

/// All of them.
#[derive(Debug)]
pub struct Returns<T> {
    /// By when it is time.
    kept: BTreeMap<(u64, u64), Return<T>>,
    last: u64,
    /// Those that were given up.
    pub forgotten: u64,
}

impl<T> Default for Returns<T> {
    fn default() -> Self {
        Returns { kept: BTreeMap::new(), last: 0, forgotten: 0 }
    }
}

impl<T> Returns<T> {
    /// Keeps one that there was no place to try: that is no try.
    pub fn put_off(&mut self, now_ns: u64, kept: Return<T>) {
        let turns = (self.kept.len() / PER_TURN) as u64 + 1;
        let wait_ns = RETRY_NS.saturating_mul(turns).min(RETRY_NS_MAX);
        self.keep_until(now_ns.saturating_add(wait_ns), kept);
    }

    /// Keeps one that was tried in vain, unless that was often enough.
    pub fn keep(&mut self, now_ns: u64, Return { remote, tries }: Return<T>) {
        if tries >= TRIES_MAX {
            self.forgotten += 1;
            return;
        }
        let wait_ns = RETRY_NS.checked_shl(tries.min(16)).unwrap_or(RETRY_NS_MAX).min(RETRY_NS_MAX);
        self.keep_until(now_ns.saturating_add(wait_ns), Return { remote, tries: tries + 1 });
    }

    /// Some of those whose time it is.
    pub fn take(&mut self, now_ns: u64) -> Vec<Return<T>> {
        let mut due = Vec::new();
        while due.len() < AT_ONCE {
            match self.kept.first_entry() {
                Some(first) if first.key().0 <= now_ns => due.push(first.remove()),
                _ => break,
            }
        }
        due
    }

    /// When it is time for the first.
    pub fn next_ns(&self) -> Option<u64> {
        self.kept.keys().next().map(|(due_ns, _)| *due_ns)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    fn keep_until(&mut self, due_ns: u64, kept: Return<T>) {
        if self.kept.len() >= KEPT_MAX {
            self.forgotten += 1;
            return;
        }
        self.last += 1;
        self.kept.insert((due_ns, self.last), kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(remote: u64) -> Return<u64> {
        Return { remote, tries: 0 }
    }

    #[test]
    fn one_that_is_not_taken_back_is_tried_ever_later_and_then_forgotten() {
        let (mut returns, mut now, mut times) = (Returns::default(), 0, Vec::new());
        returns.keep(now, one(1));
        while let Some(due) = returns.next_ns() {
            assert!(returns.take(due - 1).is_empty());
            times.push(due - now);
            now = due;
            returns.take(now).into_iter().for_each(|kept| returns.keep(now, kept));
        }
        assert_eq!((times.len(), returns.forgotten), (TRIES_MAX as usize, 1));
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!((times[0], times[39]), (RETRY_NS, RETRY_NS_MAX));
    }

    #[test]
    fn one_that_was_put_off_has_all_its_tries_and_there_is_a_limit() {
        let mut returns = Returns::default();
        for number in 0..KEPT_MAX as u64 + 3 {
            returns.put_off(0, one(number));
        }
        assert_eq!((returns.len(), returns.forgotten), (KEPT_MAX, 3));
        let due = returns.take(u64::MAX);
        assert!(due.len() == AT_ONCE && due.iter().all(|kept| kept.tries == 0));
        assert_eq!(due[0].remote, 0, "in order");
    }

    /// A node that takes nothing back for as long as its link lasts.
    #[test]
    fn however_many_are_put_off_few_come_to_their_turn_in_a_second() {
        let mut returns = Returns::default();
        (0..KEPT_MAX as u64).for_each(|number| returns.put_off(0, one(number)));
        let mut turns = 0;
        while let Some(now) = returns.next_ns().filter(|now| *now <= 10_000_000_000) {
            for kept in returns.take(now) {
                turns += 1;
                returns.put_off(now, kept);
            }
        }
        assert!(turns <= 3 * KEPT_MAX, "{turns} in ten seconds");
        assert_eq!(returns.len(), KEPT_MAX);
    }
}

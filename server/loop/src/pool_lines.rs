//! Whose work a pool does next: a line for each holder, in turn, and a share of the threads for each.

use std::collections::{HashMap, VecDeque};

use heliostat_service_grant::{Holder, Quota, Shares};

/// What waits, and whose threads are away with one. Their lengths are for the pool's user to bound.
pub struct Lines<T> {
    lines: HashMap<Holder, VecDeque<T>>,
    /// Holders with a line, whose turn it is first.
    turns: VecDeque<Holder>,
    /// Threads that are away.
    away: Quota,
}

impl<T> Lines<T> {
    /// Nothing waits; the holders share the threads so.
    pub fn new(threads: Shares) -> Lines<T> {
        Lines { lines: HashMap::new(), turns: VecDeque::new(), away: Quota::new(threads) }
    }

    /// Puts something in its holder's line.
    pub fn push(&mut self, holder: Holder, item: T) {
        let line = self.lines.entry(holder).or_default();
        if line.is_empty() {
            self.turns.push_back(holder);
        }
        line.push_back(item);
    }

    /// What `find` takes out of the next line whose holder may have a thread, which is away from now
    /// on; where it finds nothing in a line, the next holder has its turn. Whoever has had it is the last.
    pub fn take(&mut self, mut find: impl FnMut(&mut VecDeque<T>) -> Option<T>) -> Option<T> {
        for _ in 0..self.turns.len() {
            let holder = self.turns.pop_front()?;
            let found = self.take_of(holder, &mut find);
            if self.lines.get(&holder).is_some_and(|line| !line.is_empty()) {
                self.turns.push_back(holder);
            } else {
                self.lines.remove(&holder);
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn take_of(
        &mut self,
        holder: Holder,
        find: impl FnOnce(&mut VecDeque<T>) -> Option<T>,
    ) -> Option<T> {
        self.away.take(holder, 1).ok()?;
        let found = self.lines.get_mut(&holder).and_then(find);
        if found.is_none() {
            self.away.give_back(holder, 1);
        }
        found
    }

    /// A thread of this holder's is back.
    pub fn is_back(&mut self, holder: Holder) {
        self.away.give_back(holder, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_and_no_more_threads_than_its_share() {
        let shares = Shares { all: 4, reserve: 0, user: 3, trusted: 3, sealed: 1 };
        let mut lines = Lines::new(shares);
        let (user, other) = (Holder::user(1), Holder::user(2));
        (0..5).for_each(|_| lines.push(user, user));
        lines.push(other, other);
        let taken: Vec<Holder> = std::iter::from_fn(|| lines.take(VecDeque::pop_front)).collect();
        assert_eq!(taken, [user, other, user, user]);
        lines.is_back(user);
        assert_eq!(lines.take(VecDeque::pop_front), Some(user));
    }

    #[test]
    fn a_line_in_which_nothing_is_found_takes_no_thread_and_is_forgotten_when_empty() {
        let mut lines = Lines::new(Shares { all: 1, reserve: 0, user: 1, trusted: 1, sealed: 1 });
        lines.push(Holder::user(1), 1);
        lines.push(Holder::user(2), 2);
        assert_eq!(lines.take(|line| line.pop_front().filter(|item| *item == 2)), Some(2));
        assert!(lines.lines.is_empty() && lines.turns.is_empty());
    }
}

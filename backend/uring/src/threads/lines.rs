//! Whose request a thread makes next: one of each owner in turn, and no owner has all threads.
//!
//! ```text
//! put --> its owner's line --take: the first line that may--> a thread --done--> the owner has one less
//!                ^------------ the line goes behind the others -'
//! ```
//!
//! In one line for all whoever asks for hundreds of slow requests (fsync) would have all others wait
//! for them.

use std::collections::VecDeque;

/// What waits, by owner. A pure state machine.
pub struct Lines<T> {
    lines: VecDeque<Line<T>>,
    /// Threads that one owner may have.
    busy_max: usize,
}

struct Line<T> {
    owner: u32,
    waiting: VecDeque<T>,
    /// Threads that make requests of this owner's.
    busy: usize,
}

impl<T> Lines<T> {
    /// Nothing waits; one owner may have so many threads.
    pub fn new(busy_max: usize) -> Lines<T> {
        Lines { lines: VecDeque::new(), busy_max }
    }

    /// Puts a request in its owner's line.
    pub fn put(&mut self, owner: u32, request: T) {
        match self.lines.iter_mut().find(|line| line.owner == owner) {
            Some(line) => line.waiting.push_back(request),
            None => self.lines.push_back(Line { owner, waiting: [request].into(), busy: 0 }),
        }
    }

    /// The next request, and whose it is, which has a thread from now on.
    pub fn take(&mut self) -> Option<(u32, T)> {
        let may = |line: &Line<T>| line.busy < self.busy_max && !line.waiting.is_empty();
        let mut line = self.lines.iter().position(may).and_then(|at| self.lines.remove(at))?;
        let (owner, request) = (line.owner, line.waiting.pop_front());
        line.busy += 1;
        self.lines.push_back(line);
        request.map(|request| (owner, request))
    }

    /// A thread has made a request of this owner's.
    pub fn done(&mut self, owner: u32) {
        let its = self.lines.iter_mut().filter(|line| line.owner == owner);
        its.for_each(|line| line.busy = line.busy.saturating_sub(1));
        self.forget_empty();
    }

    /// Takes back what is meant and waits; whether there was something.
    pub fn take_back(&mut self, is_meant: impl Fn(&T) -> bool) -> bool {
        let before = self.waiting();
        self.lines.iter_mut().for_each(|line| line.waiting.retain(|request| !is_meant(request)));
        self.forget_empty();
        self.waiting() < before
    }

    /// Takes everything back that waits.
    pub fn take_all(&mut self) -> Vec<T> {
        let all = self.lines.iter_mut().flat_map(|line| line.waiting.drain(..)).collect();
        self.forget_empty();
        all
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.lines.iter().map(|line| line.waiting.len()).sum()
    }

    fn forget_empty(&mut self) {
        self.lines.retain(|line| line.busy > 0 || !line.waiting.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(lines: &mut Lines<u32>) -> Vec<u32> {
        std::iter::from_fn(|| lines.take()).map(|(_, request)| request).collect()
    }

    #[test]
    fn each_owner_has_one_in_turn_and_no_more_threads_than_it_may() {
        let mut lines = Lines::new(3);
        (0..9).for_each(|request| lines.put(1, request));
        lines.put(2, 20);
        lines.put(3, 30);
        assert_eq!(take_all(&mut lines), [0, 20, 30, 1, 2]);
        assert_eq!(lines.waiting(), 6);
        lines.done(2);
        assert_eq!(lines.take(), None);
        lines.done(1);
        assert_eq!(take_all(&mut lines), [3]);
    }

    #[test]
    fn what_is_taken_back_is_not_made_and_an_owner_without_requests_is_forgotten() {
        let mut lines = Lines::new(1);
        (0..4).for_each(|request| lines.put(1, request));
        assert_eq!(lines.take(), Some((1, 0)));
        assert!(lines.take_back(|request| *request == 2) && !lines.take_back(|it| *it == 0));
        assert_eq!((lines.take_all(), lines.waiting(), lines.lines.len()), (vec![1, 3], 0, 1));
        lines.done(1);
        assert_eq!(lines.lines.len(), 0);
    }
}

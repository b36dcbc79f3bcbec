//! Whose request is served next: the most urgent class first, and within it each peer in its turn.
//!
//! So many of a class in a row, and what is less urgent has one: nobody waits for ever for others who
//! ask for much.

use std::collections::VecDeque;

use heliostat_abi::cluster::Class;
use heliostat_backend_transport::transport::LinkId;

/// Requests of a class that are served before one that is less urgent.
const IN_A_ROW: u32 = 15;

/// Peers whose requests wait for nothing but their turn, by class.
#[derive(Default)]
pub(crate) struct Turns {
    /// Each peer once.
    waiting: [VecDeque<LinkId>; 3],
    /// How many were served in a row while something less urgent waited.
    in_a_row: [u32; 3],
}

impl Turns {
    /// A peer has requests of a class. It does not wait already.
    pub(crate) fn wait(&mut self, class: Class, link: LinkId) {
        self.waiting[class.place()].push_back(link);
    }

    /// A peer has none that may be served.
    pub(crate) fn forget(&mut self, link: LinkId) {
        self.waiting.iter_mut().for_each(|lane| lane.retain(|waiting| *waiting != link));
    }

    /// Whether anybody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    /// Whose turn it is.
    pub(crate) fn next(&mut self) -> Option<(Class, LinkId)> {
        let mut waiting = Class::ALL.into_iter().filter(|it| !self.waiting[it.place()].is_empty());
        let first = waiting.next()?;
        let class =
            waiting.fold(first, |chosen, lower| match self.in_a_row[chosen.place()] >= IN_A_ROW {
                true => lower,
                false => chosen,
            });
        for passed in Class::ALL.into_iter().filter(|it| *it > class) {
            self.in_a_row[passed.place()] = 0;
        }
        let row = &mut self.in_a_row[class.place()];
        *row = row.saturating_add(1);
        self.waiting[class.place()].pop_front().map(|link| (class, link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_of_a_class_have_turns() {
        let mut turns = Turns::default();
        [1, 2, 3].iter().for_each(|link| turns.wait(Class::Normal, LinkId(*link)));
        let order: Vec<_> = (0..6)
            .filter_map(|_| {
                let (class, link) = turns.next()?;
                turns.wait(class, link);
                Some(link.0)
            })
            .collect();
        assert_eq!(order, [1, 2, 3, 1, 2, 3]);
        turns.forget(LinkId(2));
        assert_eq!(turns.next(), Some((Class::Normal, LinkId(1))));
        assert_eq!(turns.next(), Some((Class::Normal, LinkId(3))));
        assert!(turns.is_empty() && turns.next().is_none());
    }

    #[test]
    fn what_is_urgent_is_served_first_and_nobody_waits_for_ever() {
        let mut turns = Turns::default();
        for (link, class) in [(1, Class::Low), (2, Class::Normal), (3, Class::High)] {
            turns.wait(class, LinkId(link));
        }
        let mut counts = [0; 3];
        for round in 0..1000 {
            let Some((class, link)) = turns.next() else { panic!("all wait") };
            assert!(round > 0 || class == Class::High);
            counts[class.place()] += 1;
            turns.wait(class, link);
        }
        assert!(counts[0] > 900 && counts[1] > 50 && counts[2] >= 3, "{counts:?}");
    }
}

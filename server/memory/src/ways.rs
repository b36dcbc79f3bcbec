//! The ways from one loop to other nodes, each class on its own: a low one has nothing of a high one's.

use std::collections::{BTreeMap, VecDeque};

use heliostat_abi::cluster::Class;
use heliostat_abi::name::ObjectId;
use heliostat_server_node::LinkId;

use super::traffic::{Room, Traffic, Waiting};

/// A class of operations on the way to a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Way {
    /// How urgent.
    pub class: Class,
    /// Where to.
    pub link: LinkId,
}

/// What of a loop is on the way, and who waits, by class.
pub struct Ways {
    classes: [Traffic; 3],
    /// Sessions that another node has told to wait, and until when.
    resting: BTreeMap<Waiting, u64>,
}

impl Default for Ways {
    fn default() -> Ways {
        let classes = Class::ALL.map(|class| match class {
            // As much as a low class may have of the window to a node, for each of several.
            Class::Low => Traffic::with_share(8),
            Class::Normal | Class::High => Traffic::default(),
        });
        Ways { classes, resting: BTreeMap::new() }
    }
}

impl Ways {
    /// Whether a part of so many bytes may be sent: as [`Traffic::room`].
    pub fn room(&self, to: Way, session_bytes: u64, bytes: u64, is_turn: bool) -> Room {
        self.classes[to.class.place()].room(to.link, session_bytes, bytes, is_turn)
    }

    /// A part of so many bytes is on the way.
    pub fn left(&mut self, to: Way, session_bytes: &mut u64, bytes: u64) {
        self.of(to).left(to.link, session_bytes, bytes);
    }

    /// It has its answer.
    pub fn came(&mut self, from: Way, bytes: u64) {
        self.of(from).came(from.link, bytes);
    }

    /// A session waits, behind the others of its class.
    pub fn wait(&mut self, to: Way, session: Waiting) {
        self.of(to).wait(to.link, session);
    }

    /// One that had its turn waits before the others.
    pub fn wait_first(&mut self, to: Way, session: Waiting) {
        self.of(to).wait_first(to.link, session);
    }

    /// Whose turn it is on a way.
    pub fn next(&mut self, to: Way) -> Option<Waiting> {
        self.of(to).next(to.link)
    }

    /// A session has ended.
    pub fn forget(&mut self, session: Waiting) {
        self.classes.iter_mut().for_each(|traffic| traffic.forget(session));
        self.resting.remove(&session);
    }

    /// The ways that sessions wait for, the most urgent first.
    pub fn in_turn(&self) -> VecDeque<Way> {
        let of = |class: Class| {
            let links = self.classes[class.place()].in_turn().into_iter();
            links.map(move |link| Way { class, link })
        };
        Class::ALL.into_iter().flat_map(of).collect()
    }

    /// Nothing is sent on a way before this time.
    pub fn hold(&mut self, to: Way, until_ns: u64) {
        self.of(to).hold(to.link, until_ns);
    }

    /// When something may be sent again on a way that nothing is sent on.
    #[cfg(test)]
    pub fn release_ns(&self) -> Option<u64> {
        self.classes.iter().filter_map(Traffic::release_ns).min()
    }

    /// When there is something to do because time went by.
    pub fn next_ns(&self) -> Option<u64> {
        let classes = self.classes.iter().filter_map(Traffic::next_ns);
        classes.chain(self.resting.values().copied()).min()
    }

    /// An operation whose region moves rests until then. Each rests equally long.
    pub fn rest_operation(&mut self, until_ns: u64, session: Waiting, operation: ObjectId) {
        self.classes[Class::Normal.place()].rest(until_ns, session, operation);
    }

    /// The operations that have rested.
    pub fn rested_operations(&mut self, now_ns: u64) -> Vec<(Waiting, ObjectId)> {
        self.classes[Class::Normal.place()].rested(now_ns)
    }

    /// Lets things be sent again where it is time; whether that was so anywhere.
    pub fn release(&mut self, now_ns: u64) -> bool {
        let released = self.classes.iter_mut().map(|traffic| traffic.release(now_ns));
        released.fold(false, |any, one| any | one)
    }

    /// A session sends nothing before this time: another node has told it to wait.
    pub fn rest(&mut self, session: Waiting, until_ns: u64) {
        let until = self.resting.entry(session).or_insert(until_ns);
        *until = until_ns.max(*until);
    }

    /// Whether it does.
    pub fn rests(&self, session: Waiting) -> bool {
        self.resting.contains_key(&session)
    }

    /// Sessions whose time it is to go on.
    pub fn rested(&mut self, now_ns: u64) -> Vec<Waiting> {
        let due: Vec<_> =
            self.resting.iter().filter(|(_, until)| **until <= now_ns).map(|(it, _)| *it).collect();
        self.resting.retain(|_, until| *until > now_ns);
        due
    }

    fn of(&mut self, way: Way) -> &mut Traffic {
        &mut self.classes[way.class.place()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 256 << 10;

    fn fill(ways: &mut Ways, to: Way) -> usize {
        let mut count = 0;
        while ways.room(to, 0, PART, false) == Room::Free {
            ways.left(to, &mut 0, PART);
            count += 1;
        }
        count
    }

    #[test]
    fn a_low_class_takes_little_and_nothing_of_the_others() {
        let mut ways = Ways::default();
        let to = |class, link| Way { class, link: LinkId(link) };
        let alone = fill(&mut Ways::default(), to(Class::High, 1));
        let low = fill(&mut ways, to(Class::Low, 1));
        assert!(low > 1 && low * 8 <= alone, "{low} of {alone}");
        assert_eq!(fill(&mut ways, to(Class::Normal, 1)), alone);
        assert_eq!(fill(&mut ways, to(Class::High, 1)), alone);
        assert_eq!(fill(&mut ways, to(Class::Low, 2)), low, "another node has its own");
    }

    #[test]
    fn the_most_urgent_have_their_turns_first() {
        let (mut ways, session) = (Ways::default(), (Default::default(), 1));
        for class in [Class::Low, Class::Normal, Class::High] {
            ways.wait(Way { class, link: LinkId(1) }, session);
        }
        let order: Vec<_> = ways.in_turn().into_iter().map(|way| way.class).collect();
        assert_eq!(order, Class::ALL);
        ways.hold(Way { class: Class::High, link: LinkId(1) }, 7);
        assert_eq!((ways.in_turn().len(), ways.release_ns()), (2, Some(7)));
        assert!(!ways.release(6) && ways.release(7));
        ways.forget(session);
        assert!(ways.in_turn().is_empty());
    }
}

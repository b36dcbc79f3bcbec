//! How much one loop has on the way to other nodes, and which sessions wait until it is less.
//!
//! ```text
//! sessions that wait, by node --each in its turn, a part at a time--> on the way: node's, loop's
//!        ^                                                                 |
//!        '--- joins again when it has room of its own, by any answer of its own
//! ```
//!
//! Whoever waits here waits for what its node or the loop has on the way, so an answer comes that it is
//! looked at for. A session that has too much on the way itself keeps its operations, and no turn.

use std::collections::{BTreeMap, VecDeque};

use heliostat_abi::name::ObjectId;
use heliostat_server_node::LinkId;

/// Bytes of one session: as much as it gets there and back in a few milliseconds of any network.
pub const SESSION_BYTES_MAX: u64 = 8 << 20;
/// Bytes of all sessions of a loop: the node's thread takes 32 MiB of one caller.
const LOOP_BYTES_MAX: u64 = 24 << 20;
/// Messages of a loop: the node's thread takes 4,096.
const MESSAGES_MAX: usize = 4000;
/// A node's part of both: two that are slow leave as much to the others.
const NODES_AT_LEAST: usize = 3;
/// What a message counts beside its bytes.
pub const MESSAGE_COST: u64 = 2048;

/// A session, and which delegation of its connection.
pub type Waiting = (ObjectId, u64);

/// What of a loop is on the way, and who waits.
pub struct Traffic {
    /// Bytes of all sessions.
    bytes_max: u64,
    on_way: Load,
    lanes: BTreeMap<LinkId, Lane>,
    /// Who had the last turn.
    turn: Option<LinkId>,
    /// Operations whose regions move: when they are sent again, the first first.
    rests: VecDeque<(u64, Waiting, ObjectId)>,
}

/// The way to one node. One with nothing on it is not kept.
#[derive(Default)]
struct Lane {
    on_way: Load,
    /// Each session once.
    waiting: VecDeque<Waiting>,
    /// The node's thread takes nothing for it before then.
    held_until_ns: Option<u64>,
}

#[derive(Clone, Copy, Default)]
struct Load {
    bytes: u64,
    messages: usize,
}

/// Whether a part may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// It may.
    Free,
    /// Its session has too much on the way: only answers of its own change that.
    SessionFull,
    /// Its node or the loop has, or others wait for that already.
    Taken,
}

impl Default for Traffic {
    fn default() -> Traffic {
        Traffic::with_share(1)
    }
}

impl Traffic {
    /// With one of so many parts of the bytes that a loop may have on the way.
    pub fn with_share(parts: u64) -> Traffic {
        let bytes_max = LOOP_BYTES_MAX / parts;
        let (on_way, lanes, rests) = (Load::default(), BTreeMap::new(), VecDeque::new());
        Traffic { bytes_max, on_way, lanes, turn: None, rests }
    }

    /// Whether a part of so many bytes may be sent there, of a session that has `session_bytes` on the
    /// way. `is_turn` says that it waited and has its turn.
    pub fn room(&self, to: LinkId, session_bytes: u64, bytes: u64, is_turn: bool) -> Room {
        let session = Load { bytes: session_bytes, messages: 0 };
        if !session.takes(bytes, SESSION_BYTES_MAX, 1) {
            return Room::SessionFull;
        }
        let lane = self.lanes.get(&to);
        let is_open = lane.is_none_or(|lane| {
            let has_share = lane.on_way.takes(
                bytes,
                self.bytes_max / NODES_AT_LEAST as u64,
                MESSAGES_MAX / NODES_AT_LEAST,
            );
            has_share && lane.held_until_ns.is_none() && (is_turn || lane.waiting.is_empty())
        });
        match is_open && self.on_way.takes(bytes, self.bytes_max, MESSAGES_MAX) {
            true => Room::Free,
            false => Room::Taken,
        }
    }

    /// A part of so many bytes is on the way there.
    pub fn left(&mut self, to: LinkId, session_bytes: &mut u64, bytes: u64) {
        self.on_way.add(bytes);
        self.lanes.entry(to).or_default().on_way.add(bytes);
        *session_bytes += bytes + MESSAGE_COST;
    }

    /// It has its answer. Its session, if that is still there, has as much less on the way.
    pub fn came(&mut self, from: LinkId, bytes: u64) {
        self.on_way.remove(bytes);
        if let Some(lane) = self.lanes.get_mut(&from) {
            lane.on_way.remove(bytes);
        }
        self.tidy(from);
    }

    /// What is on the way after such an answer.
    pub fn less(on_way: u64, bytes: u64) -> u64 {
        on_way.saturating_sub(bytes + MESSAGE_COST)
    }

    /// A session waits, behind the others. It does not wait there already.
    pub fn wait(&mut self, to: LinkId, session: Waiting) {
        self.lanes.entry(to).or_default().waiting.push_back(session);
    }

    /// One that had its turn waits before the others.
    pub fn wait_first(&mut self, to: LinkId, session: Waiting) {
        self.lanes.entry(to).or_default().waiting.push_front(session);
    }

    /// Whose turn it is on the way to a node.
    pub fn next(&mut self, to: LinkId) -> Option<Waiting> {
        self.turn = Some(to);
        let session = self.lanes.get_mut(&to)?.waiting.pop_front();
        self.tidy(to);
        session
    }

    /// A session has ended.
    pub fn forget(&mut self, session: Waiting) {
        self.rests.retain(|(_, its, _)| *its != session);
        self.lanes.values_mut().for_each(|lane| lane.waiting.retain(|its| *its != session));
        self.lanes.retain(|_, lane| !lane.is_idle());
    }

    /// The nodes that sessions wait for, from the one after the last turn on.
    pub fn in_turn(&self) -> VecDeque<LinkId> {
        let waits = |(link, lane): (&LinkId, &Lane)| {
            (!lane.waiting.is_empty() && lane.held_until_ns.is_none()).then_some(*link)
        };
        let (before, after): (Vec<_>, Vec<_>) =
            self.lanes.iter().filter_map(waits).partition(|link| Some(*link) <= self.turn);
        after.into_iter().chain(before).collect()
    }

    /// Nothing is sent there before this time.
    pub fn hold(&mut self, to: LinkId, until_ns: u64) {
        self.lanes.entry(to).or_default().held_until_ns = Some(until_ns);
    }

    /// When something may be sent again to a node that nothing is sent to.
    pub fn release_ns(&self) -> Option<u64> {
        self.lanes.values().filter_map(|lane| lane.held_until_ns).min()
    }

    /// An operation rests until then. Each rests equally long.
    pub fn rest(&mut self, until_ns: u64, session: Waiting, operation: ObjectId) {
        self.rests.push_back((until_ns, session, operation));
    }

    /// The operations that have rested.
    pub fn rested(&mut self, now_ns: u64) -> Vec<(Waiting, ObjectId)> {
        let count = self.rests.partition_point(|(until, ..)| *until <= now_ns);
        self.rests.drain(..count).map(|(_, session, operation)| (session, operation)).collect()
    }

    /// When there is something to do because time went by.
    pub fn next_ns(&self) -> Option<u64> {
        let rest = self.rests.front().map(|(until, ..)| *until);
        rest.into_iter().chain(self.release_ns()).min()
    }

    /// Lets things be sent again where it is time; whether that was so anywhere.
    pub fn release(&mut self, now_ns: u64) -> bool {
        if self.release_ns().is_none_or(|ns| ns > now_ns) {
            return false;
        }
        let lanes = self.lanes.values_mut();
        let due = lanes.filter(|lane| lane.held_until_ns.is_some_and(|ns| ns <= now_ns));
        due.for_each(|lane| lane.held_until_ns = None);
        self.lanes.retain(|_, lane| !lane.is_idle());
        true
    }

    fn tidy(&mut self, link: LinkId) {
        if self.lanes.get(&link).is_some_and(Lane::is_idle) {
            self.lanes.remove(&link);
        }
    }
}

impl Lane {
    fn is_idle(&self) -> bool {
        self.on_way.messages == 0 && self.waiting.is_empty() && self.held_until_ns.is_none()
    }
}

impl Load {
    /// Whether a part of so many bytes more is not too much. One part alone never is.
    fn takes(self, bytes: u64, bytes_max: u64, messages_max: usize) -> bool {
        let fits = self.bytes == 0 || self.bytes + bytes + MESSAGE_COST <= bytes_max;
        self.messages < messages_max && fits
    }

    fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes + MESSAGE_COST;
    }

    fn remove(&mut self, bytes: u64) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = Traffic::less(self.bytes, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 256 << 10;

    fn fill(traffic: &mut Traffic, to: LinkId, bytes: u64) -> usize {
        let mut count = 0;
        while traffic.room(to, 0, bytes, false) == Room::Free {
            traffic.left(to, &mut 0, bytes);
            count += 1;
        }
        count
    }

    #[test]
    fn one_part_always_fits_and_no_more_than_may_be() {
        let (mut traffic, mut one, to) = (Traffic::default(), 0, LinkId(1));
        assert_eq!(traffic.room(to, one, 1 << 40, false), Room::Free);
        while traffic.room(to, one, PART, false) == Room::Free {
            traffic.left(to, &mut one, PART);
        }
        assert!(one <= SESSION_BYTES_MAX && one + PART + MESSAGE_COST > SESSION_BYTES_MAX);
        assert_eq!(traffic.room(LinkId(2), one, PART, false), Room::SessionFull);
        assert_eq!(traffic.room(LinkId(2), 0, PART, false), Room::Free, "another has its own");
        for _ in 0..traffic.on_way.messages {
            traffic.came(to, PART);
            one = Traffic::less(one, PART);
        }
        assert_eq!((one, traffic.on_way.bytes, traffic.lanes.len()), (0, 0, 0));
    }

    #[test]
    fn a_node_that_answers_nothing_has_a_share_and_leaves_the_rest() {
        for bytes in [0, PART] {
            let mut traffic = Traffic::default();
            let counts = [1, 2, 3].map(|link| fill(&mut traffic, LinkId(link), bytes));
            assert!(counts[0] > 0 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
            assert!(traffic.on_way.messages <= MESSAGES_MAX);
            assert!(traffic.on_way.bytes <= LOOP_BYTES_MAX);
        }
    }

    #[test]
    fn nodes_and_their_sessions_have_turns_and_nobody_passes_who_waits() {
        let (mut traffic, session) =
            (Traffic::default(), |index| (ObjectId { index, generation: 1 }, 1));
        [1, 3, 2].iter().for_each(|link| traffic.wait(LinkId(*link), session(*link as u32)));
        traffic.wait(LinkId(1), session(9));
        assert_eq!(traffic.room(LinkId(1), 0, 8, false), Room::Taken);
        assert_eq!(traffic.room(LinkId(1), 0, 8, true), Room::Free);
        assert_eq!(traffic.next(LinkId(1)), Some(session(1)));
        assert_eq!(traffic.in_turn(), [2, 3, 1].map(LinkId));
        traffic.wait_first(LinkId(1), session(1));
        traffic.forget(session(1));
        traffic.forget(session(3));
        assert_eq!(traffic.next(LinkId(1)), Some(session(9)));
        assert_eq!((traffic.in_turn(), traffic.lanes.len()), ([LinkId(2)].into(), 1));
    }

    #[test]
    fn a_node_that_takes_nothing_is_left_alone_until_it_is_time() {
        let (mut traffic, to) = (Traffic::default(), LinkId(1));
        traffic.hold(to, 70);
        traffic.wait(to, (ObjectId::default(), 1));
        assert_eq!((traffic.room(to, 0, 8, true), traffic.in_turn().len()), (Room::Taken, 0));
        assert_eq!((traffic.release(69), traffic.release_ns()), (false, Some(70)));
        assert_eq!((traffic.release(70), traffic.release_ns()), (true, None));
        assert_eq!((traffic.room(to, 0, 8, true), traffic.in_turn().len()), (Room::Free, 1));
    }
}

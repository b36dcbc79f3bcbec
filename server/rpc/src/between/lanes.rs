//! Calls that wait for room on the way to another node: a lane for each function and class, in it each
//! session in turn, so that a function that nobody serves fast holds up neither other functions nor other
//! sessions, and what is less urgent not what is more so.

use std::collections::{HashMap, VecDeque};

use heliostat_abi::cluster::Class;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::OperationId;

/// Bytes of calls of one class to one function of a node that are in line there; at least one call is.
const FUNCTION_BYTES_MAX: u64 = 2 << 20;
/// The same of all functions of a node: half of what may be on the way to it, so that replies and other
/// services have room.
const NODE_BYTES_MAX: u64 = 8 << 20;

/// How much of all functions of a node may be in line when one more of a class is to go there: what is less
/// urgent leaves some to what is more so.
const fn most_beside(class: Class) -> u64 {
    match class {
        Class::High => NODE_BYTES_MAX + FUNCTION_BYTES_MAX,
        Class::Normal => NODE_BYTES_MAX,
        Class::Low => NODE_BYTES_MAX / 2,
    }
}

/// What a lane is for: a function, and how urgent.
pub(crate) type Lined = (ObjectId, Class);

/// The lanes to one node.
#[derive(Default)]
pub(crate) struct Lanes {
    lanes: HashMap<Lined, Lane>,
    /// Functions with calls that wait, in turn.
    order: VecDeque<Lined>,
    /// In line there.
    bytes: u64,
}

#[derive(Default)]
struct Lane {
    round: VecDeque<ObjectId>,
    each: HashMap<ObjectId, VecDeque<ObjectId>>,
    bytes: u64,
    is_listed: bool,
}

impl Lanes {
    /// A call waits.
    pub(crate) fn push(&mut self, to: Lined, id: OperationId) {
        self.lane(to).push(id, false);
    }

    /// It was not its turn after all: it is the next.
    pub(crate) fn push_first(&mut self, to: Lined, id: OperationId) {
        self.lane(to).push(id, true);
    }

    fn lane(&mut self, to: Lined) -> &mut Lane {
        let lane = self.lanes.entry(to).or_default();
        if !std::mem::replace(&mut lane.is_listed, true) {
            self.order.push_back(to);
        }
        lane
    }

    /// Functions that have something in their lane.
    pub(crate) fn waiting(&self) -> usize {
        self.order.len()
    }

    /// The next call of the function whose turn it is.
    pub(crate) fn next(&mut self) -> Option<(Lined, OperationId)> {
        while let Some(to) = self.order.pop_front() {
            let Some(lane) = self.lanes.get_mut(&to) else { continue };
            lane.is_listed = false;
            let next = lane.pop();
            if !lane.round.is_empty() {
                lane.is_listed = true;
                self.order.push_back(to);
            }
            self.tidy(to);
            if let Some(id) = next {
                return Some((to, id));
            }
        }
        None
    }

    /// Whether a call of so many bytes may be on its way to a function.
    pub(crate) fn has_room(&self, to: Lined, cost: u64) -> bool {
        let own = self.lanes.get(&to).map_or(0, |lane| lane.bytes);
        let fits = |bytes: u64, most: u64| bytes == 0 || bytes + cost <= most;
        fits(own, FUNCTION_BYTES_MAX) && fits(self.bytes, most_beside(to.1))
    }

    /// It is on its way.
    pub(crate) fn left(&mut self, to: Lined, cost: u64) {
        self.lanes.entry(to).or_default().bytes += cost;
        self.bytes += cost;
    }

    /// It is in line no more.
    pub(crate) fn came(&mut self, to: Lined, cost: u64) {
        self.bytes = self.bytes.saturating_sub(cost);
        if let Some(lane) = self.lanes.get_mut(&to) {
            lane.bytes = lane.bytes.saturating_sub(cost);
        }
        self.tidy(to);
    }

    /// A call does not wait any more.
    pub(crate) fn forget(&mut self, is_meant: impl Fn(OperationId) -> bool) {
        for lane in self.lanes.values_mut() {
            for (seat, operations) in &mut lane.each {
                let seat = *seat;
                operations
                    .retain(|operation| !is_meant(OperationId { seat, operation: *operation }));
            }
        }
    }

    /// Takes all calls that wait.
    pub(crate) fn take_all(&mut self) -> Vec<OperationId> {
        let mut all = Vec::new();
        while let Some((_, id)) = self.next() {
            all.push(id);
        }
        all
    }

    /// Nothing is kept of a function to which nothing goes.
    fn tidy(&mut self, to: Lined) {
        let is_empty = |lane: &Lane| lane.bytes == 0 && lane.round.is_empty();
        if self.lanes.get(&to).is_some_and(is_empty) {
            self.lanes.remove(&to);
        }
    }
}

impl Lane {
    fn push(&mut self, id: OperationId, is_first: bool) {
        let own = self.each.entry(id.seat).or_default();
        match is_first {
            true => own.push_front(id.operation),
            false => own.push_back(id.operation),
        }
        if !self.round.contains(&id.seat) {
            match is_first {
                true => self.round.push_front(id.seat),
                false => self.round.push_back(id.seat),
            }
        }
    }

    fn pop(&mut self) -> Option<OperationId> {
        while let Some(seat) = self.round.pop_front() {
            let Some(own) = self.each.get_mut(&seat) else { continue };
            let taken = own.pop_front();
            match own.is_empty() {
                true => drop(self.each.remove(&seat)),
                false => self.round.push_back(seat),
            }
            if let Some(operation) = taken {
                return Some(OperationId { seat, operation });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(seat: u32, operation: u32) -> OperationId {
        let one = |index| ObjectId { index, generation: 1 };
        OperationId { seat: one(seat), operation: one(operation) }
    }

    fn function(index: u32) -> Lined {
        of(index, Class::Normal)
    }

    fn of(index: u32, class: Class) -> Lined {
        (ObjectId { index, generation: 1 }, class)
    }

    #[test]
    fn functions_take_turns_and_in_each_the_sessions() {
        let mut lanes = Lanes::default();
        for it in [id(1, 1), id(1, 2), id(1, 3), id(2, 9)] {
            lanes.push(function(1), it);
        }
        lanes.push(function(2), id(1, 5));
        lanes.push_first(function(1), id(3, 7));
        let order: Vec<_> = lanes.take_all();
        assert_eq!(order, [id(3, 7), id(1, 5), id(1, 1), id(2, 9), id(1, 2), id(1, 3)]);
        assert!(lanes.lanes.is_empty() && lanes.waiting() == 0);
    }

    #[test]
    fn a_function_that_is_full_leaves_room_for_others_and_one_call_always_fits() {
        let mut lanes = Lanes::default();
        assert!(lanes.has_room(of(1, Class::Low), 4 * NODE_BYTES_MAX));
        lanes.left(function(1), FUNCTION_BYTES_MAX);
        assert!(!lanes.has_room(function(1), 1) && lanes.has_room(of(2, Class::Low), 1));
        assert!(lanes.has_room(of(1, Class::High), 1), "what is more urgent has its own");
        (2..5).for_each(|number| lanes.left(function(number), FUNCTION_BYTES_MAX));
        assert!(!lanes.has_room(of(9, Class::Low), 1));
        assert!(!lanes.has_room(of(9, Class::Normal), 1), "as much as there is for it");
        assert!(lanes.has_room(of(9, Class::High), 1), "which the others leave some");
        lanes.came(function(1), FUNCTION_BYTES_MAX);
        assert!(lanes.has_room(of(1, Class::Normal), 1));
        (2..5).for_each(|number| lanes.came(function(number), FUNCTION_BYTES_MAX));
        assert!(lanes.lanes.is_empty(), "nothing is kept of what has ended");
    }

    #[test]
    fn what_has_ended_is_not_sent() {
        let mut lanes = Lanes::default();
        for it in [id(1, 1), id(1, 2), id(2, 3)] {
            lanes.push(function(1), it);
        }
        lanes.forget(|it| it == id(1, 1) || it.seat == id(2, 0).seat);
        assert_eq!(lanes.take_all(), [id(1, 2)]);
    }
}

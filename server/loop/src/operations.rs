//! The operations of one session: how many there may be, in which order, and until when.
//!
//! ```text
//!        admit                  pop                        end
//! ring --------> held back ----------> under way -------------------> completion
//!                   |  ^                  |   ^
//!                   |  | predecessor ends |   | requeue: more of it another turn
//!                   v  |                  +---+
//!                 ready                   cancel, deadline: `verdict`, told when nobody needs
//!                                         its part of the window any more
//! ```
//!
//! Ordered kinds (writes, appends, truncations, fsyncs) of one object go one after the other, in the
//! order of submission; so an fsync covers what was submitted before it. Everything else goes as it
//! can, and so does everything of a service that promises no order.

use std::collections::{HashMap, VecDeque};

use heliostat_abi::file::delegated::{Operation, Way};
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::{Table, TableFull};

/// An operation that has not completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What was asked.
    pub operation: Operation,
    /// Bytes that are done.
    pub done: u64,
    /// By which way so far.
    pub way: Way,
    /// When it ends with ETIMEDOUT.
    pub deadline_ns: Option<u64>,
    /// Requests to the kernel of its own that may still touch the window or the object.
    pub flying: u32,
    /// The errno that it ends with, whatever comes of it.
    pub verdict: Option<i32>,
    /// Its tokens were taken: what is tried again is not paid for again.
    pub(crate) is_paid: bool,
    /// It stands among the ready ones.
    is_ready: bool,
}

/// What became of a wish to end an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// Nobody needs it any more: end it now.
    Now(ObjectId),
    /// The device has it: ask the device, and end it when that is done.
    Flying(ObjectId),
    /// There is no such operation; it may have completed already.
    Unknown,
}

/// The operations of one session.
#[derive(Debug)]
pub struct Operations {
    table: Table<Entry>,
    count: usize,
    ready: VecDeque<ObjectId>,
    /// By object, its ordered operations; the first of them is ready or under way.
    orders: HashMap<ObjectId, VecDeque<ObjectId>>,
    /// How many have a deadline; while there are none no time is looked at.
    timed: usize,
    /// Whether ordered kinds are.
    keeps_order: bool,
}

impl Operations {
    /// None, and room for `limit`.
    pub fn new(limit: usize) -> Operations {
        let table = Table::new(limit);
        let (ready, orders) = (VecDeque::with_capacity(limit), HashMap::new());
        Operations { table, count: 0, ready, orders, timed: 0, keeps_order: true }
    }

    /// The same, of which all go as they can.
    pub fn unordered(limit: usize) -> Operations {
        Operations { keeps_order: false, ..Operations::new(limit) }
    }

    /// Operations that have not completed.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes an operation in.
    ///
    /// # Errors
    /// As many as the limit have not completed.
    pub fn admit(&mut self, operation: Operation, now_ns: u64) -> Result<ObjectId, TableFull> {
        let timeout_ns = u64::from(operation.timeout_us) * 1000;
        let deadline_ns = (timeout_ns > 0).then(|| now_ns.saturating_add(timeout_ns));
        let entry = Entry {
            operation,
            done: 0,
            way: Way::None,
            deadline_ns,
            flying: 0,
            verdict: None,
            is_paid: false,
            is_ready: false,
        };
        let id = self.table.insert(entry)?;
        self.count += 1;
        self.timed += usize::from(deadline_ns.is_some());
        if self.keeps_order && operation.kind.is_ordered() {
            let order = self.orders.entry(operation.object).or_default();
            order.push_back(id);
            if order.len() > 1 {
                return Ok(id);
            }
        }
        self.requeue(id);
        Ok(id)
    }

    /// The next one that may begin or go on.
    pub fn pop(&mut self) -> Option<ObjectId> {
        let id = self.ready.pop_front()?;
        if let Some(entry) = self.table.get_mut(id) {
            entry.is_ready = false;
        }
        Some(id)
    }

    /// Puts one that was taken by `pop` back to the front: its time has not come.
    pub fn put_back(&mut self, id: ObjectId) {
        if let Some(entry) = self.table.get_mut(id) {
            entry.is_ready = true;
            self.ready.push_front(id);
        }
    }

    /// Lets one go on in a later turn, once however often it is said before that.
    pub fn requeue(&mut self, id: ObjectId) {
        if let Some(entry) = self.table.get_mut(id).filter(|entry| !entry.is_ready) {
            entry.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Takes one out of the turns: it waits for something again.
    pub fn rest(&mut self, id: ObjectId) {
        if let Some(entry) = self.table.get_mut(id).filter(|entry| entry.is_ready) {
            entry.is_ready = false;
            self.ready.retain(|other| *other != id);
        }
    }

    /// Whether something may begin or go on.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many may begin or go on.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// An operation.
    pub fn get(&self, id: ObjectId) -> Option<&Entry> {
        self.table.get(id)
    }

    /// An operation, to change.
    pub fn get_mut(&mut self, id: ObjectId) -> Option<&mut Entry> {
        self.table.get_mut(id)
    }

    /// The operations on an object, to change.
    pub fn of_object(&mut self, object: ObjectId) -> impl Iterator<Item = &mut Entry> {
        let entries = self.table.iter_mut().map(|(_, entry)| entry);
        entries.filter(move |entry| entry.operation.object == object)
    }

    /// Takes an operation out; the next in its object's order becomes ready.
    pub fn end(&mut self, id: ObjectId) -> Option<Entry> {
        let entry = self.table.remove(id)?;
        self.count -= 1;
        self.timed -= usize::from(entry.deadline_ns.is_some());
        if entry.is_ready {
            self.ready.retain(|other| *other != id);
        }
        if self.keeps_order && entry.operation.kind.is_ordered() {
            self.leave_order(entry.operation.object, id);
        }
        Some(entry)
    }

    /// Wants the operations with this tag to end with `errno`; of several the oldest index.
    pub fn cancel(&mut self, tag: u64, errno: i32) -> Cancelled {
        let is_meant = |entry: &Entry| entry.operation.tag == tag && entry.verdict.is_none();
        let found = self.table.iter().find(|(_, entry)| is_meant(entry)).map(|(id, _)| id);
        match found {
            Some(id) => self.condemn(id, errno),
            None => Cancelled::Unknown,
        }
    }

    /// Wants all operations whose tag is meant to end with `errno`, each told once.
    pub fn cancel_all(&mut self, is_meant: impl Fn(u64) -> bool, errno: i32) -> Vec<Cancelled> {
        let is_meant = |entry: &Entry| is_meant(entry.operation.tag) && entry.verdict.is_none();
        let meant: Vec<_> = self.table.iter().filter(|(_, entry)| is_meant(entry)).collect();
        let meant: Vec<_> = meant.into_iter().map(|(id, _)| id).collect();
        meant.into_iter().map(|id| self.condemn(id, errno)).collect()
    }

    /// How many with such a tag have not completed.
    pub fn count(&self, is_meant: impl Fn(u64) -> bool) -> usize {
        self.table.iter().filter(|(_, entry)| is_meant(entry.operation.tag)).count()
    }

    /// Operations whose time is over, each told once.
    pub fn expire(&mut self, now_ns: u64, errno: i32) -> Vec<Cancelled> {
        if self.timed == 0 {
            return Vec::new();
        }
        let is_over = |entry: &Entry| {
            entry.verdict.is_none() && entry.deadline_ns.is_some_and(|deadline| deadline <= now_ns)
        };
        let over: Vec<_> = self.table.iter().filter(|(_, entry)| is_over(entry)).collect();
        let over: Vec<_> = over.into_iter().map(|(id, _)| id).collect();
        over.into_iter().map(|id| self.condemn(id, errno)).collect()
    }

    /// When the next one's time is over.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        if self.timed == 0 {
            return None;
        }
        let waiting = self.table.iter().filter(|(_, entry)| entry.verdict.is_none());
        waiting.filter_map(|(_, entry)| entry.deadline_ns).min()
    }

    fn condemn(&mut self, id: ObjectId, errno: i32) -> Cancelled {
        let Some(entry) = self.table.get_mut(id) else { return Cancelled::Unknown };
        entry.verdict = Some(errno);
        match entry.flying {
            0 => Cancelled::Now(id),
            _ => Cancelled::Flying(id),
        }
    }

    fn leave_order(&mut self, object: ObjectId, id: ObjectId) {
        let Some(order) = self.orders.get_mut(&object) else { return };
        let was_first = order.front() == Some(&id);
        order.retain(|other| *other != id);
        match order.front() {
            Some(next) if was_first => {
                let next = *next;
                self.requeue(next);
            }
            Some(_) => {}
            None => drop(self.orders.remove(&object)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::file::delegated::{OpKind, Pieces};

    fn operation(kind: OpKind, file: u32, tag: u64) -> Operation {
        let object = ObjectId { index: file, generation: 1 };
        let pieces = Pieces::default();
        Operation { kind, object, offset: 0, tag, timeout_us: 0, argument: 0, pieces }
    }

    fn tags(operations: &mut Operations) -> Vec<u64> {
        let mut found = Vec::new();
        while let Some(id) = operations.pop() {
            found.push(operations.get(id).unwrap().operation.tag);
        }
        found
    }

    #[test]
    fn writes_of_one_file_go_one_after_the_other_and_reads_beside_them() {
        let mut operations = Operations::new(10);
        let mut admit = |kind, file, tag| operations.admit(operation(kind, file, tag), 0).unwrap();
        let first = admit(OpKind::Write, 1, 1);
        let second = admit(OpKind::Append, 1, 2);
        admit(OpKind::Fsync, 1, 3);
        admit(OpKind::Write, 2, 4);
        admit(OpKind::Read, 1, 5);
        assert_eq!(tags(&mut operations), [1, 4, 5]);
        operations.end(first);
        assert_eq!(tags(&mut operations), [2]);
        operations.end(second);
        assert_eq!(tags(&mut operations), [3]);
    }

    #[test]
    fn where_no_order_is_kept_writes_go_at_once() {
        let mut operations = Operations::unordered(10);
        let mut admit = |tag| operations.admit(operation(OpKind::Write, 1, tag), 0).unwrap();
        let (first, second) = (admit(1), admit(2));
        assert_eq!(tags(&mut operations), [1, 2]);
        operations.end(second);
        operations.end(first);
        assert!(operations.is_empty() && tags(&mut operations).is_empty(), "each goes once");
    }

    #[test]
    fn one_that_is_cancelled_in_the_middle_of_an_order_lets_the_others_go_on() {
        let mut operations = Operations::new(10);
        let mut admit = |tag| operations.admit(operation(OpKind::Write, 1, tag), 0).unwrap();
        let (first, second, _third) = (admit(1), admit(2), admit(3));
        assert_eq!(tags(&mut operations), [1]);
        assert_eq!(operations.cancel(2, 125), Cancelled::Now(second));
        assert_eq!(operations.end(second).unwrap().verdict, Some(125));
        assert!(tags(&mut operations).is_empty());
        operations.end(first);
        assert_eq!(tags(&mut operations), [3]);
    }

    #[test]
    fn of_all_that_are_cancelled_what_the_device_has_is_left_for_later() {
        let mut operations = Operations::new(4);
        let mut admit = |tag| operations.admit(operation(OpKind::Read, 1, tag), 0).unwrap();
        let (flying, waiting, _other) = (admit(8), admit(9), admit(1));
        operations.get_mut(flying).unwrap().flying = 1;
        let is_meant = |tag| tag >= 8;
        let ended = operations.cancel_all(is_meant, 125);
        assert_eq!(ended, [Cancelled::Flying(flying), Cancelled::Now(waiting)]);
        assert!(operations.cancel_all(is_meant, 125).is_empty());
        operations.end(waiting);
        assert_eq!((operations.count(is_meant), operations.len()), (1, 2));
    }

    #[test]
    fn what_the_device_has_is_asked_for_once_and_ended_later() {
        let mut operations = Operations::new(2);
        let id = operations.admit(operation(OpKind::Read, 1, 9), 0).unwrap();
        operations.get_mut(id).unwrap().flying = 1;
        assert_eq!(operations.cancel(9, 125), Cancelled::Flying(id));
        assert_eq!(operations.cancel(9, 125), Cancelled::Unknown);
        assert_eq!(operations.cancel(8, 125), Cancelled::Unknown);
    }

    #[test]
    fn deadlines_pass_once_each_and_the_next_is_known() {
        let mut operations = Operations::new(4);
        let timed = |tag, timeout_us| Operation { timeout_us, ..operation(OpKind::Read, 1, tag) };
        let late = operations.admit(timed(1, 2), 1000).unwrap();
        operations.admit(timed(2, 5), 1000).unwrap();
        operations.admit(operation(OpKind::Read, 1, 3), 1000).unwrap();
        assert_eq!(operations.next_deadline_ns(), Some(3000));
        assert!(operations.expire(2999, 110).is_empty());
        assert_eq!(operations.expire(3000, 110), [Cancelled::Now(late)]);
        assert!(operations.expire(3000, 110).is_empty());
        assert_eq!(operations.next_deadline_ns(), Some(6000));
    }

    #[test]
    fn one_has_one_turn_however_often_it_is_let_go_on_and_none_at_rest() {
        let mut operations = Operations::new(2);
        let id = operations.admit(operation(OpKind::Read, 1, 1), 0).unwrap();
        operations.requeue(id);
        assert_eq!(tags(&mut operations), [1]);
        operations.requeue(id);
        operations.rest(id);
        assert!(tags(&mut operations).is_empty());
        operations.requeue(id);
        assert_eq!(tags(&mut operations), [1]);
    }

    #[test]
    fn a_full_table_says_so_and_has_room_again() {
        let mut operations = Operations::new(1);
        let id = operations.admit(operation(OpKind::Read, 1, 1), 0).unwrap();
        assert_eq!(operations.admit(operation(OpKind::Read, 1, 2), 0), Err(TableFull { limit: 1 }));
        operations.end(id);
        assert!(operations.end(id).is_none());
        assert!(operations.admit(operation(OpKind::Read, 1, 2), 0).is_ok());
    }
}

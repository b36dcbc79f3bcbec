//! What one session is on the loop: its roles, its operations in line, its calls that were delivered.

use std::collections::{HashMap, HashSet};

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::PerSession;

use super::between::{Away, There};
use super::function::Line;
use super::message::{Role, Who};
use super::transfer::Transfer;
use super::waiting::Waiting;

/// A session.
#[derive(Default)]
pub struct Member {
    /// Who it is to those whom it calls, said once.
    who: Option<Who>,
    roles: HashMap<ObjectId, Role>,
    /// Its operations in line.
    pub(crate) waiting: Waiting,
    /// Functions of other nodes that it may call.
    pub(crate) there: HashMap<ObjectId, There>,
    /// Its operations on such functions.
    pub(crate) away: HashMap<ObjectId, Away>,
    /// Calls that somebody received, by operation.
    delivered: HashMap<ObjectId, ObjectId>,
    /// Of these, whose operation has ended: nobody waits for their reply.
    dropped: Vec<ObjectId>,
    /// Calls of other nodes' functions whose operation has ended before they had.
    left: Vec<ObjectId>,
    /// Functions for which a message waits for room no more: the next may find some.
    vacated: Vec<ObjectId>,
    /// When its loop has something to do for other nodes because time went by.
    pub(crate) wake_ns: Option<u64>,
    /// Bytes that an operation is on its way with.
    pub(crate) transfers: HashMap<ObjectId, Transfer>,
    /// Receives whose reply nobody waited for.
    unheard: HashSet<ObjectId>,
    /// Operations on functions that were unknown, and how often orders had been looked for by then.
    doubts: HashMap<ObjectId, u64>,
}

impl Member {
    /// What the session may do with a function.
    pub(crate) fn role(&self, function: ObjectId) -> Option<Role> {
        self.roles.get(&function).copied()
    }

    /// Who it is. One that has a role is known.
    pub(crate) fn who(&self) -> Option<Who> {
        self.who
    }

    /// It may do this with a function, as who it was first said to be; nothing while that was not said.
    pub(crate) fn set_role(&mut self, function: ObjectId, who: Option<Who>, role: Role) {
        self.who = self.who.or(who);
        self.roles.insert(function, self.who.map_or(Role::default(), |_| role));
    }

    /// Says whether a function that is unknown to an operation is none, with orders looked for so
    /// often: those that may bring it have been carried out since the operation was first asked about.
    pub(crate) fn is_none(&mut self, operation: ObjectId, looks: u64) -> bool {
        *self.doubts.entry(operation).or_insert(looks) != looks
    }

    /// Whether a Call or a Receive waits in its line, or a Call was received: its turns are over.
    pub(crate) fn has_its_place(&self, operation: ObjectId) -> bool {
        let is_in_line = self.waiting.line(operation).is_some_and(|line| line != Line::Senders);
        is_in_line || self.delivered.contains_key(&operation) || self.away.contains_key(&operation)
    }

    /// The function is nothing to the session any more, and has it in no round.
    pub(crate) fn forget(&mut self, function: ObjectId) {
        self.waiting.forget(function);
        self.roles.remove(&function);
        self.there.remove(&function);
    }

    /// A call of the session was received.
    pub(crate) fn deliver(&mut self, operation: ObjectId, call: ObjectId) {
        self.delivered.insert(operation, call);
    }

    /// Calls whose operation has ended since the last time.
    pub(crate) fn take_dropped(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.dropped)
    }

    /// The same of calls to functions of other nodes: those are to be told.
    pub(crate) fn take_left(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.left)
    }

    /// Functions for which one message less waits for room since the last time.
    pub(crate) fn take_vacated(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.vacated)
    }

    /// Nobody waited for the reply that came with a Receive.
    pub(crate) fn note_unheard(&mut self, operation: ObjectId) {
        self.unheard.insert(operation);
    }

    /// Whether that was so.
    pub(crate) fn is_unheard(&self, operation: ObjectId) -> bool {
        self.unheard.contains(&operation)
    }
}

impl PerSession for Member {
    fn ended(&mut self, _: OpKind, operation: ObjectId) {
        if let Some((function, Line::Senders)) = self.waiting.ended(operation) {
            self.vacated.push(function);
        }
        self.left.extend(self.away.remove(&operation).and_then(Away::into_call));
        self.dropped.extend(self.delivered.remove(&operation));
        self.transfers.remove(&operation);
        self.unheard.remove(&operation);
        self.doubts.remove(&operation);
    }

    fn cut_short(&self, operation: ObjectId, errno: i32) -> i32 {
        let is_received = self.delivered.contains_key(&operation)
            || self.away.get(&operation).is_some_and(Away::is_received);
        match errno {
            libc::ETIMEDOUT if is_received => libc::ETIME,
            libc::ECANCELED if is_received => libc::EINTR,
            errno => errno,
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.wake_ns
    }
}

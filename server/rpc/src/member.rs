//! What one session is on the loop: its roles, its operations in line, its calls that were delivered.

use std::collections::{HashMap, HashSet, VecDeque};

use heliostat_abi::file::delegated::OpKind;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::PerSession;

use super::function::Line;
use super::message::{Role, Who};
use super::transfer::Transfer;

/// A session.
#[derive(Default)]
pub struct Member {
    /// Who it is to those whom it calls, said once.
    who: Option<Who>,
    roles: HashMap<ObjectId, Role>,
    queues: HashMap<ObjectId, Queues>,
    /// Operations in a line, and of which function.
    waiting: HashMap<ObjectId, (ObjectId, Line)>,
    /// Calls that somebody received, by operation.
    delivered: HashMap<ObjectId, ObjectId>,
    /// Of these, whose operation has ended: nobody waits for their reply.
    dropped: Vec<ObjectId>,
    /// Bytes that an operation is on its way with.
    pub(crate) transfers: HashMap<ObjectId, Transfer>,
    /// Receives whose reply nobody waited for.
    unheard: HashSet<ObjectId>,
    /// Operations on functions that were unknown, and how often orders had been looked for by then.
    doubts: HashMap<ObjectId, u64>,
}

/// Operations in line for one function, in order of submission.
#[derive(Default)]
struct Queues {
    lines: [VecDeque<ObjectId>; 3],
    /// By line, whether the function has the session in its round.
    is_listed: [bool; 3],
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
        let line = self.waiting.get(&operation).map(|(_, line)| *line);
        line.is_some_and(|line| line != Line::Senders) || self.delivered.contains_key(&operation)
    }

    /// Puts an operation at the end of a line, unless it waits already; true when the function has to
    /// list the session.
    pub(crate) fn join(&mut self, function: ObjectId, line: Line, operation: ObjectId) -> bool {
        if self.waiting.contains_key(&operation) {
            return false;
        }
        self.waiting.insert(operation, (function, line));
        let queues = self.queues.entry(function).or_default();
        queues.lines[line as usize].push_back(operation);
        !std::mem::replace(&mut queues.is_listed[line as usize], true)
    }

    /// The same at its front.
    pub(crate) fn join_first(
        &mut self,
        function: ObjectId,
        line: Line,
        operation: ObjectId,
    ) -> bool {
        if self.waiting.contains_key(&operation) {
            return false;
        }
        self.waiting.insert(operation, (function, line));
        let queues = self.queues.entry(function).or_default();
        queues.lines[line as usize].push_front(operation);
        !std::mem::replace(&mut queues.is_listed[line as usize], true)
    }

    /// Takes the first operation out of a line, for a function that has just taken the session out of
    /// its round; and whether it has to go in again.
    pub(crate) fn take(&mut self, function: ObjectId, line: Line) -> (Option<ObjectId>, bool) {
        let Some(queues) = self.queues.get_mut(&function) else { return (None, false) };
        let taken = queues.lines[line as usize].pop_front();
        let has_more = !queues.lines[line as usize].is_empty();
        queues.is_listed[line as usize] = has_more;
        if let Some(operation) = taken {
            self.waiting.remove(&operation);
        }
        (taken, has_more)
    }

    /// The first operation of a line, which stays there.
    pub(crate) fn first(&self, function: ObjectId, line: Line) -> Option<ObjectId> {
        self.queues.get(&function)?.lines[line as usize].front().copied()
    }

    /// Takes all operations out of some lines of a function.
    pub(crate) fn take_all(&mut self, function: ObjectId, lines: &[Line]) -> Vec<ObjectId> {
        let Some(queues) = self.queues.get_mut(&function) else { return Vec::new() };
        let all: Vec<_> = lines
            .iter()
            .flat_map(|line| std::mem::take(&mut queues.lines[*line as usize]))
            .collect();
        self.waiting.retain(|operation, _| !all.contains(operation));
        all
    }

    /// The function is nothing to the session any more, and has it in no round.
    pub(crate) fn forget(&mut self, function: ObjectId) {
        self.queues.remove(&function);
        self.roles.remove(&function);
    }

    /// A call of the session was received.
    pub(crate) fn deliver(&mut self, operation: ObjectId, call: ObjectId) {
        self.delivered.insert(operation, call);
    }

    /// Calls whose operation has ended since the last time.
    pub(crate) fn take_dropped(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.dropped)
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
        if let Some((function, line)) = self.waiting.remove(&operation) {
            if let Some(queues) = self.queues.get_mut(&function) {
                queues.lines[line as usize].retain(|other| *other != operation);
            }
        }
        self.dropped.extend(self.delivered.remove(&operation));
        self.transfers.remove(&operation);
        self.unheard.remove(&operation);
        self.doubts.remove(&operation);
    }

    fn cut_short(&self, operation: ObjectId, errno: i32) -> i32 {
        match errno {
            libc::ETIMEDOUT if self.delivered.contains_key(&operation) => libc::ETIME,
            libc::ECANCELED if self.delivered.contains_key(&operation) => libc::EINTR,
            errno => errno,
        }
    }
}

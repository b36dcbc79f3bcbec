//! Operations in line, of one caller or server: by function and line, in order of submission.

use std::collections::{HashMap, VecDeque};

use heliostat_abi::name::ObjectId;

use super::function::Line;

/// What waits.
#[derive(Default)]
pub(crate) struct Waiting {
    queues: HashMap<ObjectId, Queues>,
    /// Operations in a line, and of which function.
    of: HashMap<ObjectId, (ObjectId, Line)>,
}

/// Operations in line for one function.
#[derive(Default)]
struct Queues {
    lines: [VecDeque<ObjectId>; 3],
    /// By line, whether the function has whose they are in its round.
    is_listed: [bool; 3],
}

impl Waiting {
    /// The line that an operation waits in.
    pub(crate) fn line(&self, operation: ObjectId) -> Option<Line> {
        self.of.get(&operation).map(|(_, line)| *line)
    }

    /// Puts an operation at the end of a line, unless it waits already; true when the function has to
    /// list whose it is.
    pub(crate) fn join(&mut self, function: ObjectId, line: Line, operation: ObjectId) -> bool {
        if self.of.contains_key(&operation) {
            return false;
        }
        self.of.insert(operation, (function, line));
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
        if self.of.contains_key(&operation) {
            return false;
        }
        self.of.insert(operation, (function, line));
        let queues = self.queues.entry(function).or_default();
        queues.lines[line as usize].push_front(operation);
        !std::mem::replace(&mut queues.is_listed[line as usize], true)
    }

    /// Takes the first operation out of a line, for a function that has just taken whose it is out of
    /// its round; and whether it has to go in again.
    pub(crate) fn take(&mut self, function: ObjectId, line: Line) -> (Option<ObjectId>, bool) {
        let Some(queues) = self.queues.get_mut(&function) else { return (None, false) };
        let taken = queues.lines[line as usize].pop_front();
        let has_more = !queues.lines[line as usize].is_empty();
        queues.is_listed[line as usize] = has_more;
        if let Some(operation) = taken {
            self.of.remove(&operation);
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
        self.of.retain(|operation, _| !all.contains(operation));
        all
    }

    /// The function is nothing to whose these are any more, and has him in no round.
    pub(crate) fn forget(&mut self, function: ObjectId) {
        self.queues.remove(&function);
    }

    /// An operation has ended: where it waited, if it did.
    pub(crate) fn ended(&mut self, operation: ObjectId) -> Option<(ObjectId, Line)> {
        let (function, line) = self.of.remove(&operation)?;
        if let Some(queues) = self.queues.get_mut(&function) {
            queues.lines[line as usize].retain(|other| *other != operation);
        }
        Some((function, line))
    }
}

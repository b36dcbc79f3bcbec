//! One function on the loop: who waits for it, in turn, and what was sent to it.

use std::collections::VecDeque;

use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::CallHead;

use super::served::ServedFunction;

/// The lines that operations wait in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// Calls that nobody has received.
    Calls,
    /// Receives that have no call yet.
    Receivers,
    /// Messages for which there is no room.
    Senders,
}

impl Line {
    pub(crate) const ALL: [Line; 3] = [Line::Calls, Line::Receivers, Line::Senders];
}

/// A message that was sent and waits for a receiver.
pub(crate) struct Message {
    /// The sender's place on the loop.
    pub seat: ObjectId,
    pub head: CallHead,
    pub payload: Vec<u8>,
}

/// A function.
pub(crate) struct Function {
    pub info: ServedFunction,
    /// By line, the sessions that may have something in it: each takes one turn after the others.
    rounds: [VecDeque<ObjectId>; 3],
    pub stored: VecDeque<Message>,
    /// The next receiver gets a message rather than a call, where there are both.
    prefers_message: bool,
}

impl Function {
    pub(crate) fn new(info: ServedFunction) -> Function {
        Function {
            info,
            rounds: Default::default(),
            stored: VecDeque::new(),
            prefers_message: false,
        }
    }

    /// The sessions of a line, in turn.
    pub(crate) fn round(&mut self, line: Line) -> &mut VecDeque<ObjectId> {
        &mut self.rounds[line as usize]
    }

    /// Whether somebody waits in a line, perhaps in vain.
    pub(crate) fn may_have(&self, line: Line) -> bool {
        !self.rounds[line as usize].is_empty()
    }

    /// A session has ended.
    pub(crate) fn forget(&mut self, seat: ObjectId) {
        self.rounds.iter_mut().for_each(|round| round.retain(|other| *other != seat));
    }

    /// Whether the next receiver gets a message. Calls and messages take turns.
    pub(crate) fn takes_message(&mut self, has_call: bool) -> bool {
        let takes = !self.stored.is_empty() && (self.prefers_message || !has_call);
        self.prefers_message = !takes;
        takes
    }

    /// Whether a session may store another message: there is room, and it has no more than are free,
    /// so that one that comes late finds some.
    pub(crate) fn has_room(&self, seat: ObjectId) -> bool {
        let free = (self.info.queue as usize).saturating_sub(self.stored.len());
        if free == 0 || self.stored.is_empty() {
            return free > 0;
        }
        let own = self.stored.iter().filter(|message| message.seat == seat).count();
        own < free
    }
}

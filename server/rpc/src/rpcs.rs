//! What the loop keeps of functions and calls besides its sessions' lines.

use std::collections::HashMap;
use std::sync::Arc;

use heliostat_abi::file::delegated::{Piece, DEPTH_MAX, SESSIONS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::OperationId;

use super::function::{Function, Message};
use super::message::ServedFunction;

/// Bytes of messages that wait, of all functions: memory of the control plane's.
pub const STORED_BYTES_MAX: u64 = 64 << 20;
/// Of these, those of one user's functions.
const STORED_BYTES_PER_USER: u64 = STORED_BYTES_MAX / 4;

/// Remote procedure calls on one loop.
pub struct Rpcs {
    pub(crate) functions: HashMap<ObjectId, Function>,
    /// Calls that somebody has received, or is about to.
    pub(crate) calls: Table<OpenCall>,
    /// Functions whose lines have changed.
    pub(crate) changed: Vec<ObjectId>,
    /// Operations that answer a call.
    pub(crate) answering: Vec<OperationId>,
    /// Operations with bytes on their way.
    pub(crate) active: Vec<Active>,
    /// Operations whose bytes have arrived.
    pub(crate) landed: Vec<OperationId>,
    /// Calls whose server has ended.
    pub(crate) orphans: Vec<OperationId>,
    /// Sessions to be rung.
    pub(crate) unrung: Vec<ObjectId>,
    /// Functions with messages that wait for bytes, which any function's may free.
    pub(crate) refused: Vec<ObjectId>,
    stored: HashMap<u32, u64>,
    stored_all: u64,
}

/// A call that was matched with a server.
pub(crate) struct OpenCall {
    pub caller: OperationId,
    /// The place of the session that received it: its replies alone count.
    pub server: ObjectId,
    /// The caller's window.
    pub window: Arc<SharedMapping>,
    /// Where the reply goes there.
    pub place: Piece,
    /// It has arrived there, and may have an effect from then on.
    pub is_delivered: bool,
    /// A reply is on its way.
    pub is_answered: bool,
}

/// Two operations with bytes on their way.
#[derive(Clone, Copy)]
pub(crate) struct Active {
    /// Whose turns carry them: a Call, or who answers one.
    pub owner: OperationId,
    /// Whose window they go to: a Receive, or the Call that is answered. It cannot end meanwhile.
    pub partner: OperationId,
    /// The call.
    pub call: ObjectId,
    /// Whether it is answered.
    pub is_reply: bool,
}

/// Bytes that a message with such a payload takes while it waits.
fn kept_bytes(payload: u64) -> u64 {
    size_of::<Message>() as u64 + payload
}

impl Default for Rpcs {
    fn default() -> Self {
        Rpcs {
            functions: HashMap::new(),
            // Each is an operation of a session, or was one that ended since it asked something last.
            calls: Table::lean(2 * SESSIONS_MAX * DEPTH_MAX),
            changed: Vec::new(),
            answering: Vec::new(),
            active: Vec::new(),
            landed: Vec::new(),
            orphans: Vec::new(),
            unrung: Vec::new(),
            refused: Vec::new(),
            stored: HashMap::new(),
            stored_all: 0,
        }
    }
}

impl Rpcs {
    /// Whether lines have to be looked at.
    pub(crate) fn has_news(&self) -> bool {
        let quiet = self.changed.is_empty() && self.answering.is_empty() && self.active.is_empty();
        !(quiet && self.orphans.is_empty() && self.unrung.is_empty())
    }

    /// A line of a function has changed.
    pub(crate) fn note(&mut self, function: ObjectId) {
        if !self.changed.contains(&function) {
            self.changed.push(function);
        }
    }

    /// Whether a message of so many bytes may wait for a function of a user. One that may not is
    /// remembered: the function's line is looked at again when there is more room.
    pub(crate) fn may_store(&mut self, info: &ServedFunction, bytes: u64) -> bool {
        let kept = kept_bytes(bytes);
        let of_user = self.stored.get(&info.user).copied().unwrap_or(0);
        let may =
            of_user + kept <= STORED_BYTES_PER_USER && self.stored_all + kept <= STORED_BYTES_MAX;
        if !may && !self.refused.contains(&info.function) {
            self.refused.push(info.function);
        }
        may
    }

    /// A message of so many bytes waits.
    pub(crate) fn store(&mut self, user: u32, bytes: u64) {
        *self.stored.entry(user).or_default() += kept_bytes(bytes);
        self.stored_all += kept_bytes(bytes);
    }

    /// A message no longer waits.
    pub(crate) fn release(&mut self, user: u32, message: &Message) {
        let kept = kept_bytes(message.payload.len() as u64);
        self.stored_all = self.stored_all.saturating_sub(kept);
        if let Some(of_user) = self.stored.get_mut(&user) {
            *of_user = of_user.saturating_sub(kept);
            if *of_user == 0 {
                self.stored.remove(&user);
            }
        }
        std::mem::take(&mut self.refused).into_iter().for_each(|function| self.note(function));
    }

    /// Forgets a session's calls, those that it made and those that it received. One that was on its
    /// way to it goes to another server once its bytes are called back.
    pub(crate) fn forget(&mut self, seat: ObjectId) {
        self.functions.values_mut().for_each(|function| function.forget(seat));
        let is_its = |call: &OpenCall| call.caller.seat == seat || call.server == seat;
        let its = self.calls.iter().filter(|(_, call)| is_its(call)).map(|(id, _)| id);
        for id in its.collect::<Vec<_>>() {
            let Some(call) = self.calls.remove(id) else { continue };
            if call.caller.seat != seat && call.is_delivered {
                self.orphans.push(call.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_without_bytes_take_room_as_well() {
        let function = ObjectId { index: 1, generation: 1 };
        let (request_bytes, reply_bytes, queue) = (0, 0, 1);
        let info = ServedFunction { function, user: 7, request_bytes, reply_bytes, queue };
        let mut rpcs = Rpcs::default();
        let most = STORED_BYTES_PER_USER / heliostat_abi::rpc::HEAD_BYTES as u64;
        let stored = (0..=most).take_while(|_| {
            let may = rpcs.may_store(&info, 0);
            rpcs.store(info.user, 0);
            may
        });
        assert!(stored.count() as u64 <= most);
    }
}

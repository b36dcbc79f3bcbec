//! The turns of a sweep: who is served, for how much; and what the device has brought.

use heliostat_abi::delegated::{Kind, Way};
use heliostat_service_file::delegated::Entry;

use super::engine::Who;
use super::serve::Step;
use super::server::Server;
use super::session::Session;

/// Why a session's turn ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// What it may spend is spent.
    Spent,
    /// Nothing is ready, or it has to wait for something of its own.
    Idle,
}

impl Server {
    /// One turn for each session that has something to do.
    pub(super) fn take_turns(&mut self) -> bool {
        let mut did = false;
        for _ in 0..self.fair.len() {
            let Some((index, mut left)) = self.fair.begin() else { break };
            let turn = self.take_turn(index, &mut left);
            did |= turn.1;
            self.fair.end(index, left, turn.0 == Turn::Spent);
        }
        did
    }

    fn take_turn(&mut self, index: u32, left: &mut i64) -> (Turn, bool) {
        let Some(seat) = self.sessions.id_at(index) else { return (Turn::Idle, false) };
        let Some(session) = self.sessions.get_mut(seat) else { return (Turn::Idle, false) };
        let share = self.share;
        let (mut turn, mut did) = (Turn::Spent, false);
        while *left > 0 {
            let Some(operation) = session.operations.pop() else {
                turn = Turn::Idle;
                break;
            };
            if !session.may_begin(operation, share, self.now_ns) {
                session.operations.put_back(operation);
                turn = Turn::Idle;
                break;
            }
            match session.serve(&mut self.engine, Who { seat, operation }, left) {
                Step::Over => {}
                Step::GoesOn => session.operations.requeue(operation),
                Step::Blocked => {
                    session.operations.put_back(operation);
                    turn = Turn::Idle;
                    break;
                }
            }
            did = true;
        }
        session.ring();
        (turn, did)
    }

    /// The kernel has done what an operation needed.
    pub(super) fn transferred(&mut self, who: Who, result: i32) {
        let Some(session) = self.sessions.get_mut(who.seat) else { return };
        // It is likely to answer with another operation.
        session.heard_ns = self.now_ns;
        session.flights.remove(&who.operation);
        let Some(entry) = session.operations.get_mut(who.operation) else { return };
        entry.flying = entry.flying.saturating_sub(1);
        let entry = *entry;
        session.landed(&entry);
        if result == -libc::EINVAL && session.goes_by_kernel(&entry) {
            session.operations.requeue(who.operation);
        } else {
            session.end(&mut self.engine, who.operation, result_of(&entry, result));
        }
        session.ring();
        if session.operations.has_ready() && session.held_until_ns.is_none() {
            self.fair.join(who.seat.index);
        }
    }
}

impl Session {
    /// Whether an operation may begin: the session has tokens, and room at the device. One that has
    /// begun goes on.
    fn may_begin(&mut self, id: heliostat_abi::name::ObjectId, share: u64, now_ns: u64) -> bool {
        let Some(entry) = self.operations.get(id) else { return true };
        if entry.done > 0 || entry.way != Way::None || entry.verdict.is_some() {
            return true;
        }
        let bytes = entry.operation.pieces.bytes();
        if self.flying_bytes > 0 && self.flying_bytes + bytes > share {
            return false;
        }
        let answer = self.take_tokens(bytes, now_ns);
        self.held_until_ns = answer.err();
        answer.is_ok()
    }

    /// Takes the tokens of one operation, or says at which time to ask again.
    pub(super) fn take_tokens(&mut self, bytes: u64, now_ns: u64) -> Result<(), u64> {
        let (operations, of_bytes) = &mut self.buckets;
        operations.take(1, now_ns)?;
        of_bytes.take(bytes, now_ns).inspect_err(|_| operations.give_back(1))
    }

    fn landed(&mut self, entry: &Entry) {
        if entry.operation.kind != Kind::Fsync {
            let bytes = entry.operation.pieces.bytes();
            self.flying_bytes = self.flying_bytes.saturating_sub(bytes);
        }
    }

    /// A file that can be opened for the device but not be read so goes by the kernel from now on,
    /// unless the session has asked for the device.
    fn goes_by_kernel(&mut self, entry: &Entry) -> bool {
        let Some(opened) = self.objects.get_mut(entry.operation.object) else { return false };
        let goes = entry.way == Way::Direct && !opened.file.wants_direct;
        if goes {
            opened.file.direct = None;
        }
        goes && entry.verdict.is_none()
    }
}

/// What the session is told: an operation that was to end, and was done all the same, is done.
fn result_of(entry: &Entry, result: i32) -> i64 {
    match entry.verdict {
        Some(errno) if result < 0 => -i64::from(errno),
        _ => i64::from(result),
    }
}

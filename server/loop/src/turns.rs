//! The turns of a sweep: who is served, for how much; and what the device has brought.

use heliostat_abi::file::delegated::{OpKind, Operation, Way};
use heliostat_abi::name::ObjectId;

use super::engine::{Engine, OperationId};
use super::operations::Entry;
use super::parts::Object;
use super::service::Service;
use super::session::Session;
use super::sessions::Sessions;
use super::turn::{Step, Turn};

/// Operations that wait for the device's first completions while it has many of a session.
const KEPT_BACK: usize = 12;
/// The same where the session runs on the loop's own core: its wake-up is shorter.
const KEPT_BACK_SHARED: usize = 8;

/// Why a session's turn ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// What it may spend is spent.
    Spent,
    /// Nothing is ready, or it has to wait for something of its own.
    Idle,
}

impl<S: Service> Sessions<S> {
    /// One turn for each session that has something to do.
    pub(super) fn take_turns(&mut self) -> bool {
        let mut did = false;
        for _ in 0..self.fair.len() {
            let Some((index, mut left)) = self.fair.begin() else { break };
            let (ending, began) = self.take_turn(index, &mut left);
            did |= began;
            self.fair.end(index, left, ending == Ending::Spent);
        }
        did
    }

    fn take_turn(&mut self, index: u32, left: &mut i64) -> (Ending, bool) {
        let Some(seat) = self.table.id_at(index) else { return (Ending::Idle, false) };
        let Some(session) = self.table.get_mut(seat) else { return (Ending::Idle, false) };
        let share = self.share;
        let kept_back = if self.is_shared { KEPT_BACK_SHARED } else { KEPT_BACK };
        let (mut ending, mut did) = (Ending::Spent, false);
        while *left > 0 {
            let Some(operation) = session.operations.pop() else {
                ending = Ending::Idle;
                break;
            };
            if !session.may_begin(operation, (share, kept_back), self.engine.now_ns) {
                session.operations.put_back(operation);
                ending = Ending::Idle;
                break;
            }
            match session.serve(&mut self.engine, OperationId { seat, operation }, left) {
                Step::Over => {}
                Step::GoesOn => session.operations.requeue(operation),
                Step::Blocked => {
                    session.operations.put_back(operation);
                    ending = Ending::Idle;
                    break;
                }
            }
            did = true;
        }
        session.ring_meanwhile();
        (ending, did)
    }

    /// On a completion, begins held-back operations first; the completion queue is read afterwards.
    pub(super) fn release(&mut self) {
        for (seat, session) in self.table.iter_mut() {
            let is_kept = session.has_many_flights() && session.operations.has_ready();
            if is_kept && session.held_until_ns.is_none() {
                session.is_released = true;
                self.fair.join(seat.index);
            }
        }
        self.take_turns();
        self.engine.submit();
        self.table.iter_mut().for_each(|(_, session)| session.is_released = false);
    }

    /// The kernel has done what an operation needed.
    pub(super) fn completed(&mut self, id: OperationId, result: i32) {
        let Some(session) = self.table.get_mut(id.seat) else { return };
        // It is likely to answer with another operation.
        session.heard_ns = self.engine.now_ns;
        session.flights.remove(id.operation);
        let Some(entry) = session.operations.get_mut(id.operation) else { return };
        entry.flying = entry.flying.saturating_sub(1);
        let landed = Landed::of(entry);
        session.flying_bytes = session.flying_bytes.saturating_sub(landed.bytes);
        if session.falls_back(&landed, result) {
            session.operations.requeue(id.operation);
        } else {
            session.end(&mut self.engine, id.operation, landed.told(result));
        }
        if session.operations.has_ready() && session.held_until_ns.is_none() {
            self.fair.join(id.seat.index);
        }
    }
}

impl<S: Service> Session<S> {
    /// Whether an operation may begin: the session has tokens, and room at the device, of which it has
    /// `share` bytes and leaves so many operations for later. One that has begun goes on.
    fn may_begin(&mut self, id: ObjectId, (share, kept_back): (u64, usize), now_ns: u64) -> bool {
        let Some(entry) = self.operations.get(id) else { return true };
        if entry.done > 0 || entry.way != Way::None || entry.verdict.is_some() {
            return true;
        }
        let (bytes, is_paid) = (entry.operation.pieces.bytes(), entry.is_paid);
        if self.flying_bytes > 0 && self.flying_bytes + bytes > share {
            return false;
        }
        let object = entry.operation.object;
        if entry.operation.kind == OpKind::Read && self.keeps_back(object, kept_back) {
            return false;
        }
        is_paid || self.pays(id, now_ns)
    }

    /// Takes an operation's tokens, once for all its turns; false when the session has to wait.
    fn pays(&mut self, id: ObjectId, now_ns: u64) -> bool {
        let Some(operation) = self.operations.get(id).map(|entry| entry.operation) else {
            return true;
        };
        let bytes = S::bytes(self, id, &operation);
        let answer = self.take_tokens(operation.object, Some(id), bytes, now_ns);
        self.held_until_ns = answer.err();
        if let Some(entry) = self.operations.get_mut(id) {
            entry.is_paid = answer.is_ok();
        }
        answer.is_ok()
    }

    /// Whether the service makes an operation another way than the one that failed. One that is to
    /// end does not go on.
    fn falls_back(&mut self, landed: &Landed, result: i32) -> bool {
        let Some(object) = self.objects.get_mut(landed.object) else { return false };
        object.falls_back(landed.way, result) && landed.verdict.is_none()
    }

    /// Begins an operation or goes on with it; `left` is what the turn may still cost.
    fn serve(&mut self, engine: &mut Engine<S>, id: OperationId, left: &mut i64) -> Step {
        let Some(entry) = self.operations.get(id.operation) else { return Step::Over };
        let verdict = entry.verdict;
        engine.requests.act_for(self.id.index);
        let mut turn = Turn { engine, session: self, id, left };
        match verdict {
            Some(errno) => turn.fail(errno),
            None => S::serve(&mut turn),
        }
    }
}

/// What is needed of an operation whose request has completed: a copy of the whole entry would be ten
/// times as large.
struct Landed {
    object: ObjectId,
    way: Way,
    /// Of the session's share of the device.
    bytes: u64,
    verdict: Option<i32>,
}

impl Landed {
    fn of(entry: &Entry) -> Landed {
        let Operation { object, pieces, .. } = &entry.operation;
        let bytes = pieces.bytes();
        Landed { object: *object, way: entry.way, bytes, verdict: entry.verdict }
    }

    /// What the session is told: an operation that was to end, and was done all the same, is done.
    fn told(&self, result: i32) -> i64 {
        match self.verdict {
            Some(errno) if result < 0 => -i64::from(errno),
            _ => i64::from(result),
        }
    }
}

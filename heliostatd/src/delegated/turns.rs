//! The turns of a sweep: who is served, for how much; and what the device has brought.

use heliostat_abi::delegated::{Kind, Operation, Way};
use heliostat_abi::name::ObjectId;
use heliostat_service_file::delegated::Entry;

use super::engine::Who;
use super::serve::Step;
use super::server::Server;
use super::session::Session;

/// Requests of a session that are enough for the device, and operations that then wait for the
/// first of them to complete. A device that says that it is done only when it has done everything
/// would be idle until the session, which sleeps, has answered with more.
const MANY_FLIGHTS: usize = 24;
const KEPT_BACK: usize = 12;
/// The same where the session runs on the loop's own core: its wake-up is shorter.
const KEPT_BACK_SHARED: usize = 8;

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
        let kept_back = if self.is_shared { KEPT_BACK_SHARED } else { KEPT_BACK };
        let (mut turn, mut did) = (Turn::Spent, false);
        while *left > 0 {
            let Some(operation) = session.operations.pop() else {
                turn = Turn::Idle;
                break;
            };
            if !session.may_begin(operation, (share, kept_back), self.now_ns) {
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
        session.ring_meanwhile();
        (turn, did)
    }

    /// The device has done something: what was kept back begins, before it is looked at what.
    pub(super) fn release(&mut self) {
        for (seat, session) in self.sessions.iter_mut() {
            let is_kept = session.flights.len() >= MANY_FLIGHTS && session.operations.has_ready();
            if is_kept && session.held_until_ns.is_none() {
                session.is_released = true;
                self.fair.join(seat.index);
            }
        }
        self.take_turns();
        self.submit();
        self.sessions.iter_mut().for_each(|(_, session)| session.is_released = false);
    }

    /// The kernel has done what an operation needed.
    pub(super) fn transferred(&mut self, who: Who, result: i32) {
        let Some(session) = self.sessions.get_mut(who.seat) else { return };
        // It is likely to answer with another operation.
        session.heard_ns = self.now_ns;
        session.flights.remove(who.operation);
        let Some(entry) = session.operations.get_mut(who.operation) else { return };
        entry.flying = entry.flying.saturating_sub(1);
        let landed = Landed::of(entry);
        session.flying_bytes = session.flying_bytes.saturating_sub(landed.bytes);
        if result == -libc::EINVAL && session.goes_by_kernel(&landed) {
            session.operations.requeue(who.operation);
        } else {
            session.end(&mut self.engine, who.operation, landed.told(result));
        }
        if session.operations.has_ready() && session.held_until_ns.is_none() {
            self.fair.join(who.seat.index);
        }
    }
}

impl Session {
    /// Whether an operation may begin: the session has tokens, and room at the device, of which it has
    /// `share` bytes and leaves so many operations for later. One that has begun goes on.
    fn may_begin(&mut self, id: ObjectId, (share, kept_back): (u64, usize), now_ns: u64) -> bool {
        let Some(entry) = self.operations.get(id) else { return true };
        if entry.done > 0 || entry.way != Way::None || entry.verdict.is_some() {
            return true;
        }
        let bytes = entry.operation.pieces.bytes();
        if self.flying_bytes > 0 && self.flying_bytes + bytes > share {
            return false;
        }
        let object = entry.operation.object;
        if entry.operation.kind == Kind::Read && self.keeps_back(object, kept_back) {
            return false;
        }
        let answer = self.take_tokens(object, bytes, now_ns);
        self.held_until_ns = answer.err();
        answer.is_ok()
    }

    /// Whether the device has enough for now, so that the last few reads past the caches wait for
    /// its first completions.
    fn keeps_back(&self, object: ObjectId, kept_back: usize) -> bool {
        let has_much = self.flights.len() >= MANY_FLIGHTS && !self.is_released;
        let is_last = has_much && self.operations.ready() < kept_back;
        is_last && self.objects.get(object).is_some_and(|opened| opened.file.wants_direct)
    }

    /// Takes the tokens of one operation on a file, the session's and the file's, or says at which
    /// time to ask again.
    pub(super) fn take_tokens(&self, object: ObjectId, bytes: u64, now_ns: u64) -> Result<(), u64> {
        self.meter.take(bytes, now_ns)?;
        let of_name = self.objects.get(object).and_then(|opened| opened.file.meter.as_ref());
        let taken = of_name.map_or(Ok(()), |meter| meter.take(bytes, now_ns));
        taken.inspect_err(|_| self.meter.give_back(bytes))
    }

    /// Gives back the tokens of an operation that was not done.
    pub(super) fn give_back_tokens(&self, object: ObjectId, bytes: u64) {
        self.meter.give_back(bytes);
        let of_name = self.objects.get(object).and_then(|opened| opened.file.meter.as_ref());
        of_name.into_iter().for_each(|meter| meter.give_back(bytes));
    }

    /// A file that can be opened for the device but not be read so goes by the kernel from now on,
    /// unless the session has asked for the device.
    fn goes_by_kernel(&mut self, entry: &Landed) -> bool {
        let Some(opened) = self.objects.get_mut(entry.object) else { return false };
        let goes = entry.way == Way::Direct && !opened.file.wants_direct;
        if goes {
            opened.file.direct = None;
        }
        goes && entry.verdict.is_none()
    }
}

/// What counts of an operation when a request of its has completed; the whole is ten times as long.
struct Landed {
    object: ObjectId,
    way: Way,
    /// Of the session's share of the device.
    bytes: u64,
    verdict: Option<i32>,
}

impl Landed {
    fn of(entry: &Entry) -> Landed {
        let Operation { kind, object, pieces, .. } = &entry.operation;
        let bytes = if *kind == Kind::Fsync { 0 } else { pieces.bytes() };
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

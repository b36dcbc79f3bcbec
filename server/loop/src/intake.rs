//! What comes in from a session: operations from its ring, and its call.

use heliostat_abi::file::delegated::joint::{all_of, member_of};
use heliostat_abi::file::delegated::{
    called, is_one_read, CallWords, Completion, Malformed, OneRead, OpKind, Operation, Way,
    CALL_DECLINED,
};
use heliostat_ring::TakeError;

use super::counts::Counts;
use super::engine::Engine;
use super::fair::QUANTUM;
use super::operations::Cancelled;
use super::service::Service;
use super::session::Session;
use super::sessions::Sessions;

/// Operations taken from one ring before the others are looked at.
const TAKEN_AT_ONCE: usize = 32;
/// The same while the device has requests of its, whose answers come many at once: each submission
/// wakes the device.
const TAKEN_IN_FLIGHT: usize = 4;

impl<S: Service> Sessions<S> {
    /// Takes operations from the rings of those that are awake; false when there were none.
    pub(super) fn listen(&mut self) -> bool {
        let (mut did, mut busy, now_ns) = (false, 0, self.engine.now_ns);
        for (seat, session) in self.table.iter_mut() {
            if session.has_room_again() {
                // The wait that is left over ends, and at worst wakes it once more.
                session.parked.into_iter().for_each(|flight| self.engine.requests.cancel(flight));
                session.unpark(now_ns);
            }
            if session.parked.is_none() && session.take_operations(&mut self.engine, now_ns) > 0 {
                did = true;
                session.heard_ns = now_ns;
            }
            // Also for one that was parked while the device had something of its.
            self.is_anyone_unrung |= session.ring_meanwhile();
            busy += u64::from(!session.operations.is_empty());
            if session.operations.has_ready() && session.held_until_ns.is_none() {
                self.fair.join(seat.index);
            }
            if let Some(fault) = session.take_fault() {
                self.engine.tell_broken(session.id, fault);
            }
        }
        // While nobody has operations nobody asks for a share, and it takes a division.
        if busy > 0 || self.share > 0 {
            let share = self.engine.device_share(busy);
            self.share = if busy > 0 { share } else { 0 };
        }
        did
    }
}

impl<S: Service> Session<S> {
    /// Takes what it has submitted, up to a number; answers how many operations that were.
    ///
    /// One at first where the device has nothing, and twice as many each time that there were as
    /// many: to see that there is no second one takes a line's way between two cores, in which the
    /// first is as good as done.
    fn take_operations(&mut self, engine: &mut Engine<S>, now_ns: u64) -> usize {
        if self.is_broken {
            return 0;
        }
        let mut left = QUANTUM;
        engine.requests.act_for(self.id.index);
        let called = usize::from(self.answer_call(engine, &mut left, now_ns));
        let taken = self.take_some(engine, left, now_ns);
        self.has_more = taken == self.eagerness;
        let least = if self.flights.len() > 0 { TAKEN_IN_FLIGHT } else { 1 };
        self.eagerness = if self.has_more { (taken * 2).min(TAKEN_AT_ONCE) } else { least };
        called + taken
    }

    fn take_some(&mut self, engine: &mut Engine<S>, mut left: i64, now_ns: u64) -> usize {
        self.send_unsent();
        for taken in 0..self.eagerness {
            if self.is_full() {
                return taken;
            }
            let length = match self.submissions.poll(&mut self.record[..]) {
                Ok(length) => length,
                Err(TakeError::Empty) => return taken,
                Err(_) => {
                    self.fault = Some("its submission ring is corrupt");
                    return taken;
                }
            };
            let record = self.record.get(..length).unwrap_or(&[]);
            let window_bytes = self.window.len() as u64;
            // Where others wait for their turn it waits behind them.
            if self.operations.is_empty() {
                if let Some(read) = OneRead::decode(record, window_bytes) {
                    if self.complete_at_once(engine, &read, &mut left, now_ns) {
                        continue;
                    }
                }
            }
            let record = self.record.get(..length).unwrap_or(&[]);
            let operation = Operation::decode(record, window_bytes);
            self.admit(engine, operation, now_ns);
        }
        self.eagerness
    }

    fn admit(&mut self, engine: &mut Engine<S>, record: Result<Operation, Malformed>, now_ns: u64) {
        match record {
            Ok(operation) if operation.kind == OpKind::Cancel => {
                let result = self.cancel(engine, operation.argument);
                engine.counts.ended(OpKind::Cancel, Way::None, result);
                self.complete(Completion { tag: operation.tag, result, ..Completion::default() });
            }
            // There is room: `take_operations` has looked.
            Ok(operation) => drop(self.operations.admit(operation, now_ns)),
            Err(malformed) => {
                Counts::add(&engine.counts.malformed, 1);
                match malformed.tag {
                    Some(tag) => {
                        let result = -i64::from(libc::EINVAL);
                        self.complete(Completion { tag, result, ..Completion::default() });
                    }
                    None => self.fault = Some("a record is too short to be an operation"),
                }
            }
        }
    }

    /// Ends the operation with a tag, or all of a member of a joint session; the result of who asked.
    fn cancel(&mut self, engine: &mut Engine<S>, tag: u64) -> i64 {
        let member = member_of(tag);
        if self.completions.is_joint() && tag == all_of(member) {
            let is_its = |tag| member_of(tag) == member;
            for cancelled in self.operations.cancel_all(is_its, libc::ECANCELED) {
                self.cut_short(engine, cancelled);
            }
            return self.operations.count(is_its) as i64;
        }
        let cancelled = self.operations.cancel(tag, libc::ECANCELED);
        self.cut_short(engine, cancelled);
        match cancelled {
            Cancelled::Unknown => -i64::from(libc::ENOENT),
            Cancelled::Now(_) | Cancelled::Flying(_) => 0,
        }
    }

    /// Completes a read of one piece that the service can answer at once, before it becomes an
    /// operation of the table: nobody can cancel or outlive what is over at once. False when it is
    /// another case; then nothing was done. `left` is what the session may still spend.
    fn complete_at_once(
        &mut self,
        engine: &mut Engine<S>,
        read: &OneRead,
        left: &mut i64,
        now_ns: u64,
    ) -> bool {
        let Some(result) = self.read_at_once(engine, read, left, now_ns) else { return false };
        self.complete(Completion { tag: read.tag, result, generation: 0, way: Way::Cached });
        true
    }

    /// The same without telling the session: its result.
    fn read_at_once(
        &mut self,
        engine: &mut Engine<S>,
        read: &OneRead,
        left: &mut i64,
        now_ns: u64,
    ) -> Option<i64> {
        let bytes = u64::from(read.piece.bytes);
        if self.held_until_ns.is_some()
            || self.take_tokens(read.object, None, bytes, now_ns).is_err()
        {
            return None;
        }
        let Some(len) = S::read_at_once(engine, self, read, left) else {
            self.give_back_tokens(read.object, bytes);
            return None;
        };
        let result = len as i64;
        self.count(engine, OpKind::Read, read.object, (Way::Cached, result));
        Some(result)
    }

    /// Takes the session's call, if there is one. `left` is what it may spend in this sweep.
    fn answer_call(&mut self, engine: &mut Engine<S>, left: &mut i64, now_ns: u64) -> bool {
        let Some(words) = self.call.take() else { return false };
        let answer = match is_one_read(&words) {
            true => self.read_by_call(engine, words, left, now_ns),
            false => self.admit_call(engine, &words, now_ns),
        };
        if let Some(result) = answer {
            self.call.answer(result);
            self.ring_later();
        }
        true
    }

    fn read_by_call(
        &mut self,
        engine: &mut Engine<S>,
        words: CallWords,
        left: &mut i64,
        now_ns: u64,
    ) -> Option<i64> {
        let Some(read) = OneRead::from_words(words, self.window.len() as u64) else {
            return Some(self.refuse_call(engine));
        };
        // What it has asked for by the ring comes first.
        let is_first = self.operations.is_empty();
        let result = is_first.then(|| self.read_at_once(engine, &read, left, now_ns)).flatten();
        Some(result.unwrap_or(CALL_DECLINED))
    }

    /// Makes a call an operation, whose end is the answer; `None` while there is none yet.
    fn admit_call(
        &mut self,
        engine: &mut Engine<S>,
        words: &CallWords,
        now_ns: u64,
    ) -> Option<i64> {
        if self.is_full() {
            return Some(CALL_DECLINED);
        }
        let more = self.call.take_more();
        let Ok(operation) = called(words, &more, self.window.len() as u64) else {
            return Some(self.refuse_call(engine));
        };
        match self.operations.admit(operation, now_ns) {
            Ok(id) => self.call.await_end(id),
            Err(_) => return Some(CALL_DECLINED),
        }
        None
    }

    fn refuse_call(&self, engine: &Engine<S>) -> i64 {
        Counts::add(&engine.counts.malformed, 1);
        -i64::from(libc::EINVAL)
    }
}

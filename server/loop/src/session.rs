//! One session of a server loop: its rings, its window, its operations and objects.

use std::collections::VecDeque;
use std::sync::Arc;

use heliostat_abi::delegated::{
    Completion, Kind, OneRead, Operation, Way, DEPTH_MAX, OBJECTS_MAX, OPERATION_BYTES_MAX,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;
use heliostat_backend_uring::Flight;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::layout::CONSUMER_BELL_AT;
use heliostat_ring::{ReserveError, SpscConsumer, SpscProducer, TakeError};
use heliostat_service_grant::Meter;

use super::call_line::CallLine;
use super::counts::Counts;
use super::engine::{Engine, Token};
use super::fair::QUANTUM;
use super::flights::Flights;
use super::link::Link;
use super::operations::{Cancelled, Operations};
use super::service::Service;

/// Operations taken from one ring before the others are looked at.
const TAKEN_AT_ONCE: usize = 32;
/// The same while the device has requests of its, whose answers come many at once: each submission
/// wakes the device.
const TAKEN_IN_FLIGHT: usize = 4;

/// A session that is being served.
pub struct Session<S: Service> {
    /// The control plane's name for it.
    pub id: ObjectId,
    /// Which delegation of its connection this is.
    pub serial: u64,
    /// The memory its pieces lie in.
    pub window: Arc<SharedMapping>,
    /// What it has asked for.
    pub operations: Operations,
    /// What it has open.
    pub objects: Table<S::Object>,
    /// Requests of its operations that the kernel has.
    pub(crate) flights: Flights,
    /// Bytes of them.
    pub(crate) flying_bytes: u64,
    /// The device has done something: what was kept back for this moment may begin.
    pub(crate) is_released: bool,
    /// What the service keeps for it.
    pub service: S::PerSession,
    /// Not served before then: it has used up its tokens.
    pub(crate) held_until_ns: Option<u64>,
    /// Operations and bytes that it may still have.
    pub(crate) meter: Meter,
    /// When something last came from it.
    pub(crate) heard_ns: u64,
    /// Its bell is armed, and the kernel watches it.
    pub(crate) parked: Option<Flight>,
    /// It was parked with no room for another operation.
    is_stalled: bool,
    /// Where it asks for one read at a time.
    pub(crate) call: CallLine,
    submissions: SpscConsumer,
    completions: SpscProducer,
    bell: Arc<SharedMapping>,
    unsent: VecDeque<Completion>,
    /// Completions in the ring that it was not rung for.
    unannounced: usize,
    /// Operations that are taken at most the next time.
    eagerness: usize,
    /// As many were taken the last time as it may be, so that there may be more.
    has_more: bool,
    /// The last completion came from the device or the kernel.
    is_slow: bool,
    /// Where records are copied to before they are looked at.
    record: Box<[u8; OPERATION_BYTES_MAX]>,
    fault: Option<&'static str>,
}

impl<S: Service> Session<S> {
    /// A session that has asked nothing yet.
    pub fn new(id: ObjectId, link: Link, now_ns: u64) -> Session<S> {
        Session {
            id,
            serial: link.serial,
            window: link.window,
            operations: Operations::new(DEPTH_MAX),
            objects: Table::new(OBJECTS_MAX),
            flights: Flights::default(),
            flying_bytes: 0,
            is_released: false,
            service: S::PerSession::default(),
            held_until_ns: None,
            meter: link.meter,
            heard_ns: now_ns,
            parked: None,
            is_stalled: false,
            call: CallLine::new(link.call),
            submissions: link.submissions,
            completions: link.completions,
            bell: link.bell,
            unsent: VecDeque::new(),
            unannounced: 0,
            eagerness: 1,
            has_more: false,
            is_slow: false,
            record: Box::new([0; OPERATION_BYTES_MAX]),
            fault: None,
        }
    }

    /// What was wrong with it, once.
    pub fn take_fault(&mut self) -> Option<&'static str> {
        self.fault.take()
    }

    /// Takes what it has submitted, up to a number; answers how many operations that were.
    ///
    /// One at first where the device has nothing, and twice as many each time that there were as
    /// many: to see that there is no second one takes a line's way between two cores, in which the
    /// first is as good as done.
    pub fn take_operations(&mut self, engine: &mut Engine<S>, now_ns: u64) -> usize {
        let mut left = QUANTUM;
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

    /// Whether there is no room for another operation. Completions that it has not read take up
    /// room as operations do.
    fn is_full(&self) -> bool {
        self.operations.len() + self.unsent.len() >= DEPTH_MAX
    }

    fn admit(
        &mut self,
        engine: &mut Engine<S>,
        record: Result<Operation, heliostat_abi::delegated::Malformed>,
        now_ns: u64,
    ) {
        match record {
            Ok(operation) if operation.kind == Kind::Cancel => {
                let cancelled = self.operations.cancel(operation.argument, libc::ECANCELED);
                let found = cancelled != Cancelled::Unknown;
                self.cut_short(engine, cancelled);
                let result = if found { 0 } else { -i64::from(libc::ENOENT) };
                engine.counts.ended(Kind::Cancel, Way::None, result);
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
    pub(crate) fn read_at_once(
        &mut self,
        engine: &mut Engine<S>,
        read: &OneRead,
        left: &mut i64,
        now_ns: u64,
    ) -> Option<i64> {
        let bytes = u64::from(read.piece.bytes);
        if self.held_until_ns.is_some() || self.take_tokens(read.object, bytes, now_ns).is_err() {
            return None;
        }
        let Some(len) = S::read_at_once(engine, self, read, left) else {
            self.give_back_tokens(read.object, bytes);
            return None;
        };
        let result = len as i64;
        self.count(engine, Kind::Read, read.object, (Way::Cached, result));
        Some(result)
    }

    /// Ends an operation that somebody wants to end, or asks the device to.
    pub fn cut_short(&mut self, engine: &mut Engine<S>, cancelled: Cancelled) {
        match cancelled {
            Cancelled::Now(id) => {
                let errno = self.operations.get(id).and_then(|entry| entry.verdict);
                self.end(engine, id, -i64::from(errno.unwrap_or(libc::ECANCELED)));
            }
            Cancelled::Flying(id) => {
                if let Some(flight) = self.flights.get(id) {
                    engine.requests.cancel(flight);
                }
            }
            Cancelled::Unknown => {}
        }
    }

    /// Ends an operation with a result, and tells the session.
    pub fn end(&mut self, engine: &mut Engine<S>, id: ObjectId, result: i64) {
        self.end_with(engine, id, result, 0);
    }

    /// The same, with the generation of an opened object.
    pub fn end_with(&mut self, engine: &mut Engine<S>, id: ObjectId, result: i64, generation: u32) {
        let Some(entry) = self.operations.end(id) else { return };
        let Operation { kind, object, .. } = entry.operation;
        S::ended(&mut self.service, kind, id);
        self.count(engine, kind, object, (entry.way, result));
        self.complete(Completion { tag: entry.operation.tag, result, generation, way: entry.way });
    }

    /// An operation on an object has ended, by a way and with a result.
    fn count(&self, engine: &Engine<S>, kind: Kind, object: ObjectId, (way, result): (Way, i64)) {
        engine.counts.ended(kind, way, result);
        if let (Some(object), Ok(bytes)) = (self.objects.get(object), u64::try_from(result)) {
            S::count(object, way, bytes);
        }
    }

    /// Puts a completion into the ring, or keeps it until there is room.
    pub fn complete(&mut self, completion: Completion) {
        self.is_slow = matches!(completion.way, Way::Direct | Way::Kernel);
        if !self.unsent.is_empty() || !self.send(completion) {
            self.unsent.push_back(completion);
        }
        // Operations and completions together are bounded by `take_operations`; files that are
        // shown over the control socket are not.
        if self.unsent.len() > 2 * DEPTH_MAX {
            self.fault = Some("it does not take its completions");
        }
    }

    fn send_unsent(&mut self) {
        while let Some(completion) = self.unsent.front().copied() {
            if !self.send(completion) {
                return;
            }
            self.unsent.pop_front();
        }
    }

    fn send(&mut self, completion: Completion) -> bool {
        let record = completion.encode();
        match self.completions.reserve(record.len()) {
            Ok(mut slot) => {
                slot.copy_in(0, &record);
                slot.commit_quiet();
                self.unannounced += 1;
                true
            }
            Err(ReserveError::Full) => false,
            Err(_) => {
                self.fault = Some("its completion ring is corrupt");
                true
            }
        }
    }

    /// Something was completed that is not in the ring.
    pub fn ring_later(&mut self) {
        self.unannounced += 1;
    }

    /// Rings for what was completed since the last time.
    pub fn ring(&mut self) {
        if std::mem::take(&mut self.unannounced) > 0 {
            self.completions.ring();
        }
    }

    /// Rings once as much was completed as is still under way; true when there is something that it
    /// was not rung for, which it is when the loop has nothing else to do: a wake-up costs both as
    /// much as several reads, and one that wakes for the first of many has its answer too early.
    #[inline]
    pub fn ring_for_many(&mut self) -> bool {
        if self.unannounced == 0 {
            return false;
        }
        if self.unannounced >= self.operations.len() && !(self.has_more && self.is_slow) {
            self.ring();
        }
        self.unannounced > 0
    }

    /// The same while there is more to do for it, unless that goes to the device, which must not wait.
    pub fn ring_meanwhile(&mut self) -> bool {
        !self.is_slow && self.ring_for_many()
    }

    /// Lets the kernel watch its bell; false when there is something to take already. What is in the
    /// ring does not count while there is no room for it: the loop would never rest.
    pub fn park(&mut self, engine: &mut Engine<S>, seat: ObjectId) -> bool {
        self.is_stalled = self.is_full();
        let (call, submissions) = (&self.call, &mut self.submissions);
        let armed = match self.is_stalled {
            true => submissions.arm_word_unless(|| call.is_asked()),
            false => submissions.arm_word_or(|| call.is_asked()),
        };
        let Some(value) = armed else { return false };
        let flight =
            engine.requests.wait_word(Token::Bell(seat), &self.bell, CONSUMER_BELL_AT, value);
        self.parked = flight.ok();
        if self.parked.is_none() {
            self.submissions.disarm();
        }
        self.parked.is_some()
    }

    /// It was parked for want of room, and has some: what it had asked may be taken.
    pub fn has_room_again(&mut self) -> bool {
        if self.parked.is_none() || !self.is_stalled {
            return false;
        }
        self.send_unsent();
        !self.is_full()
    }

    /// It has rung, or has room again.
    pub fn unpark(&mut self, now_ns: u64) {
        (self.parked, self.is_stalled) = (None, false);
        self.heard_ns = now_ns;
        self.submissions.disarm();
    }
}

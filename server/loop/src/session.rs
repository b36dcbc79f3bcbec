//! One session of a server loop: its rings, its window, its operations and objects.

use std::sync::Arc;

use heliostat_abi::file::delegated::{
    Completion, OpKind, Operation, Way, DEPTH_MAX, OPERATION_BYTES_MAX,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::table::Table;
use heliostat_backend_uring::Flight;
use heliostat_base::mapping::SharedMapping;
use heliostat_ring::layout::CONSUMER_BELL_AT;
use heliostat_ring::SpscConsumer;
use heliostat_service_grant::Meter;

use super::call_line::CallLine;
use super::completions::Completions;
use super::engine::{Engine, Token};
use super::flights::Flights;
use super::new_session::NewSession;
use super::operations::{Cancelled, Operations};
use super::parts::{Object, Parts, PerSession};

/// Requests of a session that are enough for the device, and what its reads then keep back waits for
/// the first of them to complete. A device that says that it is done only when it has done everything
/// would be idle until the session, which sleeps, has answered with more.
const MANY_FLIGHTS: usize = 24;

/// A session that is being served.
pub struct Session<S: Parts> {
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
    pub(super) submissions: SpscConsumer,
    pub(super) completions: Completions,
    bell: Arc<SharedMapping>,
    /// Operations that are taken at most the next time.
    pub(super) eagerness: usize,
    /// As many were taken the last time as it may be, so that there may be more.
    pub(super) has_more: bool,
    /// The last completion came from the device or the kernel.
    is_slow: bool,
    /// Where records are copied to before they are looked at.
    pub(super) record: Box<[u8; OPERATION_BYTES_MAX]>,
    pub(super) fault: Option<&'static str>,
    /// It broke the protocol and the control plane was told: nothing is taken from it any more.
    pub(super) is_broken: bool,
}

impl<S: Parts> Session<S> {
    /// A session that has asked nothing yet.
    pub fn new(id: ObjectId, new: NewSession, now_ns: u64) -> Session<S> {
        Session {
            id,
            serial: new.serial,
            window: new.window,
            operations: match S::KEEPS_ORDER {
                true => Operations::new(DEPTH_MAX),
                false => Operations::unordered(DEPTH_MAX),
            },
            objects: Table::new(S::OBJECTS),
            flights: Flights::default(),
            flying_bytes: 0,
            is_released: false,
            service: S::PerSession::default(),
            held_until_ns: None,
            meter: new.meter,
            heard_ns: now_ns,
            parked: None,
            is_stalled: false,
            call: CallLine::new(new.call),
            submissions: new.submissions,
            completions: new.completions,
            bell: new.bell,
            eagerness: 1,
            has_more: false,
            is_slow: false,
            record: Box::new([0; OPERATION_BYTES_MAX]),
            fault: None,
            is_broken: false,
        }
    }

    /// What it waited for has come from elsewhere: it is likely to answer with another operation.
    pub fn hear(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
    }

    /// What was wrong with it first, once: from then on it is not listened to.
    pub fn take_fault(&mut self) -> Option<&'static str> {
        let fault = self.fault.take().filter(|_| !self.is_broken)?;
        self.is_broken = true;
        Some(fault)
    }

    /// Whether there is no room for another operation. Completions that it has not read take up
    /// room as operations do.
    pub(super) fn is_full(&self) -> bool {
        self.operations.len() + self.completions.unsent() >= DEPTH_MAX
    }

    /// Ends an operation that somebody wants to end, or asks the device to.
    pub fn cut_short(&mut self, engine: &mut Engine<S>, cancelled: Cancelled) {
        match cancelled {
            Cancelled::Now(id) => {
                let errno = self.operations.get(id).and_then(|entry| entry.verdict);
                let errno = self.service.cut_short(id, errno.unwrap_or(libc::ECANCELED));
                self.end(engine, id, -i64::from(errno));
                engine.service.cut(self.id, id);
            }
            Cancelled::Flying(id) => {
                if let Some(flight) = self.flights.get(id) {
                    engine.requests.cancel(flight);
                }
                engine.service.cut(self.id, id);
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
        self.service.ended(kind, id);
        self.count(engine, kind, object, (entry.way, result));
        if self.call.ended(id, result) {
            return self.ring_later();
        }
        self.complete(Completion { tag: entry.operation.tag, result, generation, way: entry.way });
    }

    /// An operation on an object has ended, by a way and with a result.
    pub(super) fn count(
        &self,
        engine: &Engine<S>,
        kind: OpKind,
        object: ObjectId,
        (way, result): (Way, i64),
    ) {
        engine.counts.ended(kind, way, result);
        if let (Some(object), Ok(bytes)) = (self.objects.get(object), u64::try_from(result)) {
            object.count(way, bytes);
        }
    }

    /// Puts a completion into its ring, or keeps it until there is room.
    pub fn complete(&mut self, completion: Completion) {
        self.is_slow = matches!(completion.way, Way::Direct | Way::Kernel);
        if let Err(fault) = self.completions.put(completion) {
            self.fault = Some(fault);
        }
    }

    pub(super) fn send_unsent(&mut self) {
        if let Err(fault) = self.completions.send_unsent() {
            self.fault = Some(fault);
        }
    }

    /// Something was completed that is not in the ring.
    pub fn ring_later(&mut self) {
        self.completions.ring_later();
    }

    /// Rings for what was completed since the last time.
    pub fn ring(&mut self) {
        self.completions.ring();
    }

    /// Rings once as much was completed as is still under way; true when there is something that it
    /// was not rung for, which it is when the loop has nothing else to do: a wake-up costs both as
    /// much as several reads, and one that wakes for the first of many has its answer too early.
    #[inline]
    pub fn ring_for_many(&mut self) -> bool {
        let unannounced = self.completions.unannounced();
        if unannounced == 0 {
            return false;
        }
        let is_enough = unannounced >= self.operations.len() || self.completions.is_joint();
        if is_enough && !(self.has_more && self.is_slow) {
            self.ring();
        }
        self.completions.unannounced() > 0
    }

    /// The same while there is more to do for it, unless that goes to the device, which must not wait.
    pub fn ring_meanwhile(&mut self) -> bool {
        !self.is_slow && self.ring_for_many()
    }

    /// Lets the kernel watch its bell; false when there is something to take already. What is in the
    /// ring does not count while there is no room for it: the loop would never rest.
    /// One that broke the protocol is not watched: the control plane's order ends it.
    pub fn park(&mut self, engine: &mut Engine<S>, seat: ObjectId) -> bool {
        if self.is_broken {
            return true;
        }
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

    /// Whether the device has as many requests of its as are enough for now.
    pub(super) fn has_many_flights(&self) -> bool {
        self.flights.len() >= MANY_FLIGHTS
    }

    /// Whether the device has enough for now, so that the last few reads past the caches wait for
    /// its first completions.
    pub(super) fn keeps_back(&self, object: ObjectId, kept_back: usize) -> bool {
        let has_much = self.has_many_flights() && !self.is_released;
        let is_last = has_much && self.operations.ready() < kept_back;
        is_last && self.objects.get(object).is_some_and(Object::reads_device)
    }

    /// Takes the tokens of an operation on an object, or of a read that may be answered at once, by all
    /// rates that hold for it, or says at which time to ask again.
    pub(super) fn take_tokens(
        &self,
        object: ObjectId,
        operation: Option<ObjectId>,
        bytes: u64,
        now_ns: u64,
    ) -> Result<(), u64> {
        for (number, meter) in self.meters(object, operation).enumerate() {
            if let Err(until) = meter.take(bytes, now_ns) {
                let before = self.meters(object, operation).take(number);
                before.for_each(|meter| meter.give_back(bytes));
                return Err(until);
            }
        }
        Ok(())
    }

    /// Takes the tokens of bytes that are read ahead of the session, as if it had asked; false where it
    /// has none for them.
    pub fn take_ahead(&self, object: ObjectId, bytes: u64, now_ns: u64) -> bool {
        self.held_until_ns.is_none() && self.take_tokens(object, None, bytes, now_ns).is_ok()
    }

    /// Gives them back where nothing was read.
    pub fn give_back_ahead(&self, object: ObjectId, bytes: u64) {
        self.give_back_tokens(object, bytes);
    }

    /// Gives back the tokens of a read that was not done at once.
    pub(super) fn give_back_tokens(&self, object: ObjectId, bytes: u64) {
        self.meters(object, None).for_each(|meter| meter.give_back(bytes));
    }

    /// The session's, the object's, and those that the service has for it.
    fn meters(
        &self,
        object: ObjectId,
        operation: Option<ObjectId>,
    ) -> impl Iterator<Item = &Meter> {
        let its = self.objects.get(object).and_then(Object::meter);
        let others = self.service.meters(object, operation);
        std::iter::once(&self.meter).chain(its).chain(others.into_iter().flatten())
    }
}

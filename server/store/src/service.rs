//! The store service as its server loop sees it: from operations, orders and completions to what serves
//! them.

use std::collections::HashMap;

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{
    Engine, Object, Parts, PerSession, Service, Session, Sessions, Step, Token, Turn,
};

use crate::areas::Areas;
use crate::message::{StoreEvent, StoreOrder};
use crate::{flight, orders, serve};

/// How often a device is looked at that does not tell when it has done something.
const LOOK_NS: u64 = 50_000;

/// What sessions open on loops of other services. Handles come from the control plane.
pub enum NoObject {}

impl Object for NoObject {}

/// The event of the loop's device.
#[derive(Clone, Copy)]
pub struct Watch;

/// Operations by handles that were unknown, and how often orders had been looked for by then.
#[derive(Default)]
pub struct Doubts(HashMap<ObjectId, u64>);

impl Doubts {
    /// Says whether a handle that is unknown to an operation is none, with orders looked for so often:
    /// those that may bring it have been carried out since the operation was first asked about.
    pub(crate) fn is_none(&mut self, operation: ObjectId, looks: u64) -> bool {
        *self.0.entry(operation).or_insert(looks) != looks
    }
}

impl PerSession for Doubts {
    fn ended(&mut self, _: OpKind, operation: ObjectId) {
        if !self.0.is_empty() {
            self.0.remove(&operation);
        }
    }
}

impl Parts for Areas {
    type Object = NoObject;
    type PerSession = Doubts;
    type Request = Watch;
    type Order = StoreOrder;
    type Event = StoreEvent;

    // As on a device: who needs an order waits.
    const KEEPS_ORDER: bool = false;

    fn cut(&mut self, session: ObjectId, operation: ObjectId) {
        self.cut_operation(session, operation);
    }

    fn next_ns(&self) -> Option<u64> {
        self.look_ns.into_iter().chain(self.line.next_ns()).min()
    }
}

impl Service for Areas {
    fn serve(turn: &mut Turn<'_, Self>) -> Step {
        serve::serve(turn)
    }

    fn bytes(_: &mut Session<Self>, _: ObjectId, operation: &Operation) -> u64 {
        serve::bytes_of(operation)
    }

    fn close(_: &mut Engine<Self>, _: ObjectId, object: NoObject) {
        match object {}
    }

    fn left(engine: &mut Engine<Self>, seat: ObjectId, session: &mut Session<Self>) {
        engine.service.leave(seat);
        if !engine.service.is_leaving(seat) {
            engine.service.disk.forget(&session.window);
        }
    }

    fn clock(sessions: &mut Sessions<Self>) {
        let now_ns = sessions.engine.now_ns;
        sessions.engine.service.line.release(now_ns);
        let areas = &mut sessions.engine.service;
        let is_untold = areas.disk.under_way() > 0 && areas.disk.event().is_none();
        // What was refused for want of room is tried again, although nothing is under way.
        let is_stuck = areas.disk.under_way() == 0 && !areas.line.is_empty();
        areas.look_ns = (is_untold || is_stuck).then_some(now_ns + LOOK_NS);
    }

    fn collect(sessions: &mut Sessions<Self>) -> bool {
        let did = flight::collect(sessions);
        std::mem::take(&mut sessions.engine.service.has_ended) | did
    }

    fn swept(sessions: &mut Sessions<Self>) {
        if flight::pump(sessions) {
            // The device hands on what was begun when it is looked at.
            flight::collect(sessions);
        }
    }

    fn lie_down(sessions: &mut Sessions<Self>) -> bool {
        if sessions.engine.service.disk.under_way() == 0 {
            return true;
        }
        if Self::collect(sessions) {
            return false;
        }
        watch(&mut sessions.engine);
        true
    }

    fn carry_out(sessions: &mut Sessions<Self>, order: StoreOrder) {
        orders::carry_out(sessions, order);
    }

    fn completed(sessions: &mut Sessions<Self>, _: Watch, _: i32) {
        sessions.engine.service.is_watched = false;
    }
}

/// Has the kernel tell when the device has done something. Where it takes no more requests now, the
/// device is looked at.
fn watch(engine: &mut Engine<Areas>) {
    let areas = &mut engine.service;
    let Some(event) = areas.disk.event().filter(|_| !areas.is_watched) else { return };
    match engine.requests.readable(Token::Service(Watch), event) {
        Ok(_) => {
            areas.is_watched = true;
            engine.flying += 1;
        }
        Err(_) => areas.look_ns = Some(engine.now_ns + LOOK_NS),
    }
}

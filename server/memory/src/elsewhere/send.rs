//! Sends the parts of operations to other nodes and takes their answers, on the loop's thread.

use std::sync::Arc;

use heliostat_abi::file::delegated::Operation;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Engine, Order, Session, Sessions, Turn};

use super::flight::Flight;
use super::Elsewhere;
use crate::held::Refusal;
use crate::memories::Memories;
use crate::message::MemoryOrder;
use crate::there::{call, Answered, NoAnswer, Part, There};
use crate::traffic::Traffic;
use crate::work::WindowPieces;

/// Operations that wait for room and are looked at for one answer, which makes room for one.
const WAITING_AT_ONCE: usize = 16;

/// Begins an operation by a handle on another node. Returns how many bytes are on the way now.
pub fn begin(turn: &mut Turn<'_, Memories>, asked: &Operation) -> Result<u64, Refusal> {
    let Turn { engine, session, id, .. } = turn;
    let elsewhere = &session.service.elsewhere;
    let find = |handle: ObjectId| -> Result<There, Refusal> {
        let held = elsewhere.held.get(&handle).ok_or(Refusal::Unknown)?;
        if held.is_lost {
            return Err(Refusal::Errno(libc::EHOSTDOWN));
        }
        Ok(held.there)
    };
    let pieces = WindowPieces { window: &session.window, pieces: asked.pieces };
    let known = session.service.copy_source(id.operation);
    let flight = Flight::plan(asked, find(asked.object)?, (&pieces, known), |source| {
        find(source.handle).map_err(|refusal| match refusal {
            // A region of this node, or a handle that is none.
            Refusal::Unknown => Refusal::Errno(libc::EXDEV),
            other => other,
        })
    })?;
    session.service.elsewhere.flights.insert(id.operation, flight);
    let before = session.service.elsewhere.on_way_bytes;
    go_on(engine, session, id.operation);
    Ok(session.service.elsewhere.on_way_bytes.saturating_sub(before))
}

/// A part of an operation has its answer.
pub fn answered(sessions: &mut Sessions<Memories>, answered: Answered) {
    let Answered { session, serial, operation, part, carried, answer } = answered;
    // One that has ended is counted on the loop all the same.
    sessions.engine.service.traffic.came(carried);
    if let Some((session, engine)) = of(sessions, (session, serial)) {
        let elsewhere = &mut session.service.elsewhere;
        elsewhere.on_way_bytes = Traffic::less(elsewhere.on_way_bytes, carried);
        if let Some(flight) = elsewhere.flights.get_mut(&operation) {
            let pieces = WindowPieces { window: &session.window, pieces: flight.asked().pieces };
            flight.answered(part, answer, &pieces);
            go_on(engine, session, operation);
        }
    }
    send_waiting(sessions);
}

/// Sends parts of operations that wait for room, some of them for each answer.
fn send_waiting(sessions: &mut Sessions<Memories>) {
    let count = sessions.engine.service.traffic.waiting().min(WAITING_AT_ONCE);
    for _ in 0..count {
        let Some((session, serial, operation)) = sessions.engine.service.traffic.next() else {
            return;
        };
        if let Some((session, engine)) = of(sessions, (session, serial)) {
            if let Some(flight) = session.service.elsewhere.flights.get_mut(&operation) {
                flight.is_waiting = false;
                go_on(engine, session, operation);
            }
        }
    }
}

/// A session, if it is the same delegation of its connection.
fn of(
    sessions: &mut Sessions<Memories>,
    (session, serial): (ObjectId, u64),
) -> Option<(&mut Session<Memories>, &mut Engine<Memories>)> {
    sessions.session(session).filter(|(session, _)| session.serial == serial)
}

/// Sends what may be sent of an operation, and ends it where it is over.
fn go_on(engine: &mut Engine<Memories>, session: &mut Session<Memories>, operation: ObjectId) {
    while send_next(engine, session, operation) {}
    let result = session.service.elsewhere.flights.get(&operation).and_then(Flight::result);
    if let Some(result) = result {
        session.end(engine, operation, result);
    }
}

/// Sends the next part, if there is one and room for it.
fn send_next(
    engine: &mut Engine<Memories>,
    session: &mut Session<Memories>,
    operation: ObjectId,
) -> bool {
    let whose = (session.id, session.serial, operation);
    let Elsewhere { flights, on_way_bytes, .. } = &mut session.service.elsewhere;
    let Some(flight) = flights.get_mut(&operation) else { return false };
    let Some(part) = flight.next() else { return false };
    let (carried, traffic) = (flight.carried(part), &mut engine.service.traffic);
    if !traffic.has_room(*on_way_bytes, carried) {
        if !std::mem::replace(&mut flight.is_waiting, true) {
            traffic.wait(whose);
        }
        return false;
    }
    let pieces = WindowPieces { window: &session.window, pieces: flight.asked().pieces };
    let Ok((message, payload)) = flight.send(part, &pieces) else {
        flight.fail(libc::EFAULT);
        return false;
    };
    traffic.left(on_way_bytes, carried);
    let there = *flight.there();
    send(engine, whose, (part, carried), there, (message.encode().to_vec(), payload));
    true
}

/// Has a message sent, whose answer comes back to this loop as an order.
fn send(
    engine: &Engine<Memories>,
    (session, serial, operation): (ObjectId, u64, ObjectId),
    (part, carried): (Part, u64),
    there: There,
    message: (Vec<u8>, Vec<u8>),
) {
    let (number, gates) = (engine.number, Arc::clone(&engine.service.gates));
    let tell = move |answer| {
        let answered = Answered { session, serial, operation, part, carried, answer };
        if let Some(gate) = gates.get(number) {
            gate.send(Order::Service(MemoryOrder::Answered(Box::new(answered))));
        }
    };
    match &engine.service.caller {
        Some(caller) => call(caller, there.peer, message, tell),
        None => tell(Err(NoAnswer::NotSent)),
    }
}

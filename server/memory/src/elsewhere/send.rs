//! Sends the parts of operations to other nodes and takes their answers, on the loop's thread.

use std::sync::Arc;

use heliostat_abi::file::delegated::Operation;
use heliostat_abi::memory::peer::{PeerAnswer, PeerRefusal};
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Engine, Order, Session, Sessions, Turn};

use super::flight::Flight;
use super::Elsewhere;
use crate::held::Refusal;
use crate::memories::Memories;
use crate::message::MemoryOrder;
use crate::there::{call, is_replicated, Answer, Answered, NoAnswer, Part, There};
use crate::traffic::{Room, Traffic};
use crate::ways::Way;
use crate::work::WindowPieces;

/// How long an operation rests whose region moves, before it is sent again.
const REST_NS: u64 = 1_000_000;
/// How long nothing is sent to a node that the node's thread takes nothing for.
const HOLD_NS: u64 = 2_000_000;
/// How long a node may have a session wait at once.
const REST_NS_MAX: u64 = 1_000_000_000;

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
    let mut flight = Flight::plan(asked, find(asked.object)?, (&pieces, known), |source| {
        find(source.handle).map_err(|refusal| match refusal {
            // A region of this node, or a handle that is none.
            Refusal::Unknown => Refusal::Errno(libc::EXDEV),
            other => other,
        })
    })?;
    flight.class = session.service.class_of(asked.object);
    session.service.elsewhere.flights.insert(id.operation, flight);
    let before = session.service.elsewhere.on_way_bytes;
    go_on(engine, session, id.operation);
    Ok(session.service.elsewhere.on_way_bytes.saturating_sub(before))
}

/// A part of an operation has its answer.
pub fn answered(sessions: &mut Sessions<Memories>, answered: Answered) {
    let Answered { session, serial, operation, way, part, carried, answer } = answered;
    let whose = (session, serial);
    // One that has ended is counted on the loop all the same.
    sessions.engine.service.ways.came(way, carried);
    sessions.engine.awaited.came(sessions.engine.now_ns);
    if answer == Err(NoAnswer::Full) {
        hold(sessions, way);
    }
    let rest_ns = rest_of(&answer);
    let moves = matches!(&answer, Ok((answer, _)) if answer.result == Err(PeerRefusal::Again));
    let mut is_tired = false;
    if let Some((session, engine)) = of(sessions, whose) {
        let elsewhere = &mut session.service.elsewhere;
        match (rest_ns, &answer) {
            (Some(ns), _) => {
                // What was on the way when it began is told the same.
                if !engine.service.ways.rests(whose) {
                    elsewhere.spare();
                }
                engine.service.ways.rest(whose, engine.now_ns.saturating_add(ns));
            }
            (None, Ok(_)) => elsewhere.unspare(carried),
            (None, Err(_)) => {}
        }
        elsewhere.on_way_bytes = Traffic::less(elsewhere.on_way_bytes, carried);
        // Before the operation that has its answer goes on: it is behind those that wait.
        elsewhere.join_all(&mut engine.service.ways, whose);
        if let Some(flight) = elsewhere.flights.get_mut(&operation) {
            let pieces = WindowPieces { window: &session.window, pieces: flight.asked().pieces };
            flight.answered(part, answer, &pieces);
            is_tired = moves && flight.result().is_none() && flight.is_tired();
            if !is_tired {
                go_on(engine, session, operation);
            }
        }
    }
    if is_tired {
        let until_ns = sessions.engine.now_ns.saturating_add(REST_NS);
        sessions.engine.service.ways.rest_operation(until_ns, whose, operation);
    }
    if rest_ns.is_some() || is_tired {
        tell_time(sessions);
    }
    send_waiting(sessions);
}

/// How long the node that answers has the session wait, if it does.
fn rest_of(answer: &Answer) -> Option<u64> {
    match answer {
        Ok((PeerAnswer { result: Err(PeerRefusal::Busy), word }, _)) => {
            Some((*word).clamp(1, REST_NS_MAX))
        }
        _ => None,
    }
}

/// The node's thread has too much for a node already: nothing is sent there for a moment.
fn hold(sessions: &mut Sessions<Memories>, way: Way) {
    let until_ns = sessions.engine.now_ns.saturating_add(HOLD_NS);
    sessions.engine.service.ways.hold(way, until_ns);
    tell_time(sessions);
}

/// Time went by: sends again where nothing was sent for a moment.
pub fn pass_time(sessions: &mut Sessions<Memories>) {
    let now_ns = sessions.engine.now_ns;
    let rested = sessions.engine.service.ways.rested_operations(now_ns);
    for (whose, operation) in &rested {
        if let Some((session, engine)) = of(sessions, *whose) {
            go_on(engine, session, *operation);
        }
    }
    let waited = sessions.engine.service.ways.rested(now_ns);
    for whose in &waited {
        if let Some((session, engine)) = of(sessions, *whose) {
            session.service.elsewhere.join_all(&mut engine.service.ways, *whose);
        }
    }
    if !rested.is_empty() {
        tell_time(sessions);
    }
    if sessions.engine.service.ways.release(now_ns) || !waited.is_empty() {
        tell_time(sessions);
        send_waiting(sessions);
    }
}

/// Has all sessions wake the loop when it may send again: whoever of them waits may be the last.
fn tell_time(sessions: &mut Sessions<Memories>) {
    let wake_ns = sessions.engine.service.ways.next_ns();
    sessions.resume_named(|handles, _| {
        handles.elsewhere.wake_ns = wake_ns;
        Vec::new()
    });
}

/// Sends parts of operations that wait, as far as there is room: each node in its turn, and on the way
/// there each session. Where nothing is on the way any more nobody waits after this.
fn send_waiting(sessions: &mut Sessions<Memories>) {
    let mut ways = sessions.engine.service.ways.in_turn();
    while let Some(to) = ways.pop_front() {
        if give_turn(sessions, to) {
            ways.push_back(to);
        }
    }
}

/// Gives a session its turn on the way to a node; false when nobody waits or there is no room.
fn give_turn(sessions: &mut Sessions<Memories>, to: Way) -> bool {
    let Some(whose) = sessions.engine.service.ways.next(to) else { return false };
    let Some((session, engine)) = of(sessions, whose) else { return true };
    let next = session.service.elsewhere.next(to);
    let sent = next.map(|operation| (operation, send_next(engine, session, operation, true)));
    let (elsewhere, ways) = (&mut session.service.elsewhere, &mut engine.service.ways);
    match sent {
        Some((operation, Sent::Waits(room))) => {
            elsewhere.wait(operation, true);
            // One whose session is full has its turn after an answer of its own.
            if room == Room::Taken {
                elsewhere.put_back(ways, whose, to);
                return false;
            }
        }
        Some((operation, sent)) => {
            let has_more = elsewhere.flights.get(&operation).is_some_and(|it| it.next().is_some());
            if has_more && sent == Sent::Part {
                elsewhere.wait(operation, false);
            }
            elsewhere.join(ways, whose, to);
            end_if_over(engine, session, operation);
        }
        None => elsewhere.join(ways, whose, to),
    }
    true
}

/// A session, if it is the same delegation of its connection.
fn of(
    sessions: &mut Sessions<Memories>,
    (session, serial): (ObjectId, u64),
) -> Option<(&mut Session<Memories>, &mut Engine<Memories>)> {
    sessions.session(session).filter(|(session, _)| session.serial == serial)
}

/// Sends what may be sent of an operation, and ends it where it is over. One that waits goes on waiting.
fn go_on(engine: &mut Engine<Memories>, session: &mut Session<Memories>, operation: ObjectId) {
    let elsewhere = &session.service.elsewhere;
    let Some(flight) = elsewhere.flights.get(&operation) else { return };
    if flight.is_waiting {
        return end_if_over(engine, session, operation);
    }
    let to = flight.way();
    loop {
        match send_next(engine, session, operation, false) {
            Sent::Part => {}
            Sent::Nothing => break,
            Sent::Waits(room) => {
                let whose = (session.id, session.serial);
                session.service.elsewhere.wait(operation, false);
                if room == Room::Taken {
                    session.service.elsewhere.join(&mut engine.service.ways, whose, to);
                }
                break;
            }
        }
    }
    end_if_over(engine, session, operation);
}

fn end_if_over(
    engine: &mut Engine<Memories>,
    session: &mut Session<Memories>,
    operation: ObjectId,
) {
    let result = session.service.elsewhere.flights.get(&operation).and_then(Flight::result);
    if let Some(result) = result {
        session.hear(engine.now_ns);
        session.end(engine, operation, result);
    }
}

/// What came of sending the next part.
#[derive(PartialEq, Eq)]
enum Sent {
    /// It is on the way.
    Part,
    /// There is none now.
    Nothing,
    /// There is no room for it.
    Waits(Room),
}

/// Sends the next part, if there is one and room for it.
fn send_next(
    engine: &mut Engine<Memories>,
    session: &mut Session<Memories>,
    operation: ObjectId,
    is_turn: bool,
) -> Sent {
    let whose = (session.id, session.serial, operation);
    if engine.service.ways.rests((session.id, session.serial)) {
        let has_part = |flight: &Flight| flight.next().is_some();
        let flight = session.service.elsewhere.flights.get(&operation);
        let waits = Sent::Waits(Room::SessionFull);
        return if flight.is_some_and(has_part) { waits } else { Sent::Nothing };
    }
    let taken_bytes = session.service.elsewhere.taken_bytes();
    let Elsewhere { flights, on_way_bytes, .. } = &mut session.service.elsewhere;
    let Some(flight) = flights.get_mut(&operation) else { return Sent::Nothing };
    let Some(part) = flight.next() else { return Sent::Nothing };
    let (carried, there) = (flight.carried(part), *flight.there());
    let (to, ways) = (flight.way(), &mut engine.service.ways);
    match ways.room(to, taken_bytes, carried, is_turn) {
        Room::Free => {}
        room => return Sent::Waits(room),
    }
    let pieces = WindowPieces { window: &session.window, pieces: flight.asked().pieces };
    let Ok((message, payload)) = flight.send(part, &pieces) else {
        flight.fail(libc::EFAULT);
        return Sent::Nothing;
    };
    ways.left(to, on_way_bytes, carried);
    engine.awaited.begin(engine.now_ns);
    send(engine, whose, (part, carried, to), there, (message.encode().to_vec(), payload));
    Sent::Part
}

/// Has a message sent, whose answer comes back to this loop as an order.
fn send(
    engine: &Engine<Memories>,
    (session, serial, operation): (ObjectId, u64, ObjectId),
    (part, carried, way): (Part, u64, Way),
    there: There,
    message: (Vec<u8>, Vec<u8>),
) {
    let (number, gates) = (engine.number, Arc::clone(&engine.service.gates));
    let tell = move |answer| {
        let answered = Answered { session, serial, operation, way, part, carried, answer };
        if let Some(gate) = gates.get(number) {
            gate.send(Order::Service(MemoryOrder::Answered(Box::new(answered))));
        }
    };
    let replicated = engine.service.replicated.as_ref();
    if let Some(replicated) = replicated.filter(|_| is_replicated(there.peer.link)) {
        return replicated.operate(there.handle, message.0, message.1, Box::new(tell));
    }
    match &engine.service.caller {
        Some(caller) => call(caller, (there.peer, way.class), message, tell),
        None => tell(Err(NoAnswer::NotSent)),
    }
}

#[cfg(test)]
#[path = "send_tests.rs"]
mod tests;

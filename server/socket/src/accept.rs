//! Accept: in line at a listener, until a connection is this member's.

use std::sync::Arc;

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Order, Sessions, Step, Turn};
use heliostat_service_listener::Member;
use rustix::net::sockopt::set_tcp_nodelay;

use super::address::put;
use super::arrival::Arrival;
use super::listener::{Listener, Next};
use super::message::{Arrived, SocketOrder};
use super::peek;
use super::poll;
use super::socket::Kind;
use super::sockets::Sockets;
use super::wait::{wait, For};

/// Connections of one listener that are handed out before others have their turn.
const AT_ONCE: usize = 64;

/// Puts the operation in line; the listener is looked at when all turns are over.
pub(crate) fn accept(turn: &mut Turn<'_, Sockets>, asked: &Operation) -> Step {
    let Some(socket) = turn.session.objects.get(asked.object) else {
        return turn.fail(libc::EBADF);
    };
    let Some(listener) = socket.listener().cloned() else { return turn.fail(libc::EINVAL) };
    // It comes a second time when its listener was closed, and then finds none.
    let member = Member::new(turn.session.id, asked.object);
    let accepting = &mut turn.session.service.accepting;
    if accepting.insert(turn.id.operation, (listener.clone(), member)).is_none() {
        listener.wait(member);
    }
    turn.engine.service.look_at(listener);
    wait(turn, asked.object, For::Something)
}

/// Hands out what a listener has to those that wait; whether that was anything.
pub(crate) fn hand_out(sessions: &mut Sessions<Sockets>, listener: &Arc<Listener>) -> bool {
    for handed in 0..AT_ONCE {
        let now_ns = sessions.engine.now_ns;
        let (member, on, connection) = match listener.next(now_ns) {
            Next::Given(member, on, connection) => (member, on, connection),
            Next::Peeked(connection, limits) => {
                peek::hold(sessions, listener, connection, limits);
                continue;
            }
            Next::Nothing(until_ns) => {
                let service = &mut sessions.engine.service;
                until_ns.into_iter().for_each(|at_ns| service.look_at_by(listener, at_ns));
                poll::tell(sessions, listener);
                return handed > 0;
            }
        };
        let arrived = Arrived { listener: listener.clone(), member, connection };
        if on == sessions.engine.number {
            deliver(sessions, arrived);
        } else if let Some(gate) = sessions.engine.service.gates.get(on) {
            gate.send(Order::Service(SocketOrder::Arrived(arrived)));
        }
    }
    // There may be more: no edge says so.
    sessions.engine.service.look_at(listener.clone());
    true
}

/// Gives a connection to a member's first Accept. One that has none any more, or no room, leaves it
/// to the others.
pub(crate) fn deliver(sessions: &mut Sessions<Sockets>, arrived: Arrived) {
    let Arrived { listener, member, connection } = arrived;
    if let Err(connection) = try_to_deliver(sessions, &listener, member, connection) {
        listener.give_back(member, connection);
        sessions.engine.service.look_at(listener);
    }
}

fn try_to_deliver(
    sessions: &mut Sessions<Sockets>,
    listener: &Arc<Listener>,
    member: Member,
    mut connection: Arrival,
) -> Result<(), Arrival> {
    let Some(seat) = sessions.seat(member.session()) else { return Err(connection) };
    let Some((session, engine)) = sessions.at(seat) else { return Err(connection) };
    let Some(operation) = first_accept(session, member.listener()) else { return Err(connection) };
    // It is not waited for any more, whatever becomes of this one.
    session.service.accepting.remove(&operation);
    // As of one that connects. Where it fails the connection is over, which its first read says.
    let _ = set_tcp_nodelay(&connection.socket, true);
    let kind = Kind::Connection { is_connecting: false, of: Some((listener.clone(), member)) };
    // Its place is the member's from now on.
    connection.slot = None;
    let (peer, socket) = (connection.peer, connection.socket);
    match Sockets::insert(engine, session, seat, socket, kind) {
        Ok(id) => {
            let piece = session.operations.get(operation);
            let piece = piece.and_then(|entry| entry.operation.pieces.as_slice().first().copied());
            if let (Some(piece), Some(peer)) = (piece, peer) {
                put(&session.window, &piece, peer);
            }
            session.end_with(engine, operation, i64::from(id.index), id.generation);
            session.hear(engine.now_ns);
            session.ring();
            Ok(())
        }
        Err((errno, socket)) => {
            session.end(engine, operation, -i64::from(errno));
            session.ring();
            Err(Arrival { socket, ..connection })
        }
    }
}

fn first_accept(
    session: &mut heliostat_server_loop::Session<Sockets>,
    listener: ObjectId,
) -> Option<ObjectId> {
    let operations = &session.operations;
    let is_accept = |id| operations.get(id).is_some_and(|it| it.operation.kind == OpKind::Accept);
    session.objects.get_mut(listener)?.readers.pop(is_accept)
}

//! Sockets as their server loop sees them: from operations, edges and orders to what serves them.

use heliostat_abi::name::ObjectId;
use heliostat_abi::socket::limits::SOCKETS_PER_SESSION_MAX;
use heliostat_server_loop::{
    Engine, OperationId, Parts, Service, Session, Sessions, Step, Token, Turn,
};

use super::guest::Visit;
use super::message::{SocketEvent, SocketOrder};
use super::socket::Socket;
use super::sockets::Sockets;
use super::watch::{Edge, Watch, Watched};
use super::{accept, peek, poll, serve};

/// How long until the set is looked at, where the kernel could not be asked to tell.
const LOOK_NS: u64 = 1_000_000;
/// Times that edges are taken before sessions have their turn.
const ROUNDS: usize = 4;

/// Something has happened in the epoll set.
#[derive(Clone, Copy)]
pub struct Happened;

impl Parts for Sockets {
    type Object = Socket;
    type PerSession = Visit;
    type Request = Happened;
    type Order = SocketOrder;
    type Event = SocketEvent;

    const OBJECTS: usize = SOCKETS_PER_SESSION_MAX;

    fn cut(&mut self, session: ObjectId, _: ObjectId) {
        if !self.cut.contains(&session) {
            self.cut.push(session);
        }
    }

    fn next_ns(&self) -> Option<u64> {
        let late = self.late.iter().map(|(at, _)| *at).min();
        [self.look_ns, late, self.held.first().map(|id| id.until_ns)].into_iter().flatten().min()
    }
}

impl Service for Sockets {
    fn serve(turn: &mut Turn<'_, Self>) -> Step {
        serve::serve(turn)
    }

    fn close(engine: &mut Engine<Self>, session: ObjectId, socket: Socket) {
        // Its name was of use to its session only, but for a listener's, which has left as a whole.
        let watch = engine.service.watch.as_ref();
        let id = watch.and_then(|watch| watch.name_of(socket.watched)).unwrap_or_default();
        Sockets::let_go(engine, session, id, socket);
    }

    fn left(engine: &mut Engine<Self>, _: ObjectId, session: &mut Session<Self>) {
        engine.service.cut.retain(|other| *other != session.id);
    }

    fn clock(sessions: &mut Sessions<Self>) {
        let now_ns = sessions.engine.now_ns;
        let is_due = sessions.engine.service.look_ns.is_some_and(|at| at <= now_ns);
        if is_due {
            sessions.engine.service.look_ns = None;
            take_edges(sessions);
        }
        peek::pass_time(&mut sessions.engine.service, now_ns);
        sessions.engine.service.look_at_late(now_ns);
        settle(sessions);
    }

    fn lie_down(sessions: &mut Sessions<Self>) -> bool {
        watch(&mut sessions.engine);
        sessions.engine.service.to_look_at.is_empty()
    }

    fn swept(sessions: &mut Sessions<Self>) {
        watch(&mut sessions.engine);
        settle(sessions);
    }

    fn carry_out(sessions: &mut Sessions<Self>, order: SocketOrder) {
        match order {
            SocketOrder::Guest(id, guest) => {
                if let Some((session, _)) = sessions.session(id) {
                    session.service.guest = Some(guest);
                }
            }
            SocketOrder::Arrived(arrived) => accept::deliver(sessions, arrived),
            SocketOrder::Polled(member) => poll::look_again(sessions, member),
        }
    }

    fn completed(sessions: &mut Sessions<Self>, _: Happened, _: i32) {
        sessions.engine.service.is_watched = false;
        take_edges(sessions);
    }
}

/// Has the kernel tell when something happens. Where it takes no more requests now, the set is looked at.
fn watch(engine: &mut Engine<Sockets>) {
    if engine.service.is_watched || engine.service.look_ns.is_some() {
        return;
    }
    let Some(event) = engine.service.watch.as_ref().map(|watch| watch.event().clone()) else {
        return;
    };
    match engine.requests.readable(Token::Service(Happened), &event) {
        Ok(_) => {
            engine.service.is_watched = true;
            engine.flying += 1;
        }
        Err(_) => engine.service.look_ns = Some(engine.now_ns + LOOK_NS),
    }
}

/// Gives operations another turn whose sockets have something for them.
fn take_edges(sessions: &mut Sessions<Sockets>) {
    for _ in 0..ROUNDS {
        let watch = &mut sessions.engine.service.watch;
        let edges = watch.as_mut().map(Watch::take).unwrap_or_default();
        if edges.is_empty() {
            return;
        }
        edges.into_iter().for_each(|edge| attend(sessions, edge));
    }
}

fn attend(sessions: &mut Sessions<Sockets>, edge: Edge) {
    let (seat, socket) = match edge.of {
        Watched::Socket { seat, socket } => (seat, socket),
        Watched::Held(id) => {
            let now_ns = sessions.engine.now_ns;
            return peek::attend(&mut sessions.engine.service, id, edge.is_end, now_ns);
        }
        Watched::Unnamed => return,
    };
    let Some((session, engine)) = sessions.at(seat) else { return };
    let Some(socket) = session.objects.get_mut(socket) else { return };
    let mut due = socket.pollers.take();
    if edge.writable {
        due.extend(socket.writers.take());
    }
    match socket.listener().cloned() {
        Some(listener) => engine.service.look_at(listener),
        None if edge.readable => due.extend(socket.readers.take()),
        None => {}
    }
    session.hear(engine.now_ns);
    for operation in due {
        sessions.resume(OperationId { seat, operation });
    }
}

/// Hands out what listeners have, and lets go of sockets whose connecting was cut short.
fn settle(sessions: &mut Sessions<Sockets>) {
    let service = &mut sessions.engine.service;
    if service.to_look_at.is_empty() && service.cut.is_empty() {
        return;
    }
    for listener in std::mem::take(&mut service.to_look_at) {
        accept::hand_out(sessions, &listener);
    }
    for id in std::mem::take(&mut sessions.engine.service.cut) {
        let Some((session, engine)) = sessions.session(id) else { continue };
        for socket in std::mem::take(&mut session.service.unknown) {
            let Some(found) = session.objects.remove(socket) else { continue };
            Sockets::let_go(engine, id, socket, found);
        }
    }
}

//! Poll: which of many sockets are ready, looked at once, and then whenever one has an edge.

use std::os::fd::AsFd;

use heliostat_abi::file::delegated::{Operation, Piece};
use heliostat_abi::socket::operation::{
    PollEntry, POLL_ENDED, POLL_ENTRY_BYTES, POLL_IN, POLL_OUT, POLL_UNKNOWN,
};
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::{OperationId, Order, Session, Sessions, Step, Turn};
use heliostat_service_listener::Member;
use rustix::event::{poll as poll_now, PollFd, PollFlags, Timespec};

use super::listener::Listener;
use super::message::SocketOrder;
use super::socket::Socket;
use super::sockets::Sockets;

/// What one entry costs of a turn: a look of the kernel's.
const COST: i64 = 256;

/// Answers how many entries are ready, or waits at all of their sockets.
pub(crate) fn poll(turn: &mut Turn<'_, Sockets>, asked: &Operation) -> Step {
    let Some(piece) = asked.pieces.as_slice().first().copied() else {
        return turn.fail(libc::EINVAL);
    };
    let Some(mut entries) = take(&turn.session.window, &piece) else {
        return turn.fail(libc::EINVAL);
    };
    *turn.left -= COST * entries.len() as i64;
    let ready = look(turn.session, &mut entries);
    if ready > 0 {
        put(&turn.session.window, &piece, &entries);
        return turn.end(ready);
    }
    let operation = turn.id.operation;
    for entry in &entries {
        let operations = &turn.session.operations;
        let lives = |other| operations.get(other).is_some();
        let Some(socket) = turn.session.objects.get_mut(entry.socket) else { continue };
        socket.pollers.push(operation, lives);
        let Some(listener) = socket.listener().cloned() else { continue };
        if entry.wanted & POLL_IN != 0 {
            listener.polled.add(Member::new(turn.session.id, entry.socket), turn.engine.number);
            // What another loop has made ready since it was looked at.
            if listener.has_ready() {
                turn.engine.service.look_at(listener);
            }
        }
    }
    Step::Over
}

/// Tells members that poll of a connection that waits for somebody.
pub(crate) fn tell(sessions: &mut Sessions<Sockets>, listener: &Listener) {
    if !listener.has_ready() {
        return;
    }
    for (member, on) in listener.polled.take() {
        if on == sessions.engine.number {
            look_again(sessions, member);
        } else if let Some(gate) = sessions.engine.service.gates.get(on) {
            gate.send(Order::Service(SocketOrder::Polled(member)));
        }
    }
}

/// Gives a member's Polls another turn.
pub(crate) fn look_again(sessions: &mut Sessions<Sockets>, member: Member) {
    let Some(seat) = sessions.seat(member.session()) else { return };
    let Some((session, engine)) = sessions.at(seat) else { return };
    let Some(socket) = session.objects.get_mut(member.listener()) else { return };
    let due = socket.pollers.take();
    session.hear(engine.now_ns);
    for operation in due {
        sessions.resume(OperationId { seat, operation });
    }
}

/// The entries in a piece; the bytes are foreign, and copied once.
fn take(window: &SharedMapping, piece: &Piece) -> Option<Vec<PollEntry>> {
    let mut bytes = vec![0; piece.bytes as usize];
    window.copy_out(usize::try_from(piece.offset).ok()?, &mut bytes).ok()?;
    let each = bytes.chunks_exact(POLL_ENTRY_BYTES);
    each.map(|entry| PollEntry::decode(entry.try_into().ok()?)).collect()
}

fn put(window: &SharedMapping, piece: &Piece, entries: &[PollEntry]) {
    let bytes: Vec<u8> = entries.iter().flat_map(PollEntry::encode).collect();
    let at = usize::try_from(piece.offset).unwrap_or(usize::MAX);
    // The piece was checked against the window when the operation came.
    let _ = window.copy_in(at, &bytes);
}

/// Fills in what there is; how many entries have something.
fn look(session: &Session<Sockets>, entries: &mut [PollEntry]) -> i64 {
    let mut known = Vec::with_capacity(entries.len());
    let mut asked = Vec::with_capacity(entries.len());
    for (place, entry) in entries.iter_mut().enumerate() {
        match session.objects.get(entry.socket) {
            Some(socket) => {
                asked.push(PollFd::from_borrowed_fd(
                    socket.descriptor.as_fd(),
                    flags_of(entry.wanted),
                ));
                known.push(place);
            }
            None => entry.found = POLL_UNKNOWN,
        }
    }
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // It fails for want of memory only; then nothing is ready, and the next edge looks again.
    if poll_now(&mut asked, Some(&now)).is_ok() {
        for (place, asked) in known.into_iter().zip(&asked) {
            entries[place].found = found_of(entries[place].wanted, asked.revents());
        }
    }
    for entry in entries.iter_mut().filter(|entry| entry.wanted & POLL_IN != 0) {
        let socket = session.objects.get(entry.socket);
        if socket.and_then(Socket::listener).is_some_and(|listener| listener.has_ready()) {
            entry.found |= POLL_IN;
        }
    }
    entries.iter().filter(|entry| entry.found != 0).count() as i64
}

fn flags_of(wanted: u16) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, wanted & POLL_IN != 0);
    flags.set(PollFlags::OUT, wanted & POLL_OUT != 0);
    flags
}

fn found_of(wanted: u16, found: PollFlags) -> u16 {
    let has = |flags, bit: u16| if found.intersects(flags) { bit } else { 0 };
    let is_over = has(PollFlags::ERR | PollFlags::HUP, POLL_ENDED);
    let ready = has(PollFlags::IN, POLL_IN) | has(PollFlags::OUT, POLL_OUT);
    ready & wanted | is_over
}

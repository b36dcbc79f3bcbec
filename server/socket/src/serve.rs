//! Operations on sockets: each tries, and waits in line where the kernel has nothing for it yet.

use heliostat_abi::file::delegated::{OpKind, Operation};
use heliostat_abi::socket::operation::{OWN, RECEIVING, SENDING};
use heliostat_server_loop::{Step, Turn, COST_MIN};
use rustix::net::Shutdown;

use super::address::{own_of, peer_of, put};
use super::sockets::Sockets;
use super::{accept, open, poll, transfer};

/// Begins an operation or goes on with it.
pub(crate) fn serve(turn: &mut Turn<'_, Sockets>) -> Step {
    *turn.left -= COST_MIN;
    let Some(entry) = turn.entry() else { return Step::Over };
    let asked = entry.operation;
    if asked.offset != 0 {
        return turn.fail(libc::EINVAL);
    }
    match asked.kind {
        OpKind::Read => transfer::receive(turn, &asked),
        OpKind::Write => transfer::send(turn, &asked),
        OpKind::Connect => open::connect(turn, &asked),
        OpKind::Listen => open::listen(turn, &asked),
        OpKind::Accept => accept::accept(turn, &asked),
        OpKind::Poll => poll::poll(turn, &asked),
        OpKind::Shutdown => shutdown(turn, &asked),
        OpKind::Address => address(turn, &asked),
        OpKind::Close => close(turn, &asked),
        _ => turn.fail(libc::EINVAL),
    }
}

fn shutdown(turn: &mut Turn<'_, Sockets>, asked: &Operation) -> Step {
    let Some(socket) = turn.object(asked) else { return turn.fail(libc::EBADF) };
    if !socket.is_connected() {
        return turn.fail(libc::ENOTCONN);
    }
    let how = match asked.argument {
        RECEIVING => Shutdown::Read,
        SENDING => Shutdown::Write,
        _ => Shutdown::Both,
    };
    match rustix::net::shutdown(&socket.descriptor, how) {
        Ok(()) => turn.end(0),
        Err(errno) => turn.fail(errno.raw_os_error()),
    }
}

fn address(turn: &mut Turn<'_, Sockets>, asked: &Operation) -> Step {
    let Some(socket) = turn.object(asked) else { return turn.fail(libc::EBADF) };
    let found = match asked.argument {
        OWN => own_of(&socket.descriptor),
        _ => peer_of(&socket.descriptor),
    };
    let (Some(found), Some(piece)) = (found, asked.pieces.as_slice().first()) else {
        return turn.fail(libc::ENOTCONN);
    };
    put(&turn.session.window, piece, found);
    turn.end(0)
}

/// Closes a socket. What waits for it ends with EBADF, as its next turn finds none.
fn close(turn: &mut Turn<'_, Sockets>, asked: &Operation) -> Step {
    let Some(socket) = turn.session.objects.remove(asked.object) else {
        return turn.fail(libc::EBADF);
    };
    let session = turn.session.id;
    let waiting = Sockets::let_go(turn.engine, session, asked.object, socket);
    for operation in waiting {
        turn.session.operations.requeue(operation);
    }
    turn.end(0)
}

//! Operations that wait: in line at a socket, until an edge brings them back.

use heliostat_abi::name::ObjectId;
use heliostat_server_loop::{Step, Turn};

use super::sockets::Sockets;

/// What an operation waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum For {
    /// Something to receive or to accept.
    Something,
    /// Room to send, or the end of connecting.
    Room,
}

/// Puts the operation in line at a socket.
pub(crate) fn wait(turn: &mut Turn<'_, Sockets>, socket: ObjectId, what: For) -> Step {
    let (operation, operations) = (turn.id.operation, &turn.session.operations);
    let lives = |other| operations.get(other).is_some();
    if let Some(socket) = turn.session.objects.get_mut(socket) {
        match what {
            For::Something => socket.readers.push(operation, lives),
            For::Room => socket.writers.push(operation, lives),
        }
    }
    Step::Over
}

//! Members that poll a listener: they are told of what waits there and no edge tells of.
//!
//! A connection whose first bytes were awaited, or that came back, is ready when the kernel's queue is
//! empty. Who polls says so here before it looks whether one is ready, and who makes one ready looks here
//! afterwards: one of the two sees the other.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use heliostat_server_loop::{OperationId, Order, Sessions};
use heliostat_service_listener::Member;

use super::listener::Listener;
use super::message::SocketOrder;
use super::sockets::Sockets;

/// Members that poll, and the loops that have their sessions.
#[derive(Default)]
pub(crate) struct Polled(Mutex<BTreeMap<Member, usize>>);

impl Polled {
    /// A member polls.
    pub fn add(&self, member: Member, on: usize) {
        self.lock().insert(member, on);
    }

    /// A member has left.
    pub fn remove(&self, member: Member) {
        self.lock().remove(&member);
    }

    /// All who poll; they are told once.
    fn take(&self) -> BTreeMap<Member, usize> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Member, usize>> {
        // A loop that ended inside has ended all loops.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

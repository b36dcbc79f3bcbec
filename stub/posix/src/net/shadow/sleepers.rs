//! Who sleeps on a shadow in the kernel, and who takes bells off it.
//!
//! A bell is a byte. The kernel wakes everybody who sleeps there, and each looks for the byte once more
//! before its sleep ends: one who comes behind the thread that took it sleeps on, and what it waits for
//! may have come with that bell. So nobody takes bells off while others sleep there, and the last of
//! those that a bell has woken does.
//!
//! A thread can leave its sleep without a word: cancelled, or by a handler that jumps out. Of one in
//! recv(2) the number is known, so that it is missed; others are given up after some seconds in which the
//! byte has ended every sleep at once.

use crate::net::socket::{Connection, Sleeper, Sleepers, Socket};
use crate::thread::Critical;

/// A thread's place among them, until it gets up.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    sleeper: Sleeper,
    generation: u32,
    epoch: u32,
}

/// What became of the bells that were there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bells {
    /// There was none.
    None,
    /// They lie there for others who sleep.
    Left,
    /// They were taken off.
    Taken,
    /// The shadow is another connection's by now.
    Others,
}

/// A thread is about to sleep there: bells that came until now are taken off, if nobody else sleeps. The
/// caller looks once more after this.
pub fn lie_down(connection: Connection<'_>, sleeper: Sleeper) -> (Place, Bells) {
    let _critical = Critical::enter();
    lie_down_among(connection, sleeper, &mut connection.socket.on_shadow.lock())
}

/// The same, where no other call sleeps there. Who is refused relies on that one, which wakes others
/// when it gets up.
pub fn lie_down_first(connection: Connection<'_>, sleeper: Sleeper) -> Option<(Place, Bells)> {
    let _critical = Critical::enter();
    let mut sleepers = connection.socket.on_shadow.lock();
    match sleepers.has_call() {
        true => None,
        false => Some(lie_down_among(connection, sleeper, &mut sleepers)),
    }
}

fn lie_down_among(
    connection: Connection<'_>,
    sleeper: Sleeper,
    sleepers: &mut Sleepers,
) -> (Place, Bells) {
    let bells = drain(connection, sleepers);
    sleepers.add(sleeper);
    let generation = connection.socket.generation();
    (Place { sleeper, generation, epoch: sleepers.epoch() }, bells)
}

/// It sleeps no more. Bells are taken off by the last one.
pub fn get_up(connection: Connection<'_>, place: Place) -> Bells {
    let socket = connection.socket;
    let _critical = Critical::enter();
    let mut sleepers = socket.on_shadow.lock();
    // A place that serves another connection by now has no count of ours.
    if place.generation != socket.generation() {
        return Bells::Others;
    }
    if place.epoch == sleepers.epoch() {
        sleepers.remove(place.sleeper);
    }
    drain(connection, &mut sleepers)
}

/// The place of a thread that slept in recv(2), once it is awake.
pub fn peeker(socket: &Socket) -> Place {
    let _critical = Critical::enter();
    let epoch = socket.on_shadow.lock().epoch();
    Place { sleeper: Sleeper::Peeker, generation: socket.generation(), epoch }
}

/// That thread does not know any more what it slept on.
pub fn forget_peeker(socket: &Socket) {
    let _critical = Critical::enter();
    socket.on_shadow.lock().remove(Sleeper::Peeker);
}

/// Takes bells off for somebody who does not sleep there, if nobody does.
pub fn drain_unslept(connection: Connection<'_>) -> Bells {
    let _critical = Critical::enter();
    drain(connection, &mut connection.socket.on_shadow.lock())
}

/// Whether a bell lies there that others have to see before it is taken off; now or a moment ago.
pub fn is_bell_left(connection: Connection<'_>) -> bool {
    let Connection { socket, stream, .. } = connection;
    if !super::has_bells(socket, &stream.incoming) {
        return false;
    }
    let _critical = Critical::enter();
    let is_slept = socket.on_shadow.lock().has_any();
    is_slept
}

fn drain(connection: Connection<'_>, sleepers: &mut Sleepers) -> Bells {
    let Connection { fd, socket, stream } = connection;
    if !super::has_bells(socket, &stream.incoming) {
        return Bells::None;
    }
    if !sleepers.may_drain() {
        return Bells::Left;
    }
    match super::take_off(fd, socket, &stream.incoming) {
        0 => Bells::None,
        _ => Bells::Taken,
    }
}

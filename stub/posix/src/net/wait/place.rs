//! A thread's place on the shadow (`shadow::sleepers`), and who else has to hear of the bells that it takes.

use heliostat_base::{call, spin};

use crate::net::shadow::sleepers::{self, Bells, Place};
use crate::net::socket::{Connection, Sleeper};
use crate::net::watch;
use crate::thread::Critical;

/// Before a sleep others whom a bell has woken get the core so often, and then so long.
const SEEING_YIELDS: u32 = 4;
const SEEING_NAP_NS: u64 = 100_000;

/// A place on the shadow for this thread, which looks once more before it sleeps.
pub fn lie_down(connection: Connection<'_>, sleeper: Sleeper) -> Place {
    let_others_see(connection);
    let (place, bells) = sleepers::lie_down(connection, sleeper);
    tell_sets(connection, bells);
    place
}

/// The same, unless another call sleeps there.
pub(super) fn lie_down_first(connection: Connection<'_>, sleeper: Sleeper) -> Option<Place> {
    let_others_see(connection);
    let (place, bells) = sleepers::lie_down_first(connection, sleeper)?;
    tell_sets(connection, bells);
    Some(place)
}

/// A bell that lies on the shadow would end this thread's sleep at once. Those that it has woken get the core
/// first, while this thread is not among them: so the last of them takes it.
fn let_others_see(connection: Connection<'_>) {
    for turn in 0..=SEEING_YIELDS {
        if !sleepers::is_bell_left(connection) {
            return;
        }
        match turn {
            SEEING_YIELDS => _ = call::ppoll(&mut [], Some(SEEING_NAP_NS), None),
            _ => spin::yield_now(),
        }
    }
}

/// The place is given up; false where the shadow is still this connection's and had no bell.
pub fn get_up(connection: Connection<'_>, place: Place) -> bool {
    let bells = sleepers::get_up(connection, place);
    tell_sets(connection, bells);
    bells != Bells::None
}

/// Bells that were taken off may have been for epoll sets as well.
fn tell_sets(connection: Connection<'_>, bells: Bells) {
    let _critical = Critical::enter();
    if bells == Bells::Taken && connection.socket.is_in_sets() {
        watch::life::repeat_bell(connection.index());
    }
}

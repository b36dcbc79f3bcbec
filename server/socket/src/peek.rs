//! Connections whose first bytes are awaited: by them it is decided whose they are.
//!
//! ```text
//! accepted --peek--> enough --> ready at the listener
//!            '-> held by this loop --edge--> peek again
//!                                  --deadline, or too many--> ready, by load
//! ```
//! They are nobody's, so that a member that ends takes none along. Each counts as a socket of the
//! listener's user, of whose places they have half at most; one for which there is no place is decided
//! by load at once.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use heliostat_abi::listener::limits::PEEKED_MAX;
use heliostat_abi::listener::rule::Peek;
use heliostat_server_loop::Sessions;
use heliostat_service_listener::decides;
use rustix::io::Errno;
use rustix::net::{recv, RecvFlags};

use super::arrival::Arrival;
use super::held::HeldId;
use super::listener::Listener;
use super::sockets::Sockets;
use super::watch::Watched;

/// A connection came whose first bytes decide; they may be there already.
pub(crate) fn hold(
    sessions: &mut Sessions<Sockets>,
    listener: &Arc<Listener>,
    mut arrival: Arrival,
    peek: Peek,
) {
    let (service, now_ns) = (&mut sessions.engine.service, sessions.engine.now_ns);
    let bytes_max = peek.bytes_max as usize;
    if let Some(first) = first_bytes(&arrival.socket, bytes_max, false) {
        return listener.put_ready(arrival.by_content(&first, now_ns));
    }
    if service.held.len() >= PEEKED_MAX {
        service.held.first().into_iter().for_each(|id| release(service, id, None, now_ns));
    }
    arrival.slot = listener.budget.take_unowned();
    let watched = arrival.slot.as_ref().and(service.watch.as_mut());
    let watched = watched.and_then(|watch| watch.add(&arrival.socket));
    let (Some(watched), Some(watch)) = (watched, &mut service.watch) else {
        return listener.put_ready(arrival);
    };
    let until_ns = now_ns + u64::from(peek.deadline_ms) * 1_000_000;
    let id = service.held.next_id(until_ns);
    watch.name(watched, Watched::Held(id));
    service.held.insert(id, listener, (arrival, bytes_max, watched));
}

/// Something has happened to a connection that is held.
pub(crate) fn attend(service: &mut Sockets, id: HeldId, is_end: bool, now_ns: u64) {
    let Some(held) = service.held.get(id) else { return };
    let first = first_bytes(&held.arrival.socket, held.bytes_max, is_end);
    if first.is_some() {
        release(service, id, first.as_deref(), now_ns);
    }
}

/// Those that have waited for long enough are given by load.
pub(crate) fn pass_time(service: &mut Sockets, now_ns: u64) {
    while let Some(id) = service.held.first().filter(|id| id.until_ns <= now_ns) {
        release(service, id, None, now_ns);
    }
}

/// A connection is held no more: by its first bytes, or by load, it is somebody's.
fn release(service: &mut Sockets, id: HeldId, first: Option<&[u8]>, now_ns: u64) {
    let Some(held) = service.held.remove(id) else { return };
    if let Some(watch) = &mut service.watch {
        watch.remove(held.watched, &held.arrival.socket);
    }
    let Some(listener) = held.listener.upgrade() else { return };
    listener.put_ready(held.arrival.by_content(first.unwrap_or(&[]), now_ns));
    service.look_at(listener);
}

/// The first bytes of a connection once they decide; they stay in it.
fn first_bytes(socket: &OwnedFd, bytes_max: usize, is_end: bool) -> Option<Vec<u8>> {
    let mut room = vec![0; bytes_max];
    match recv(socket.as_fd(), &mut room[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((0, _)) => Some(Vec::new()),
        Ok((length, _)) => {
            room.truncate(length);
            decides(&room, bytes_max, is_end).then_some(room)
        }
        Err(Errno::AGAIN | Errno::INTR) => None,
        // It was reset: who gets it will be told so.
        Err(_) => Some(Vec::new()),
    }
}

//! How poll(2) sleeps: in the kernel's ppoll, with the shadows in place of the streams.

use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};
use libc::pollfd;

use super::{is_watched, look, Polled, Watched};
use crate::net::shadow::sleepers::Place;
use crate::net::socket::{self, Connection, Sleeper};
use crate::net::watch::polled;
use crate::net::{early, returned, shadow, wait};
use crate::thread::Critical;
use crate::waiting;

/// Sleeps; 0 means look again.
pub(super) fn sleep(
    fds: &mut [pollfd],
    entries: &Polled,
    ends: Option<u64>,
    mask: Option<u64>,
) -> Result<usize, Errno> {
    let Some(_counted) = Counted::all(&entries.undecided) else { return Ok(0) };
    let watched = &entries.watched;
    let (mut places, sets) = arm(watched, fds);
    let found = look(fds, watched);
    let mut copy = fds.to_vec();
    let each = watched.iter().zip(&mut places);
    let pauses = each.filter_map(|(entry, place)| prepare(entry, fds, &mut copy, place));
    let pause = pauses.chain(sets).min();
    let left = ends.map(|ends| ends.saturating_sub(clock::monotonic_ns()));
    let limit = [left, pause].into_iter().flatten().min();
    let answer = match found {
        0 => {
            waiting::sleeps();
            let answer = call::ppoll(&mut copy, limit, mask);
            waiting::woke_in_poll();
            answer
        }
        _ => Ok(0),
    };
    disarm(fds, watched, &places, &copy, answer.is_ok());
    answer?;
    for (at, entry) in copy.iter().enumerate().filter(|(at, _)| !is_watched(watched, *at)) {
        fds[at].revents = if found == 0 { entry.revents } else { 0 };
    }
    look(fds, watched);
    Ok(fds.iter().filter(|entry| entry.fd >= 0 && entry.revents != 0).count())
}

/// A thread that sleeps in the kernel for connections of which nobody knows yet what they become. It
/// would hear no bell: until it wakes, no offer is claimed for them.
struct Counted(Vec<(u32, u32)>);

impl Counted {
    /// `None` when one of them is decided by now.
    fn all(undecided: &[u32]) -> Option<Self> {
        let mut counted = Self(Vec::new());
        for index in undecided {
            let socket = socket::at(*index);
            if !wait::count_undecided(socket) {
                return None;
            }
            counted.0.push((*index, socket.generation()));
        }
        Some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        for (index, generation) in &self.0 {
            let socket = socket::at(*index);
            // A place that serves another connection by now has no count of ours.
            if socket.generation() == *generation {
                wait::forget_sleep(socket);
            }
        }
    }
}

/// Puts into the kernel's call what is slept for, and says for how long at most.
fn prepare(
    entry: &Watched,
    fds: &[pollfd],
    copy: &mut [pollfd],
    place: &mut Option<Place>,
) -> Option<u64> {
    let Watched::Stream { at, fd, index, stream } = entry else { return None };
    let socket = socket::at(*index);
    let connection = Connection::new(*fd, socket, stream);
    let (events, pause) = sleep_events(connection, fds[*at].events);
    copy[*at].events = events;
    if place.is_none() && events & libc::POLLIN != 0 {
        // The connection has become a stream since the look, which has to be made again.
        *place = Some(wait::lie_down(connection, Sleeper::Poll));
        return Some(0);
    }
    if shadow::has_ended(socket) && !returned::is_reading(socket) {
        // It would say so again and again, to a program that does not ask for it.
        copy[*at].fd = -1;
    }
    // What the writer holds back is there when its time has come.
    let held = if socket.is_early() { None } else { stream.incoming.held_for() };
    [pause, held, socket.siblings_pause(stream)].into_iter().flatten().min()
}

/// What is slept for on a stream's shadow, and for how long at most.
fn sleep_events(connection: Connection<'_>, wanted: i16) -> (i16, Option<u64>) {
    let Connection { socket, .. } = connection;
    let usual = libc::POLLIN | libc::POLLRDHUP;
    if returned::is_reading(socket) {
        return (wanted, None);
    }
    if !socket.is_early() {
        return (usual, None);
    }
    if early::sends_on_shadow(socket) {
        return (wanted, None);
    }
    if wanted & libc::POLLOUT == 0 {
        // Payload that nobody asks for would end every sleep at once.
        let is_unasked = wanted & libc::POLLIN == 0 && early::has_payload(connection);
        return match is_unasked {
            true => (libc::POLLRDHUP, Some(early::BELL_PAUSE_NS)),
            false => (usual, None),
        };
    }
    match early::room_events(connection) {
        (events, None) => (usual | events, None),
        pausing => pausing,
    }
}

/// Says that this thread sleeps: its place on each shadow whose bells it hears, and for how long it may sleep at
/// once, because of what is in the sets.
fn arm(watched: &[Watched], fds: &[pollfd]) -> (Vec<Option<Place>>, Option<u64>) {
    let _critical = Critical::enter();
    let (mut places, mut pause) = (Vec::new(), None);
    for entry in watched {
        match entry {
            Watched::Stream { at, fd, index, stream } => {
                let socket = socket::at(*index);
                socket.arm(stream, fds[*at].events & libc::POLLOUT != 0);
                let connection = Connection::new(*fd, socket, stream);
                let hears = sleep_events(connection, fds[*at].events).0 & libc::POLLIN != 0;
                places.push(hears.then(|| wait::lie_down(connection, Sleeper::Poll)));
            }
            Watched::Set { fd, index, .. } => {
                places.push(None);
                pause = [pause, polled::arm(*fd, *index)].into_iter().flatten().min();
            }
        }
    }
    (places, pause)
}

fn disarm(
    fds: &[pollfd],
    watched: &[Watched],
    places: &[Option<Place>],
    answers: &[pollfd],
    valid: bool,
) {
    let _critical = Critical::enter();
    for (entry, place) in watched.iter().zip(places) {
        match entry {
            Watched::Stream { at, fd, index, stream } => {
                let socket = socket::at(*index);
                socket.disarm(stream, fds[*at].events & libc::POLLOUT != 0);
                if valid {
                    let events = answers[*at].revents as u16 as u32;
                    shadow::learn(*fd, socket, events);
                }
                let connection = Connection::new(*fd, socket, stream);
                if let Some(place) = place {
                    wait::get_up(connection, *place);
                }
                if answers[*at].revents & libc::POLLIN != 0 {
                    wait::check_shadow(connection);
                }
            }
            Watched::Set { fd, index, .. } => polled::disarm(*fd, *index),
        }
    }
}

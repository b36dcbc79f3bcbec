//! poll(2) over direct and native descriptors mixed.

mod beside;
mod sleep;

use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};
use libc::pollfd;

use crate::net::socket::{self, Connection, Socket, Stage, Stream};
use crate::net::watch::polled;
use crate::net::{accept, demote, early, ready, returned, shadow, shared};
use crate::table::{self, DescriptorKind};
use crate::thread::{Critical, Interrupts};
use crate::{flush, waiting, Answer};

/// A polled descriptor that the kernel alone cannot answer for.
enum Watched {
    Stream { at: usize, fd: i32, index: u32, stream: Stream },
    Set { at: usize, fd: i32, index: u32 },
}

/// What of a call's descriptors is not the kernel's, or may cease to be.
struct Polled {
    watched: Vec<Watched>,
    /// Connections of which nobody knows yet what they become: places in their table.
    undecided: Vec<u32>,
}

impl Polled {
    fn is_empty(&self) -> bool {
        self.watched.is_empty() && self.undecided.is_empty()
    }
}

pub(super) use beside::sleep as sleep_beside;
pub use beside::{outlast, outlast_read};

/// poll(2) and ppoll(2); `None` when no direct stream is among the descriptors. While something is not
/// flushed it is published when that has ended, and the wait goes on.
pub fn poll(fds: &mut [pollfd], timeout_ns: Option<u64>, mask: Option<u64>) -> Answer {
    if !flush::is_busy() {
        return poll_alone(fds, timeout_ns, mask);
    }
    let ends = timeout_ns.map(|ns| clock::monotonic_ns().saturating_add(ns));
    outlast(fds, ends).or_else(|| {
        let left = ends.map(|ends| ends.saturating_sub(clock::monotonic_ns()));
        poll_alone(fds, left, mask)
    })
}

/// As `poll`, and knows nothing of flushes.
pub(super) fn poll_alone(fds: &mut [pollfd], timeout_ns: Option<u64>, mask: Option<u64>) -> Answer {
    if fds.iter().all(|entry| table::is_unknown(entry.fd)) {
        return None;
    }
    shared::polled(fds.iter().map(|entry| entry.fd));
    let mut polled = polled_in(fds);
    if polled.is_empty() {
        return None;
    }
    // Negative descriptors are looked at by nobody below, and never ready.
    fds.iter_mut().for_each(|entry| entry.revents = 0);
    let has_native = polled.watched.len() < fds.iter().filter(|entry| entry.fd >= 0).count();
    let interrupts = Interrupts::now();
    let ends = timeout_ns.map(|ns| clock::monotonic_ns().saturating_add(ns));
    let mut turn = 0u32;
    loop {
        let mut look = || {
            turn = turn.wrapping_add(1);
            let direct = look(fds, &polled.watched);
            if direct > 0 && !has_native {
                return Ok(direct);
            }
            // The native ones are asked for when there is an answer, and every ninth turn.
            if direct > 0 || timeout_ns == Some(0) || turn % 9 == 1 {
                return ask(fds, &polled.watched, direct);
            }
            Ok(0)
        };
        let mut answer = look();
        if timeout_ns == Some(0) || answer != Ok(0) {
            return Some(answer);
        }
        let is_over = || ends.is_some_and(|ends| clock::monotonic_ns() >= ends);
        let is_ready = mask.is_none()
            && !polled.watched.is_empty()
            && waiting::look_for_poll(
                || {
                    answer = look();
                    answer != Ok(0)
                },
                || interrupts.any_since() || is_over(),
            );
        if is_ready {
            return Some(answer);
        }
        if interrupts.any_since() {
            return Some(Err(Errno(libc::EINTR)));
        }
        match sleep::sleep(fds, &polled, ends, mask) {
            Ok(0) if !is_over() => polled = polled_in(fds),
            answer => return Some(answer),
        }
        if polled.is_empty() {
            let left = ends.map(|ends| ends.saturating_sub(clock::monotonic_ns()));
            return Some(call::ppoll(fds, left, mask));
        }
    }
}

fn polled_in(fds: &[pollfd]) -> Polled {
    let _critical = Critical::enter();
    let mut found = Polled { watched: Vec::new(), undecided: Vec::new() };
    for (at, entry) in fds.iter().enumerate().filter(|(_, entry)| entry.fd >= 0) {
        let fd = entry.fd;
        match table::kind(fd) {
            DescriptorKind::Socket(index) => {
                accept::decide(fd, index, None);
                match socket::at(index).stream() {
                    Some(stream) => {
                        found.watched.push(Watched::Stream { at, fd, index, stream });
                    }
                    None if socket::at(index).stage() == Stage::Undecided => {
                        found.undecided.push(index);
                    }
                    None => {}
                }
            }
            DescriptorKind::Epoll(index) => {
                polled::calm(fd, index);
                found.watched.push(Watched::Set { at, fd, index });
            }
            _ => {}
        }
    }
    found
}

/// Fills `revents` of the watched descriptors from memory; the count of ready ones.
fn look(fds: &mut [pollfd], watched: &[Watched]) -> usize {
    let _critical = Critical::enter();
    let mut found = 0;
    for entry in watched {
        let (at, now) = match entry {
            Watched::Stream { at, fd, index, stream } => {
                (*at, stream_events(*fd, *index, stream, fds[*at].events))
            }
            Watched::Set { at, index, .. } => {
                (*at, if polled::is_ready(*index) { ready::IN | ready::RDNORM } else { 0 })
            }
        };
        let wanted = fds[at].events as u16 as u32 | ready::ERR | ready::HUP;
        fds[at].revents = (now & wanted) as u16 as i16;
        found += usize::from(fds[at].revents != 0);
    }
    found
}

fn stream_events(fd: i32, index: u32, stream: &Stream, wanted: i16) -> u32 {
    let socket = socket::at(index);
    if socket.is_native() {
        // Another thread has taken it back to the kernel since this call began.
        return call::events_now(fd, wanted) as u16 as u32;
    }
    if returned::is_reading(socket) {
        let (now, is_read) = returned::events(fd, stream, wanted as u16 as u32);
        if !is_read {
            return now;
        }
        demote::follow(fd, index);
        return call::events_now(fd, wanted) as u16 as u32;
    }
    shadow::doubt(fd, socket, stream);
    let is_early = socket.is_early();
    if waits_for_kernel(socket, wanted) {
        return call::events_now(fd, wanted) as u16 as u32;
    }
    let (mut now, has_switched) = match is_early {
        false => ready::incoming(socket, stream),
        true => early::incoming(Connection::new(fd, socket, stream), true),
    };
    if has_switched {
        demote::follow(fd, index);
        // What is native now the kernel answers for.
        let events = if socket.is_native() { call::events_now(fd, wanted) } else { 0 };
        return events as u16 as u32;
    }
    if wanted as u32 & (ready::OUT | ready::WRNORM) != 0 {
        now |= match is_early {
            false => ready::outgoing(socket, stream),
            true => early::outgoing(Connection::new(fd, socket, stream)),
        };
    }
    now
}

/// Who does not wait for bytes while all is the kernel's is told by the kernel, and not given the ring's
/// room beside its own.
fn waits_for_kernel(socket: &Socket, wanted: i16) -> bool {
    early::sends_on_shadow(socket) && wanted & (libc::POLLIN | libc::POLLRDNORM) == 0
}

/// Asks the kernel for the others without waiting; keeps what memory said.
fn ask(fds: &mut [pollfd], watched: &[Watched], direct: usize) -> Result<usize, Errno> {
    let mut copy = fds.to_vec();
    for entry in watched {
        if let Watched::Stream { at, .. } = entry {
            (copy[*at].events, copy[*at].fd) = (0, -1);
        }
    }
    let native = call::ppoll(&mut copy, Some(0), None)?;
    let mut both = 0;
    for (at, entry) in copy.iter().enumerate().filter(|(_, entry)| entry.fd >= 0) {
        both += usize::from(entry.revents != 0 && is_watched(watched, at) && fds[at].revents != 0);
        fds[at].revents |= entry.revents;
        if !is_watched(watched, at) {
            fds[at].revents = entry.revents;
        }
    }
    Ok(direct + native - both)
}

fn is_watched(watched: &[Watched], place: usize) -> bool {
    watched.iter().any(|entry| match entry {
        Watched::Stream { at, .. } | Watched::Set { at, .. } => *at == place,
    })
}

//! poll(2) over direct and native descriptors mixed.

use std::sync::atomic::Ordering::Acquire;

use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};
use libc::pollfd;

use crate::net::socket::{self, Socket, Stream};
use crate::net::watch::polled;
use crate::net::{accept, demote, early, ready, shadow, wait};
use crate::table::{self, Kind};
use crate::thread::{Critical, Interrupts};
use crate::{waiting, Answer};

/// A polled descriptor that the kernel alone cannot answer for.
enum Watched {
    Stream { at: usize, fd: i32, index: u32, stream: Stream },
    Set { at: usize, fd: i32, index: u32 },
}

/// poll(2) and ppoll(2); `None` when no direct stream is among the descriptors.
pub fn poll(fds: &mut [pollfd], timeout_ns: Option<u64>, mask: Option<u64>) -> Answer {
    if fds.iter().all(|entry| table::is_unknown(entry.fd)) {
        return None;
    }
    let mut watched = watched_in(fds);
    if watched.is_empty() {
        return None;
    }
    // Negative descriptors are looked at by nobody below, and never ready.
    fds.iter_mut().for_each(|entry| entry.revents = 0);
    let has_native = watched.len() < fds.iter().filter(|entry| entry.fd >= 0).count();
    let interrupts = Interrupts::now();
    let ends = timeout_ns.map(|ns| clock::monotonic_ns().saturating_add(ns));
    let mut turn = 0u32;
    loop {
        let mut look = || {
            turn = turn.wrapping_add(1);
            let direct = look(fds, &watched);
            if direct > 0 && !has_native {
                return Ok(direct);
            }
            // The native ones are asked for when there is an answer, and every ninth turn.
            if direct > 0 || timeout_ns == Some(0) || turn % 9 == 1 {
                return ask(fds, &watched, direct);
            }
            Ok(0)
        };
        let mut answer = look();
        if timeout_ns == Some(0) || answer != Ok(0) {
            return Some(answer);
        }
        let is_over = || ends.is_some_and(|ends| clock::monotonic_ns() >= ends);
        let is_ready = mask.is_none()
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
        match sleep(fds, &watched, ends, mask) {
            Ok(0) if !is_over() => watched = watched_in(fds),
            answer => return Some(answer),
        }
        if watched.is_empty() {
            let left = ends.map(|ends| ends.saturating_sub(clock::monotonic_ns()));
            return Some(call::ppoll(fds, left, mask));
        }
    }
}

fn watched_in(fds: &[pollfd]) -> Vec<Watched> {
    let _critical = Critical::enter();
    let kind_of = |(at, entry): (usize, &pollfd)| match table::kind(entry.fd) {
        Kind::Socket(index) => {
            accept::decide(entry.fd, index, None);
            let stream = socket::at(index).stream()?;
            Some(Watched::Stream { at, fd: entry.fd, index, stream })
        }
        Kind::Epoll(index) => {
            polled::calm(entry.fd, index);
            Some(Watched::Set { at, fd: entry.fd, index })
        }
        _ => None,
    };
    fds.iter().enumerate().filter(|(_, entry)| entry.fd >= 0).filter_map(kind_of).collect()
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
    shadow::doubt(fd, socket, stream);
    let is_early = socket.is_early();
    if waits_for_kernel(socket, wanted) {
        return call::events_now(fd, wanted) as u16 as u32;
    }
    let (mut now, has_switched) = match is_early {
        false => ready::incoming(socket, stream),
        true => early::incoming(fd, socket, stream, true),
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
            true => early::outgoing(fd, socket, stream),
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

/// Sleeps in the kernel's ppoll with the shadows in place of the streams; 0 means look again.
fn sleep(
    fds: &mut [pollfd],
    watched: &[Watched],
    ends: Option<u64>,
    mask: Option<u64>,
) -> Result<usize, Errno> {
    arm(watched, fds);
    let found = look(fds, watched);
    let mut copy = fds.to_vec();
    let mut left = ends.map(|ends| ends.saturating_sub(clock::monotonic_ns()));
    for entry in watched {
        if let Watched::Stream { at, fd, index, stream } = entry {
            let pause;
            let socket = socket::at(*index);
            (copy[*at].events, pause) = sleep_events(*fd, socket, stream, fds[*at].events);
            // What the writer holds back is there when its time has come.
            let held = if socket.is_early() { None } else { stream.incoming.held_for() };
            let pause = [pause, held].into_iter().flatten().min();
            let limit = pause.unwrap_or(u64::MAX);
            left = left.map(|left| left.min(limit)).or(pause);
            if socket.shadow_ended.load(Acquire) {
                // It would say so again and again, to a program that does not ask for it.
                copy[*at].fd = -1;
            }
        }
    }
    let answer = match found {
        0 => {
            waiting::sleeps();
            let answer = call::ppoll(&mut copy, left, mask);
            waiting::woke_in_poll();
            answer
        }
        _ => Ok(0),
    };
    disarm(fds, watched, &copy, answer.is_ok());
    answer?;
    for (at, entry) in copy.iter().enumerate().filter(|(at, _)| !is_watched(watched, *at)) {
        fds[at].revents = if found == 0 { entry.revents } else { 0 };
    }
    look(fds, watched);
    Ok(fds.iter().filter(|entry| entry.fd >= 0 && entry.revents != 0).count())
}

/// What is slept for on a stream's shadow, and for how long at most.
fn sleep_events(fd: i32, socket: &Socket, stream: &Stream, wanted: i16) -> (i16, Option<u64>) {
    let usual = libc::POLLIN | libc::POLLRDHUP;
    if !socket.is_early() {
        return (usual, None);
    }
    if early::sends_on_shadow(socket) {
        return (wanted, None);
    }
    if wanted & libc::POLLOUT == 0 {
        // Payload that nobody asks for would end every sleep at once.
        let is_unasked = wanted & libc::POLLIN == 0 && early::has_payload(fd, socket, stream);
        return match is_unasked {
            true => (libc::POLLRDHUP, Some(early::BELL_PAUSE_NS)),
            false => (usual, None),
        };
    }
    match early::room_events(fd, socket, stream) {
        (events, None) => (usual | events, None),
        pausing => pausing,
    }
}

fn arm(watched: &[Watched], fds: &[pollfd]) {
    let _critical = Critical::enter();
    for entry in watched {
        match entry {
            Watched::Stream { at, fd, index, stream } => {
                socket::at(*index).arm(stream, fds[*at].events & libc::POLLOUT != 0);
                shadow::drain(*fd, socket::at(*index), &stream.incoming);
            }
            Watched::Set { fd, index, .. } => polled::arm(*fd, *index),
        }
    }
}

fn disarm(fds: &[pollfd], watched: &[Watched], answers: &[pollfd], valid: bool) {
    let _critical = Critical::enter();
    for entry in watched {
        match entry {
            Watched::Stream { at, fd, index, stream } => {
                let for_room = fds[*at].events & libc::POLLOUT != 0;
                socket::at(*index).disarm(stream, for_room);
                if valid {
                    let events = answers[*at].revents as u16 as u32;
                    shadow::learn(*fd, socket::at(*index), events);
                }
                if answers[*at].revents & libc::POLLIN != 0 {
                    shadow::drain(*fd, socket::at(*index), &stream.incoming);
                    wait::check_shadow(*fd, socket::at(*index), stream);
                }
            }
            Watched::Set { fd, index, .. } => polled::disarm(*fd, *index),
        }
    }
}

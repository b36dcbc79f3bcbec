//! poll(2) over direct and native descriptors mixed.

use heliostat_base::sys::Errno;
use heliostat_base::{call, clock};
use libc::pollfd;

use super::{epoll, ready};
use crate::net::socket::{self, Stream};
use crate::net::{connect, demote, shadow, wait};
use crate::table::{self, Kind};
use crate::thread::{Critical, Interrupts};
use crate::Answer;
use heliostat_abi::code::Native;

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
            && wait::spin(
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
    let kind_of = |(at, entry): (usize, &pollfd)| match table::kind(entry.fd) {
        Kind::Socket(index) => {
            let stream = socket::at(index).stream()?;
            Some(Watched::Stream { at, fd: entry.fd, index, stream })
        }
        Kind::Epoll(index) => Some(Watched::Set { at, fd: entry.fd, index }),
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
                (*at, if epoll::is_ready(*index) { ready::IN | ready::RDNORM } else { 0 })
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
    let (mut now, has_switched) = ready::incoming(socket, stream);
    if has_switched {
        demote::leave(fd, index, Native::PeerAsked);
        return 0;
    }
    if wanted as u32 & (ready::OUT | ready::WRNORM) != 0 {
        now |= ready::outgoing(socket, stream);
    }
    now
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
        if let Watched::Stream { at, index, stream, .. } = entry {
            copy[*at].events = libc::POLLIN | libc::POLLRDHUP;
            if socket::at(*index).unclaimed.load(std::sync::atomic::Ordering::Relaxed) {
                let offer = connect::offer_left_ns(socket::at(*index), stream).unwrap_or(1);
                left = Some(left.map_or(offer, |left| left.min(offer)));
            }
        }
    }
    let answer = match found {
        0 => call::ppoll(&mut copy, left, mask),
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

fn arm(watched: &[Watched], fds: &[pollfd]) {
    for entry in watched {
        match entry {
            Watched::Stream { at, fd, index, stream } => {
                socket::at(*index).arm(stream, fds[*at].events & libc::POLLOUT != 0);
                shadow::drain(*fd, socket::at(*index), &stream.incoming);
            }
            Watched::Set { fd, index, .. } => epoll::arm(*fd, *index),
        }
    }
}

fn disarm(fds: &[pollfd], watched: &[Watched], answers: &[pollfd], valid: bool) {
    for entry in watched {
        match entry {
            Watched::Stream { at, fd, index, stream } => {
                let for_room = fds[*at].events & libc::POLLOUT != 0;
                socket::at(*index).disarm(stream, for_room);
                if valid {
                    let events = answers[*at].revents as u16 as u32;
                    shadow::learn(*fd, socket::at(*index), events);
                }
                connect::give_up_late_offer(*fd, *index, stream);
                if answers[*at].revents & libc::POLLIN != 0 {
                    shadow::drain(*fd, socket::at(*index), &stream.incoming);
                    wait::check_shadow(*fd, socket::at(*index), stream);
                }
            }
            Watched::Set { fd, index, .. } => epoll::disarm(*fd, *index),
        }
    }
}

//! A user's own rule: a process that is asked about each connection, by records with a deadline.
//!
//! ```text
//! question   0 "HPLQ"  4 version u32  8 serial u64  16 peer (20 bytes)  36 bytes u32  40 workers u32
//!           44 0 u32  48 workers times: place u32, load u32    then the first bytes of the connection
//! answer     0 "HPLA"  4 place u32    8 serial u64
//! ```
//! The plug-in is a foreign program: what it answers is checked, answers that come late are not looked
//! at, and one that sends what is none too often is not asked any more.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use heliostat_abi::listener::Handed;
use heliostat_backend_socket::along::{self, Received};
use heliostat_base::sys;
use heliostat_service_listener::Seat;
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::closing::{Foreign, Owner};

/// A question begins with it.
pub const QUESTION: u32 = u32::from_le_bytes(*b"HPLQ");
/// An answer begins with it.
pub const ANSWER: u32 = u32::from_le_bytes(*b"HPLA");
/// The version of the records.
pub const VERSION: u32 = 1;
/// Bytes of a question before the workers.
pub const QUESTION_HEAD_BYTES: usize = 48;
/// Bytes of an answer.
pub const ANSWER_BYTES: usize = 16;
/// A plug-in that has sent so many records that are none is asked no more.
const GARBAGE_MAX: u64 = 16;

/// What it says of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named {
    /// Which connection.
    pub serial: u64,
    /// Which worker, by its place.
    pub place: u32,
}

/// What its socket has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// A word on a connection.
    Named(Named),
    /// Something else.
    Garbage,
    /// Nothing now.
    Nothing,
    /// It is gone, or to be treated so.
    Gone,
}

/// The thread's end of a plug-in.
pub struct Plugin {
    socket: Foreign,
    /// Its poll token.
    pub token: u64,
    garbage: u64,
}

impl Plugin {
    /// One that is asked by a socket of messages.
    pub fn new(socket: Foreign, token: u64) -> Plugin {
        Plugin { socket, token, garbage: 0 }
    }

    /// Asks; it never waits.
    pub fn ask(&self, handed: &Handed, seats: &[Seat], bytes: &[u8]) -> Result<(), Errno> {
        let question = question(handed, seats, bytes);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::send(&self.socket, &question, flags).map(|_| ())
    }

    /// What it has said. With a message that has descriptors in it, or more than there is room for, it
    /// is gone: the message stays where it is, and is closed with the socket.
    pub fn hear(&mut self, owner: &Owner) -> Heard {
        let mut room = [0; ANSWER_BYTES + 1];
        let socket = self.socket.as_fd().as_raw_fd();
        // Descriptors that come along the owner's closer closes; without room for them the kernel would,
        // in this thread. So a look comes first.
        let mut look = |how: fn(RawFd, &mut [u8]) -> Result<Received, sys::Errno>| {
            let received = how(socket, &mut room)?;
            let is_more = received.is_cut || !received.fds.is_empty();
            received.fds.into_iter().for_each(|fd| drop(owner.own(fd.into())));
            Ok((received.count, is_more))
        };
        let taken = match look(along::peek) {
            Ok((_, false)) => look(along::receive),
            other => other,
        };
        let length = match taken {
            Ok((0, _) | (_, true)) => return Heard::Gone,
            Ok((length, false)) => length,
            Err(sys::Errno(libc::EAGAIN | libc::EINTR)) => return Heard::Nothing,
            Err(_) => return Heard::Gone,
        };
        answer(&room[..length]).map_or_else(|| self.says_nothing(), Heard::Named)
    }

    /// Its socket woke the thread, or had a message, and there was no word in it: so it may do a few times
    /// only, for what is not taken wakes again at once (SO_PEEK_OFF, which it may set, hides messages).
    pub fn says_nothing(&mut self) -> Heard {
        if self.garbage >= GARBAGE_MAX {
            return Heard::Gone;
        }
        self.garbage += 1;
        Heard::Garbage
    }
}

impl AsFd for Plugin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The record that asks about a connection.
pub fn question(handed: &Handed, seats: &[Seat], bytes: &[u8]) -> Vec<u8> {
    let (family, address) = handed.peer.to_parts();
    let mut record = Vec::with_capacity(QUESTION_HEAD_BYTES + seats.len() * 8 + bytes.len());
    let put = |record: &mut Vec<u8>, value: u32| record.extend(value.to_le_bytes());
    put(&mut record, QUESTION);
    put(&mut record, VERSION);
    record.extend(handed.serial.to_le_bytes());
    record.extend([family, 0]);
    record.extend(handed.peer.port.to_le_bytes());
    record.extend(address);
    put(&mut record, bytes.len() as u32);
    put(&mut record, seats.len() as u32);
    put(&mut record, 0);
    for seat in seats {
        put(&mut record, seat.place);
        put(&mut record, seat.load.value().min(u64::from(u32::MAX)) as u32);
    }
    record.extend(bytes);
    record
}

/// What an answer says; none for bytes that are no answer.
pub fn answer(bytes: &[u8]) -> Option<Named> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.len() != ANSWER_BYTES || word(0)? != ANSWER {
        return None;
    }
    let serial = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    Some(Named { serial, place: word(4)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::name::{NetAddress, ObjectId};

    #[test]
    fn a_question_has_its_parts_where_the_page_says() {
        let handed = Handed { peer: NetAddress::new("10.0.0.1:80".parse().unwrap()), serial: 7 };
        let seat = Seat::new(ObjectId { index: 1, generation: 1 }, 3);
        let record = question(&handed, &[seat], b"GET /");
        assert_eq!(record.len(), QUESTION_HEAD_BYTES + 8 + 5);
        assert_eq!((&record[..4], record[8], record[16]), (&b"HPLQ"[..], 7, 4));
        assert_eq!((&record[20..24], record[36], record[40]), (&[10, 0, 0, 1][..], 5, 1));
        assert_eq!((record[48], &record[56..]), (3, &b"GET /"[..]));
    }

    #[test]
    fn what_its_sockets_options_add_is_not_looked_at_and_descriptors_end_it() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let owner = crate::tests::owner();
        let mut plugin = Plugin::new(owner.own(near.try_clone().unwrap().into()), 1);
        rustix::net::send(&far, &[0; ANSWER_BYTES], SendFlags::empty()).unwrap();
        assert_eq!(plugin.hear(&owner), Heard::Garbage);
        let passes = 76; // SO_PASSPIDFD, of Linux 6.5 and later
        let near = near.as_raw_fd();
        if heliostat_base::call::set_option(near, libc::SOL_SOCKET, passes, 1).is_err() {
            return;
        }
        rustix::net::send(&far, &[0; ANSWER_BYTES], SendFlags::empty()).unwrap();
        assert_eq!(plugin.hear(&owner), Heard::Garbage);
        heliostat_base::packet::send(far.as_raw_fd(), &[0; ANSWER_BYTES], &[near]).unwrap();
        assert_eq!(plugin.hear(&owner), Heard::Gone);
    }

    #[test]
    fn one_that_wakes_again_and_again_without_a_word_is_gone() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut plugin = Plugin::new(crate::tests::owner().own(near.into()), 1);
        assert!((0..GARBAGE_MAX).all(|_| plugin.says_nothing() == Heard::Garbage));
        assert_eq!(plugin.says_nothing(), Heard::Gone);
    }

    #[test]
    fn only_an_answer_is_one() {
        let mut bytes = [0; ANSWER_BYTES];
        assert_eq!(answer(&bytes), None);
        bytes[..4].copy_from_slice(b"HPLA");
        (bytes[4], bytes[8]) = (2, 9);
        assert_eq!(answer(&bytes), Some(Named { serial: 9, place: 2 }));
        assert_eq!(answer(&bytes[..15]), None);
    }
}

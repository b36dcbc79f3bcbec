//! A channel whose connections a loop carries: its memory, its link, and what comes over that.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_abi::stream::channel::{self as layout, slot, SlotState};
use heliostat_abi::stream::delegated::{Hand, HAND_BYTES};
use heliostat_base::mapping::SharedMapping;
use heliostat_base::sync::Ordering::{AcqRel, Acquire};
use heliostat_base::sys::Errno;
use heliostat_base::{call, fd, packet};
use heliostat_ring::stream::Lane;
use heliostat_service_grant::Holder;

use crate::events::EventSet;
use crate::NewChannel;

/// Link messages looked at before others are served.
const HANDS_AT_ONCE: usize = 64;

/// A channel.
pub struct Channel {
    /// As the control plane names it.
    pub id: ObjectId,
    /// Whose it is.
    pub session: ObjectId,
    /// Whose share its connections count against.
    pub holder: Holder,
    memory: Arc<SharedMapping>,
    slots: u32,
    ring_bytes: u32,
    /// Nothing where its program has ended, or was told to leave (`unlink`).
    pub link: Option<OwnedFd>,
    /// Slots of connections that are carried.
    taken: u64,
    close: Box<dyn Fn(OwnedFd) + Send>,
}

/// A connection as it comes over a link.
pub struct Handed {
    /// Its slot.
    pub slot: u32,
    /// The socket to the remote peer.
    pub socket: fd::OwnedFd,
    /// The loop's end of the shadow.
    pub shadow: fd::OwnedFd,
}

/// What a link has brought.
pub enum Brought {
    /// These connections; a malformed one is none.
    Hands(Vec<Option<Handed>>),
    /// Its end.
    End,
}

impl Channel {
    /// The channel that the control plane has made.
    pub fn new(new: NewChannel) -> Self {
        let NewChannel { id, session, holder, memory, slots, ring_bytes, link, close } = new;
        let link = Some(link);
        Self { id, session, holder, memory, slots, ring_bytes, link, taken: 0, close }
    }

    /// Takes what the link has brought.
    pub fn bring(&mut self) -> Brought {
        let mut hands = Vec::new();
        let Some(link) = self.link.as_ref().map(AsRawFd::as_raw_fd) else { return Brought::End };
        for _ in 0..HANDS_AT_ONCE {
            let mut record = [0; HAND_BYTES];
            let (length, fds) = packet::receive_all(link, &mut record);
            let errno = match length {
                Ok(length) => {
                    hands.push(self.take(&record[..length], fds));
                    continue;
                }
                Err(errno) => errno,
            };
            // What is no record may have brought descriptors all the same.
            fds.into_iter().for_each(|fd| self.let_go(fd));
            match errno {
                Errno(libc::EAGAIN) => break,
                Errno(libc::EMSGSIZE) => hands.push(None),
                _ if hands.is_empty() => return Brought::End,
                _ => break, // told again
            }
        }
        Brought::Hands(hands)
    }

    /// A foreign message, checked; its descriptors are closed where it is not what it should be.
    fn take(&mut self, record: &[u8], fds: Vec<fd::OwnedFd>) -> Option<Handed> {
        let (hand, fds) = (Hand::decode(record), <[fd::OwnedFd; 2]>::try_from(fds));
        match (hand, fds) {
            (Ok(hand), Ok([socket, shadow])) => self.check(hand, socket, shadow),
            (_, Ok(fds)) => {
                fds.into_iter().for_each(|fd| self.let_go(fd));
                None
            }
            (_, Err(fds)) => {
                fds.into_iter().for_each(|fd| self.let_go(fd));
                None
            }
        }
    }

    /// Takes nothing more from the link. Descriptors may lie in it, whose close may wait for the program:
    /// until then the set would tell of it without end.
    pub fn unlink(&mut self, events: &EventSet) {
        if let Some(link) = self.link.take() {
            events.forget(&link);
            (self.close)(link);
        }
    }

    /// Closes what the session has shown: elsewhere, since that may take as long as the program likes.
    pub fn let_go(&self, fd: fd::OwnedFd) {
        (self.close)(fd.into());
    }

    fn check(&mut self, hand: Hand, socket: fd::OwnedFd, shadow: fd::OwnedFd) -> Option<Handed> {
        if !self.is_sound(hand, socket.as_raw_fd(), shadow.as_raw_fd()) {
            self.let_go(socket);
            self.let_go(shadow);
            return None;
        }
        self.taken |= 1 << hand.slot;
        Some(Handed { slot: hand.slot, socket, shadow })
    }

    fn is_sound(&self, hand: Hand, socket: i32, shadow: i32) -> bool {
        let is_free = hand.slot < self.slots && self.taken & 1 << hand.slot == 0;
        if !is_free || !is_tcp(socket) || !is_local(shadow) {
            return false;
        }
        let word = self.word(hand.slot, slot::STATE);
        let is_stream = SlotState::from_word(word) == Some(SlotState::Proven);
        is_stream && word >> 8 == hand.generation && takes_no_descriptors(shadow)
    }

    /// What goes to the program, and what comes from it: the session has the client's end.
    pub fn lanes(&self, slot: u32) -> Option<(Lane, Lane)> {
        let lane = |direction: usize| {
            let words = layout::slot_offset(slot) + slot::DIRECTION[direction];
            let data = layout::ring_offset(slot, direction, self.ring_bytes);
            Lane::new(&self.memory, words, data, self.ring_bytes).ok()
        };
        Some((lane(1)?, lane(0)?))
    }

    fn word(&self, slot: u32, offset: usize) -> u32 {
        let at = layout::slot_offset(slot) + offset;
        self.memory.atomic_u32(at).load(Acquire)
    }

    /// True once the program has closed its end for good.
    pub fn is_closed(&self, slot: u32) -> bool {
        self.word(slot, slot::CLOSED) & slot::CLOSED_CLIENT != 0
    }

    /// The loop touches the slot no more: `bit` of `closed`.
    pub fn free(&mut self, slot: u32, bit: u32) {
        let at = layout::slot_offset(slot) + slot::CLOSED;
        self.memory.atomic_u32(at).fetch_or(bit, AcqRel);
        self.taken &= !(1 << slot);
    }

    /// Whether a slot of it is carried.
    pub fn is_used(&self) -> bool {
        self.taken != 0
    }
}

/// A TCP socket: nothing else is received from or sent to without waiting in the same way.
fn is_tcp(fd: i32) -> bool {
    let is = |name, value| call::option(fd, libc::SOL_SOCKET, name) == Ok(value);
    is(libc::SO_PROTOCOL, libc::IPPROTO_TCP) && is(libc::SO_TYPE, libc::SOCK_STREAM)
}

/// Whether no descriptors lie in a local socket, or will: closing it would close them, and one of them
/// may be a socket that waits for its peer. Before Linux 6.16 only those that lie there are known.
fn takes_no_descriptors(fd: i32) -> bool {
    let _ = call::set_option(fd, libc::SOL_SOCKET, SO_PASSRIGHTS, 0);
    call::bytes_queued(fd) == Ok(0)
}

/// Whether descriptors may be received (source: asm-generic/socket.h).
const SO_PASSRIGHTS: i32 = 83;

/// A local stream socket, whose one byte is a bell.
fn is_local(fd: i32) -> bool {
    let is = |name, value| call::option(fd, libc::SOL_SOCKET, name) == Ok(value);
    is(libc::SO_DOMAIN, libc::AF_UNIX) && is(libc::SO_TYPE, libc::SOCK_STREAM)
}

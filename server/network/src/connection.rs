//! One carried connection: what a turn moves between its socket and its lanes.
//!
//! ```text
//! socket --> inward lane --> program          at its end: FIN; at an error: RESET
//! socket <-- outward lane <-- program         at FIN: the socket is half-closed
//! ```
//! A turn moves at most one ring in each direction. What stops a direction is noted: an empty
//! socket, a full one, a full ring. The kernel's next event, or the program's bell, starts it again.

use std::os::fd::AsRawFd;

use heliostat_abi::stream::channel::direction::{FIN, RESET};
use heliostat_base::call;
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::Errno;
use heliostat_ring::stream::{Corrupt, Lane, WriteCache};

use crate::channel::Handed;
use crate::counts::Counts;

/// Bell bytes taken off a shadow by one call.
const DRAIN_BYTES: usize = 64;
/// More bells than that are nonsense.
const BELLS_MAX: u32 = 1 << 24;

/// A connection.
pub struct Connection {
    /// Its channel, in the loop's table.
    pub channel: u32,
    /// Its slot there.
    pub slot: u32,
    /// Which use of its place this is.
    pub serial: u32,
    /// The socket to the remote peer.
    pub socket: OwnedFd,
    /// The loop's end of the shadow.
    pub shadow: OwnedFd,
    /// What goes to the program.
    pub inward: Lane,
    /// What comes from it.
    pub outward: Lane,
    cache: WriteCache,
    /// The socket may have bytes, or an end, or an error.
    pub is_readable: bool,
    /// The socket may take bytes.
    pub is_writable: bool,
    /// Nothing comes from the peer any more.
    has_ended: bool,
    /// The peer has been told that nothing follows.
    has_shut: bool,
    /// The program's end is closed: by its word, or by the kernel.
    pub is_gone: bool,
    /// The loop looks at its lanes without being asked.
    pub is_warm: bool,
    /// When a turn last moved something (monotonic ns).
    pub moved_at_ns: u64,
}

/// What a turn came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// So many bytes were moved, and there may be more.
    Moved(usize),
    /// Nothing to do.
    Idle,
    /// The program takes the connection back.
    WantedBack,
    /// Both directions are through, in order.
    Through,
    /// The connection has ended with an error, which both ends are told.
    Reset,
    /// The program broke the protocol.
    Corrupt,
}

impl From<Corrupt> for Turn {
    fn from(_: Corrupt) -> Self {
        Self::Corrupt
    }
}

impl Connection {
    /// The one that was handed over.
    pub fn new(channel: u32, handed: Handed, (inward, outward): (Lane, Lane), serial: u32) -> Self {
        let Handed { slot, socket, shadow } = handed;
        Self {
            channel,
            slot,
            serial,
            socket,
            shadow,
            inward,
            outward,
            cache: WriteCache::new(),
            is_readable: true,
            is_writable: true,
            has_ended: false,
            has_shut: false,
            is_gone: false,
            is_warm: false,
            moved_at_ns: 0,
        }
    }

    /// Moves what can be moved now.
    pub fn turn(&mut self, counts: &Counts) -> Turn {
        if self.inward.is_native_wanted() {
            return Turn::WantedBack;
        }
        match self.turn_both(counts) {
            Ok(turn) | Err(turn) => turn,
        }
    }

    fn turn_both(&mut self, counts: &Counts) -> Result<Turn, Turn> {
        let flags = self.outward.flags(); // before what is unread: no byte follows FIN
        if flags & RESET != 0 {
            return Ok(Turn::Reset);
        }
        let received = if self.is_gone { 0 } else { self.receive(counts)? };
        let sent = self.send(counts)?;
        let is_sent = self.outward.unread()? == 0;
        if is_sent && (flags & FIN != 0 || self.is_gone) {
            if self.is_gone || self.has_ended {
                return Ok(Turn::Through);
            }
            if !std::mem::replace(&mut self.has_shut, true) {
                let _ = call::shutdown(self.socket.as_raw_fd(), libc::SHUT_WR);
            }
        }
        match received + sent {
            0 => Ok(Turn::Idle),
            moved => Ok(Turn::Moved(moved)),
        }
    }

    fn receive(&mut self, counts: &Counts) -> Result<usize, Turn> {
        if !self.is_readable || self.has_ended {
            return Ok(0);
        }
        let room = self.inward.room()?;
        if room == 0 {
            return Ok(0);
        }
        match self.inward.receive_from(self.socket.as_raw_fd(), &mut self.cache)? {
            Ok(0) => {
                self.has_ended = true;
                self.inward.raise(FIN);
                self.wake_reader(counts);
                Ok(0)
            }
            Ok(bytes) => {
                Counts::add(&counts.received, bytes as u64);
                self.wake_reader(counts);
                Ok(bytes)
            }
            Err(Errno(libc::EAGAIN)) => {
                self.is_readable = false;
                Ok(0)
            }
            Err(Errno(libc::EINTR)) => Ok(0),
            Err(_) => Err(Turn::Reset),
        }
    }

    fn send(&mut self, counts: &Counts) -> Result<usize, Turn> {
        if !self.is_writable || self.has_shut || self.outward.unread()? == 0 {
            return Ok(0);
        }
        match self.outward.send_to(self.socket.as_raw_fd(), 0)? {
            Ok(done) => {
                if done.made_room && self.outward.take_sleeping_writer() {
                    self.ring(counts);
                }
                Counts::add(&counts.sent, done.bytes as u64);
                Ok(done.bytes)
            }
            Err(Errno(libc::EAGAIN)) => {
                self.is_writable = false;
                Ok(0)
            }
            Err(Errno(libc::EINTR)) => Ok(0),
            Err(_) => Err(Turn::Reset),
        }
    }

    /// The socket has an error, or both of its directions have ended: told after what it still has.
    pub fn is_broken(&self) -> bool {
        let socket = self.socket.as_raw_fd();
        // Asking takes the error away, which receiving would tell.
        let error = || call::option(socket, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
        self.has_ended && (error() != 0 || !self.has_shut)
    }

    /// Wakes the program if it sleeps for bytes.
    pub fn wake_reader(&self, counts: &Counts) {
        if self.inward.take_sleeping_reader() {
            self.ring(counts);
        }
    }

    /// One bell: counted before it is sent. Beside a full shadow the program is rung for next time.
    pub fn ring(&self, counts: &Counts) {
        self.inward.count_bell();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        if call::send(self.shadow.as_raw_fd(), &[0], flags).is_err() {
            self.inward.uncount_bell();
            return self.inward.reader_sleeps();
        }
        Counts::add(&counts.bells, 1);
    }

    /// Takes the program's bells off the shadow.
    pub fn drain(&self) {
        loop {
            let pending = self.outward.bells_pending();
            if pending == 0 || pending > BELLS_MAX {
                return;
            }
            let mut bytes = [0; DRAIN_BYTES];
            let wanted = DRAIN_BYTES.min(pending as usize);
            let shadow = self.shadow.as_raw_fd();
            match call::recv(shadow, &mut bytes[..wanted], libc::MSG_DONTWAIT) {
                Ok(0) => return, // told by the set as well
                Ok(count) => self.outward.bells_drained(count as u32),
                Err(_) => return,
            }
        }
    }

    /// Says that the program has to ring from now on; false when there is something to do already.
    pub fn lie_down(&mut self) -> bool {
        self.outward.reader_sleeps();
        let is_full = self.is_readable && !self.has_ended && self.inward.room() == Ok(0);
        if is_full {
            self.inward.writer_sleeps();
        }
        let has_room = is_full && self.inward.room() != Ok(0);
        let has_bytes = self.is_writable && self.outward.unread() != Ok(0);
        let has_flags = self.outward.flags() & RESET != 0 || self.inward.is_native_wanted();
        let has_news = has_room || has_bytes || has_flags || self.is_half_done();
        if has_news {
            self.rise();
        }
        !has_news
    }

    /// A FIN of the program that the socket has not been told.
    fn is_half_done(&self) -> bool {
        !self.has_shut && self.outward.flags() & FIN != 0 && self.outward.unread() == Ok(0)
    }

    /// The loop looks by itself again.
    pub fn rise(&mut self) {
        self.outward.reader_awake();
        self.inward.writer_awake();
    }
}

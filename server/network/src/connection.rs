//! One carried connection: what a turn moves between its socket and its lanes.
//!
//! ```text
//! socket --> inward lane --> program          at its end: FIN; at an error: RESET
//! socket <-- outward lane <-- program         at FIN: the socket is half-closed
//! ```
//! A turn moves at most one ring in each direction, and is told to the program (`ring::stream::turns`), which
//! may take its socket back between two. What stops a direction is noted: an empty
//! socket, a full one, a full ring. The kernel's next event, or the program's bell, starts it again.

use std::os::fd::AsRawFd;

use heliostat_abi::stream::channel::direction::{FIN, RESET};
use heliostat_backend_socket::along::{self, Received};
use heliostat_backend_tcp::{Direction, Transfer};
use heliostat_base::call;
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::Errno;
use heliostat_ring::stream::{Corrupt, Lane, WriteCache};

use crate::channel::Handed;
use crate::counts::Counts;

/// Bell bytes taken off a shadow by one call.
const DRAIN_BYTES: usize = 64;
/// Calls for one event: who rings without end is drained on at the next.
const DRAINS: usize = 8;
/// So long at most a peer is waited for that takes nothing of what a program has left.
const LINGER_NS: u64 = 120_000_000_000;
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
    /// The kernel has told an end or an error, which is met behind the last byte.
    pub ends_soon: bool,
    /// Bytes that the receive under way has room for.
    room: usize,
    /// Nothing comes from the peer any more.
    has_ended: bool,
    /// The peer has been told that nothing follows.
    has_shut: bool,
    /// The socket takes nothing any more: what came before that is received once more, then it ends.
    has_failed: bool,
    /// The program's end is closed: by its word, or by the kernel.
    pub is_gone: bool,
    /// Within a turn, its program does not take the socket back.
    has_turn: bool,
    /// The loop looks at its lanes without being asked.
    pub is_warm: bool,
    /// When a turn last moved something (monotonic ns).
    pub moved_at_ns: u64,
    /// When its program was found gone, or its peer last took something after that.
    pub waits_since_ns: u64,
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

/// What a turn is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plan {
    /// To move bytes in these directions.
    Moves {
        /// From the socket into the lane.
        receives: bool,
        /// From the lane to the socket.
        sends: bool,
    },
    /// Nothing can be moved.
    Nothing,
    /// The connection ends.
    Ends(Turn),
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
            // The set tells at once what is there, and whether that is urgent.
            is_readable: false,
            is_writable: true,
            ends_soon: false,
            room: 0,
            has_ended: false,
            has_shut: false,
            has_failed: false,
            is_gone: false,
            has_turn: false,
            is_warm: false,
            moved_at_ns: 0,
            waits_since_ns: 0,
        }
    }

    /// Whether its program is gone, and its peer has taken nothing for so long. What the peer sends is
    /// nothing to that.
    pub fn is_given_up(&self, now_ns: u64) -> bool {
        self.is_gone && now_ns.saturating_sub(self.waits_since_ns) > LINGER_NS
    }

    /// What its next turn moves, or why it has none.
    pub fn plan(&mut self) -> Plan {
        if self.inward.is_native_wanted() {
            return Plan::Ends(Turn::WantedBack);
        }
        match self.plan_both() {
            Ok(plan) => plan,
            Err(Corrupt { .. }) => Plan::Ends(Turn::Corrupt),
        }
    }

    fn plan_both(&mut self) -> Result<Plan, Corrupt> {
        let flags = self.outward.flags(); // before what is unread: no byte follows FIN
        if flags & RESET != 0 {
            return self.plan_last();
        }
        let takes_more = !self.has_ended && !self.is_gone;
        if self.has_failed && takes_more && self.inward.room()? > 0 {
            return Ok(Plan::Moves { receives: true, sends: false });
        }
        if self.has_failed {
            return Ok(Plan::Ends(Turn::Reset));
        }
        let receives = self.takes_more() && self.inward.room()? > 0;
        let is_sent = self.outward.unread()? == 0;
        if self.has_shut && !is_sent {
            return Ok(Plan::Ends(Turn::Corrupt)); // bytes behind its FIN
        }
        if is_sent && (flags & FIN != 0 || self.is_gone) {
            if self.is_gone || self.has_ended {
                return Ok(Plan::Ends(Turn::Through));
            }
            if !self.has_shut && !self.shut() {
                return Ok(Plan::Ends(Turn::WantedBack));
            }
        }
        let sends = self.is_writable && !self.has_shut && !is_sent;
        Ok(match receives || sends {
            true => Plan::Moves { receives, sends },
            false => Plan::Nothing,
        })
    }

    /// The program resets. What it wrote goes to the socket first, and is lost there as it would have been.
    fn plan_last(&self) -> Result<Plan, Corrupt> {
        let takes_more = self.is_writable && !self.has_shut && !self.has_failed;
        match takes_more && self.outward.unread()? > 0 {
            true => Ok(Plan::Moves { receives: false, sends: true }),
            false => Ok(Plan::Ends(Turn::Reset)),
        }
    }

    /// Tells the peer that nothing follows; false once the socket is the program's again.
    fn shut(&mut self) -> bool {
        self.has_shut = self.in_turn(|socket| _ = call::shutdown(socket, libc::SHUT_WR)).is_some();
        self.has_shut
    }

    /// Does something with the socket, unless it is the program's again.
    fn in_turn<T>(&mut self, work: impl FnOnce(i32) -> T) -> Option<T> {
        self.begin_turn().then(|| {
            let done = work(self.socket.as_raw_fd());
            self.end_turn();
            done
        })
    }

    /// Before the socket is touched: false once it is the program's again.
    pub fn begin_turn(&mut self) -> bool {
        self.has_turn = self.has_turn || self.outward.begin_turn();
        self.has_turn
    }

    /// All that was moved stands in the lanes.
    pub fn end_turn(&mut self) {
        if std::mem::take(&mut self.has_turn) {
            self.outward.end_turn();
        }
    }

    /// The transfer that a plan asks for.
    ///
    /// # Errors
    /// The program's positions contradict the ring's size.
    pub fn transfer(&mut self, direction: Direction) -> Result<Transfer, Corrupt> {
        let pieces = match direction {
            Direction::Receive => {
                let pieces = self.inward.free_pieces(self.inward.capacity(), &mut self.cache)?;
                self.room = pieces.bytes();
                pieces
            }
            Direction::Send => self.outward.unread_pieces(0, self.outward.capacity())?,
        };
        Ok(Transfer { socket: self.socket.as_raw_fd(), pieces, direction })
    }

    /// Notes what a transfer came to; bytes moved.
    pub fn moved(
        &mut self,
        direction: Direction,
        answer: Result<usize, Errno>,
        counts: &Counts,
    ) -> Turn {
        match (direction, answer) {
            (Direction::Receive, Ok(0) | Err(Errno(libc::EAGAIN))) if self.has_failed => {
                Turn::Reset
            }
            (Direction::Receive, Ok(0)) => {
                self.has_ended = true;
                self.inward.raise(FIN);
                self.wake_reader(counts);
                Turn::Moved(0)
            }
            (Direction::Receive, Ok(bytes)) => {
                self.inward.publish_pieces(bytes);
                // It was all, or the kernel has stopped at urgent data: the set tells what follows.
                self.is_readable = bytes == self.room || self.ends_soon;
                Counts::add(&counts.received, bytes as u64);
                self.wake_reader(counts);
                match self.has_failed {
                    true => Turn::Reset,
                    false => Turn::Moved(bytes),
                }
            }
            (Direction::Send, Ok(bytes)) => {
                let done = self.outward.consume(bytes);
                if done.made_room && self.outward.take_sleeping_writer() {
                    self.ring(counts);
                }
                Counts::add(&counts.sent, bytes as u64);
                Turn::Moved(bytes)
            }
            (_, Err(Errno(libc::EINTR))) => Turn::Idle,
            (Direction::Receive, Err(Errno(libc::EAGAIN))) => {
                self.is_readable = false;
                Turn::Idle
            }
            (Direction::Send, Err(Errno(libc::EAGAIN))) => {
                self.is_writable = false;
                Turn::Idle
            }
            // A peer that resets has often said why, just before.
            (Direction::Send, Err(_)) if !self.has_failed => {
                self.has_failed = true;
                Turn::Idle
            }
            (_, Err(_)) => Turn::Reset,
        }
    }

    /// The socket has an error, or both of its directions have ended: told after what it still has.
    pub fn is_broken(&mut self) -> bool {
        // Asking takes the error away, which receiving would tell.
        let error = |socket| call::option(socket, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
        self.has_ended && self.in_turn(error).is_some_and(|error| error != 0 || !self.has_shut)
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

    /// Takes the program's bells off the shadow; the descriptors that lay among them, of a program that
    /// broke the protocol.
    pub fn drain(&self) -> Vec<OwnedFd> {
        for _ in 0..DRAINS {
            let pending = self.outward.bells_pending();
            if pending == 0 || pending > BELLS_MAX {
                break;
            }
            let mut bytes = [0; DRAIN_BYTES];
            let wanted = DRAIN_BYTES.min(pending as usize);
            match along::receive(self.shadow.as_raw_fd(), &mut bytes[..wanted]) {
                Ok(received) if !received.fds.is_empty() => return received.fds,
                Ok(Received { count: 0, .. }) | Err(_) => break, // its end is told by the set as well
                Ok(Received { count, .. }) => self.outward.bells_drained(count as u32),
            }
        }
        Vec::new()
    }

    /// The socket may have something that is still received.
    fn takes_more(&self) -> bool {
        self.is_readable && !self.has_ended && !self.is_gone
    }

    /// Says that the program has to ring from now on; false when there is something to do already.
    pub fn lie_down(&mut self) -> bool {
        self.outward.reader_sleeps();
        let takes_more = self.takes_more();
        if takes_more && self.inward.room() == Ok(0) {
            self.inward.writer_sleeps();
        }
        // Also where its session had had enough in this round: the kernel tells of what is there once.
        let has_room = takes_more && self.inward.room() != Ok(0);
        let has_bytes = self.is_writable && self.outward.unread() != Ok(0);
        let has_flags = self.outward.flags() & RESET != 0 || self.inward.is_native_wanted();
        let has_news = self.has_failed || has_room || has_bytes || has_flags || self.is_half_done();
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use heliostat_base::fd::duplicate;
    use heliostat_base::mapping::SharedMapping;

    use super::*;

    fn connection() -> Connection {
        let (near, far) = UnixStream::pair().unwrap();
        let [socket, shadow] = [&near, &far].map(|end| duplicate(end.as_raw_fd()).unwrap());
        let (_, memory) = SharedMapping::create(c"lanes", 16384).unwrap();
        let memory = Arc::new(memory);
        let lane = |at| Lane::new(&memory, at, at + 4096, 4096).unwrap();
        Connection::new(0, Handed { slot: 0, socket, shadow }, (lane(0), lane(8192)), 1)
    }

    #[test]
    fn a_peer_that_only_sends_does_not_keep_what_a_program_has_left() {
        let mut connection = connection();
        (connection.is_gone, connection.waits_since_ns) = (true, 5);
        connection.moved_at_ns = LINGER_NS; // an event of the peer's
        assert!(!connection.is_given_up(LINGER_NS));
        assert!(connection.is_given_up(LINGER_NS + 6));
    }
}

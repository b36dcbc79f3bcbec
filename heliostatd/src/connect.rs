//! How connections begin and end.
//!
//! ```text
//! accept --> rate, user, room --> visitor --Hello--> session --+--> hangup or death --> nothing
//!                 | no               | silent for 10 s         |
//!                 v                  v                         +--> too many faults
//!              Refused             closed
//! ```

use std::os::fd::{AsFd, OwnedFd};

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::node::State;
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_service_grant::Rate;
use rustix::io::Errno;
use rustix::net::{accept_with, sockopt, SocketFlags};
use tracing::{debug, warn};

use crate::daemon::Daemon;
use crate::packet;
use crate::peer::{user_of, Peer};
use crate::poll::Source;
use crate::refused::{full, full_of, Refused};
use crate::state::connection::{Connection, Pace};
use crate::state::restriction::Restriction;
use crate::state::unread::Backlog;

/// How long connections are accepted before others are served. They wait in the order in which they
/// came: who connects all the time is in everybody's way until that is told.
const ACCEPTING_NS: u64 = 5_000_000;
/// Bytes of answers that may wait in one connection, doubled by the kernel: about a dozen. A client
/// has one request under way, so more is a client that does not read; and every answer that
/// waits may hold a descriptor in flight, of which one user's processes have only so many.
const SEND_BUFFER_BYTES: usize = 8192;
/// How long a connection may stay without greeting or asking.
const VISITOR_DEADLINE_NS: u64 = 10_000_000_000;
/// A connection's: its socket and its process.
const DESCRIPTORS: u64 = 2;
/// How long the listener rests when descriptors have run out.
const PAUSE_NS: u64 = 100_000_000;

impl Daemon {
    /// Accepts what waits, for a slice of time.
    pub(crate) fn accept_some(&mut self) {
        let begin = monotonic_ns();
        while monotonic_ns().saturating_sub(begin) < ACCEPTING_NS {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(&self.parts.listener, flags) {
                Ok(socket) => self.welcome(socket),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => return self.pause_listening(errno),
            }
        }
    }

    /// Takes a connection in, or says why not and closes it.
    fn welcome(&mut self, socket: OwnedFd) {
        self.counts.connections += 1;
        // First what decides whether it stays: most of a storm does not.
        let uid = match user_of(socket.as_fd()) {
            Ok(uid) => uid,
            Err(error) => return debug!(%error, "a connection without a user is closed"),
        };
        let pace = match self.admit(uid) {
            Ok(pace) => pace,
            Err(refused) => return self.turn_away(socket, uid, refused),
        };
        match Peer::of(socket.as_fd()) {
            Ok(peer) => self.take_in(socket, peer, pace),
            // The other side has gone already, or the kernel is older than 5.14.
            Err(error) => debug!(%error, "a connection without identity is closed"),
        }
    }

    /// Says why a connection is not taken in, and closes it.
    fn turn_away(&mut self, socket: OwnedFd, uid: u32, refused: Refused) {
        let Refused { code, limit, bound } = refused;
        let holder = self.holder_of(uid);
        self.note_refused(holder.uid, refused);
        debug!(uid, limit, "a connection is refused");
        let reply = Reply::Refused { code, limit, bound };
        // It is closed in any case.
        let _ = packet::send(&socket, &reply.encode(0), &[]);
        self.closer.of(holder).close(socket);
    }

    fn admit(&mut self, uid: u32) -> Result<Pace, Refused> {
        // A user's daemon serves its user; root may look at it.
        if self.own_uid != 0 && uid != self.own_uid && uid != 0 {
            return Err(Code::Denied.into());
        }
        let holder = self.holder_of(uid);
        let pace = match self.connects.take(holder.uid, monotonic_ns()) {
            true => Pace::Within,
            // Root and the owner may look and end the control plane, whatever their programs do.
            false if holder.is_trusted => Pace::Beyond,
            false => return Err(self.too_fast(Side::User, self.parts.config.limits.connects)),
        };
        let connections = self.connections.quota().check(holder, 1);
        connections.map_err(|it| full(Thing::Connections, it))?;
        self.check_descriptors(holder, DESCRIPTORS)?;
        Ok(pace)
    }

    /// The refusal of a connection, or of what makes it a program's, that comes too soon.
    pub(crate) fn too_fast(&self, side: Side, rate: Rate) -> Refused {
        full_of(Thing::ConnectRate, side, rate.burst)
    }

    fn take_in(&mut self, socket: OwnedFd, peer: Peer, pace: Pace) {
        let holder = self.holder_of(peer.subject.uid);
        let asked_ns = monotonic_ns();
        // Where it fails the system's default holds, which is larger and also a limit.
        let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
        let connection = Connection {
            socket,
            peer,
            pace,
            session: None,
            faults: 0,
            restriction: Restriction::default(),
            asked_ns,
            served_ns: 0,
            sequence: 0,
            awaits: None,
            unread: Backlog::default(),
        };
        // `admit` has just found room.
        let Ok(id) = self.connections.insert(holder, connection) else { return };
        self.visitors += 1;
        if let Err(error) = self.watch(id) {
            warn!(%error, "a connection cannot be watched");
            self.end_connection(id, "it cannot be watched");
        }
    }

    fn watch(&self, id: ObjectId) -> std::io::Result<()> {
        let Some(connection) = self.connections.get(id) else { return Ok(()) };
        self.poll.watch(&connection.socket, Source::Connection(id))?;
        match &connection.peer.pidfd {
            Some(pidfd) => self.poll.watch(pidfd, Source::Process(id)),
            None => Ok(()),
        }
    }

    /// Ends a connection and everything that its session held.
    pub(crate) fn end_connection(&mut self, id: ObjectId, why: &str) {
        let Some(holder) = self.connections.holder(id) else { return };
        let Some(connection) = self.connections.remove(id) else { return };
        let pid = connection.peer.pid;
        self.unread.give_back(holder, connection.unread);
        if let Some(session) = connection.session {
            self.sessions.give_back(session.holder, 1);
            self.node.set_session(id, State::Free);
            let table = self.parts.table;
            table.iter().for_each(|service| service.end(self, id));
            self.counts.keep_stub_counters(&session.report);
            debug!(session = %id, pid, program = session.program, why, "a session has ended");
        } else {
            self.visitors -= 1;
        }
        // Messages that were never read may carry descriptors, which are closed with the socket.
        // The watches are ended first: that of the socket would last as long as the closer takes, that
        // of the process as long as an opener waits for a file system in its name.
        self.poll.ignore(&connection.socket);
        connection.peer.pidfd.iter().for_each(|process| self.poll.ignore(process));
        self.closer.of(holder).close(connection.socket);
        if self.connections.is_empty() {
            self.idle_since_ns = monotonic_ns();
        }
    }

    /// Ends connections that neither greeted nor asked anything for too long.
    pub(crate) fn end_silent_visitors(&mut self, now_ns: u64) {
        if self.visitor_deadline_ns().is_none_or(|deadline| now_ns < deadline) {
            return;
        }
        let is_late = |connection: &Connection| {
            connection.session.is_none()
                && now_ns.saturating_sub(connection.asked_ns) >= VISITOR_DEADLINE_NS
        };
        let late: Vec<_> = self.connections.iter().filter(|(_, it)| is_late(it)).collect();
        let late: Vec<_> = late.into_iter().map(|(id, _)| id).collect();
        late.into_iter().for_each(|id| self.end_connection(id, "it never greeted"));
    }

    /// When the first visitor has been silent for too long.
    pub(crate) fn visitor_deadline_ns(&self) -> Option<u64> {
        if self.visitors == 0 {
            return None;
        }
        let visitors = self.connections.iter().filter(|(_, it)| it.session.is_none());
        visitors.map(|(_, it)| it.asked_ns.saturating_add(VISITOR_DEADLINE_NS)).min()
    }

    /// Out of descriptors or memory: trying again at once would only burn the processor.
    fn pause_listening(&mut self, errno: Errno) {
        warn!(%errno, "cannot accept a connection; the listener rests");
        self.poll.ignore(&self.parts.listener);
        self.paused_until_ns = Some(monotonic_ns().saturating_add(PAUSE_NS));
    }

    /// Listens again.
    pub(crate) fn resume_listening(&mut self) {
        self.paused_until_ns = self
            .poll
            .watch(&self.parts.listener, Source::Listener)
            .err()
            .map(|_| monotonic_ns().saturating_add(PAUSE_NS));
    }
}

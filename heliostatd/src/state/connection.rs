//! A connection to the control socket, and the session that it became.

use std::os::fd::OwnedFd;

use heliostat_service_grant::Holder;

use crate::memory::Report;
use crate::peer::Peer;

use super::restriction::Restriction;
use super::unread::Backlog;

/// One connection to the control socket.
pub struct Connection {
    /// Its socket.
    pub socket: OwnedFd,
    /// Who is there.
    pub peer: Peer,
    /// Whether it came sooner than its user's connections may.
    pub pace: Pace,
    /// What it became by greeting.
    pub session: Option<Session>,
    /// Malformed requests so far.
    pub faults: u32,
    /// What it may not ask.
    pub restriction: Restriction,
    /// When it last asked something, while it has not greeted.
    pub asked_ns: u64,
    /// When its requests were last looked at.
    pub served_ns: u64,
    /// Number of the request that is being served, or was.
    pub sequence: u32,
    /// Number of a request that is answered later; nothing else is served meanwhile.
    pub awaits: Option<u32>,
    /// Answers that it has not read.
    pub unread: Backlog,
}

/// How a connection came, by its user's rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// No sooner than it may.
    Within,
    /// Too soon: it may ask, and not greet.
    Beyond,
}

/// What a greeting adds to a connection.
pub struct Session {
    /// Name of the program, for people.
    pub program: String,
    /// Network namespace, for people.
    pub namespace: String,
    /// Its report.
    pub report: Report,
    /// Whose share it counts against.
    pub holder: Holder,
}

impl Connection {
    /// The process at the other end, for people: of a restricted connection the one that it was
    /// handed to, as whoever restricted it said.
    pub fn pid(&self) -> u32 {
        self.restriction.handed_to().unwrap_or(self.peer.pid)
    }

    /// True once it may not ask everything any more.
    pub fn is_restricted(&self) -> bool {
        self.restriction.handed_to().is_some()
    }
}

//! One socket of a session.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_server_loop::Object;
use heliostat_service_listener::Member;
use rustix::io::Errno;

use super::budget::Slot;
use super::lines::Line;
use super::listener::Listener;

/// What a socket is.
pub enum Kind {
    /// A connection, perhaps not yet established.
    Connection {
        /// It is not established yet, as far as anybody has looked.
        is_connecting: bool,
        /// The member of a listener whose it is, which has less to do when it ends.
        of: Option<(Arc<Listener>, Member)>,
    },
    /// A place where connections come.
    Listener(Arc<Listener>),
}

/// A socket, and who waits for it.
pub struct Socket {
    /// Of a listener, a descriptor of its own for the same socket.
    pub(crate) descriptor: OwnedFd,
    pub(crate) kind: Kind,
    /// What a receive has found behind bytes, which were told first: the kernel says it once.
    pub(crate) broken: Option<Errno>,
    /// Its place among those that the loop watches.
    pub(crate) watched: ObjectId,
    /// Operations that wait for something to receive or to accept.
    pub(crate) readers: Line,
    /// Those that wait for room, or for the connection to be established.
    pub(crate) writers: Line,
    /// Those that wait for either.
    pub(crate) pollers: Line,
    pub(crate) _slot: Slot,
}

impl Socket {
    /// The listener that it is.
    pub(crate) fn listener(&self) -> Option<&Arc<Listener>> {
        match &self.kind {
            Kind::Listener(listener) => Some(listener),
            Kind::Connection { .. } => None,
        }
    }

    /// Whether bytes may be asked for.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.kind, Kind::Connection { is_connecting: false, .. })
    }
}

impl Object for Socket {}

//! What loops of sockets are told, and what they tell.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::socket::Access;
use heliostat_service_socket::Member;

use super::guest::Guest;
use super::listener::Listener;

/// A connection that was accepted for a member of a listener.
pub struct Arrived {
    pub(crate) listener: Arc<Listener>,
    pub(crate) member: Member,
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Option<NetAddress>,
}

/// To a server loop.
pub enum SocketOrder {
    /// Whose session this is; said before it can ask, and whenever that changes.
    Guest(ObjectId, Guest),
    /// Another loop has accepted a connection for a session of this one.
    Arrived(Arrived),
}

/// From a server loop.
pub enum SocketEvent {
    /// A session was refused an address.
    Refused(ObjectId, Access, NetAddress),
}

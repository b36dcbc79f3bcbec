//! What loops of sockets are told, and what they tell.

use std::sync::Arc;

use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::socket::Access;
use heliostat_service_listener::Member;

use super::arrival::Arrival;
use super::guest::Guest;
use super::listener::Listener;
use super::refusals::Refusals;

/// A connection that was accepted for a member of a listener.
pub struct Arrived {
    pub(crate) listener: Arc<Listener>,
    pub(crate) member: Member,
    pub(crate) connection: Arrival,
}

/// To a server loop.
pub enum SocketOrder {
    /// Whose session this is; said before it can ask, and whenever that changes.
    Guest(ObjectId, Guest),
    /// Another loop has accepted a connection for a session of this one.
    Arrived(Arrived),
    /// A connection waits at a listener that a session of this loop polls.
    Polled(Member),
}

/// From a server loop.
pub enum SocketEvent {
    /// A session was refused an address. No other of its refusals is told until these are taken.
    Refused(ObjectId, Access, NetAddress, Refusals),
}

//! What streams ask of the control plane, and why a connection is native after each answer.

use heliostat_abi::code::{Code, Native};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::record::{ChannelEntry, Reply, Request};
use heliostat_base::fd::OwnedFd;
use heliostat_client::{session, Answered, ControlError};

/// Channels with their memory, as the control plane handed them out.
pub struct Channels {
    /// The address object they belong to.
    pub port: ObjectId,
    /// Entries and descriptors, in order.
    pub entries: Vec<(ChannelEntry, OwnedFd)>,
    /// Another request would bring more.
    pub more: bool,
}

/// The standing session, greeted now if there is none.
pub fn standing() -> Result<session::Standing, Native> {
    session::standing().map_err(native)
}

/// Registers a listening socket; the answer is the address object.
pub fn listen(fd: i32) -> Result<(ObjectId, NetAddress), Native> {
    match session::ask(&Request::Listen, &[fd]).map_err(native)?.0 {
        Reply::Listening { port, address } => Ok((port, address)),
        other => Err(native((&other).into())),
    }
}

/// Takes a registration of the session `epoch` back; nothing is said if that fails, since the
/// session's end does it too.
pub fn unlisten(epoch: u64, port: ObjectId) {
    let _ = session::ask_in(epoch, &Request::Unlisten { port }, &[]);
}

/// A new channel to whoever listens on `address`.
pub fn open(address: NetAddress) -> Result<Channels, Native> {
    channels(session::ask(&Request::Open { address }, &[]))
}

/// The channels of a listening address that the session `epoch` has registered and does not have
/// yet.
pub fn attach(epoch: u64, port: ObjectId) -> Result<Channels, Native> {
    channels(session::ask_in(epoch, &Request::Attach { port }, &[]))
}

fn channels(answer: Result<Answered, ControlError>) -> Result<Channels, Native> {
    match answer.map_err(native)? {
        (Reply::Channels { port, entries, more }, fds) if fds.len() == entries.len() => {
            Ok(Channels { port, entries: entries.into_iter().zip(fds).collect(), more })
        }
        (other, _) => Err(native((&other).into())),
    }
}

/// Why a connection is native whose request had no usable answer.
pub fn native(error: ControlError) -> Native {
    match error {
        ControlError::NoDescriptors => Native::TableFull,
        ControlError::Refused { code: Code::NotFound, .. } => Native::PeerNotOurs,
        ControlError::Refused { code: Code::Denied, .. } => Native::Denied,
        ControlError::Refused { code: Code::Full, .. } => Native::Full,
        ControlError::Refused { code: Code::Revoked, .. } => Native::Revoked,
        _ => Native::NoControl,
    }
}

//! What can be read of the net service without changing it.

use heliostat_abi::code::Thing;
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Quota;

use crate::endpoint::Endpoint;
use crate::net::Net;

/// A listening address, for status and rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortView {
    /// Its identity.
    pub id: ObjectId,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// User that owns the listening socket.
    pub owner_uid: u32,
    /// Sessions that have it registered.
    pub sessions: Vec<ObjectId>,
    /// Channels that lead to it.
    pub channels: usize,
}

/// A channel's two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelView {
    /// Session that opened it.
    pub client: ObjectId,
    /// User of that session.
    pub client_uid: u32,
    /// Where it leads.
    pub port: ObjectId,
}

/// What one session holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// Addresses it listens on.
    pub ports: usize,
    /// Channels it opened.
    pub channels: usize,
    /// Bytes of memory of those channels.
    pub bytes: u64,
    /// Its grants were revoked.
    pub revoked: bool,
}

impl Net {
    /// One listening address.
    pub fn port(&self, id: ObjectId) -> Option<PortView> {
        let port = self.ports.get(id)?;
        Some(PortView {
            id,
            endpoint: port.endpoint,
            owner_uid: port.owner_uid,
            sessions: self.ports.sessions(id).map(|(session, _)| session).collect(),
            channels: port.channels.len(),
        })
    }

    /// Every listening address, in order of index.
    pub fn ports(&self) -> impl Iterator<Item = PortView> + '_ {
        self.ports.iter().filter_map(|(id, _)| self.port(id))
    }

    /// The port object of exactly this endpoint.
    pub fn port_at(&self, endpoint: Endpoint) -> Option<ObjectId> {
        self.by_endpoint.get(&endpoint).copied()
    }

    /// One channel.
    pub fn channel(&self, id: ObjectId) -> Option<ChannelView> {
        let channel = self.channels.get(id)?;
        let client = self.channels.session(id)?;
        let client_uid = self.channels.share_of(id)?.uid;
        Some(ChannelView { client, client_uid, port: channel.port })
    }

    /// Channels alive.
    pub fn channel_count(&self) -> usize {
        self.channels.len()
    }

    /// Listening addresses registered.
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// Who has how much: listening addresses, channels, their bytes.
    pub fn quotas(&self) -> [(Thing, &Quota); 3] {
        [self.ports.quota(), self.channels.quota(), self.bytes.quota()]
    }

    /// What a session holds; nothing for one that never asked.
    pub fn holding(&self, session: ObjectId) -> Holding {
        Holding {
            ports: self.ports.count_of(session),
            channels: self.channels.count_of(session),
            bytes: self.bytes.of(session),
            revoked: self.revoked.has(session),
        }
    }
}

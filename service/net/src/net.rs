//! The state of the net service: ports, channels and what each session holds of them.
//!
//! What a session holds are grants (`heliostat_service_grant`): counted against a limit before they
//! are made, so that no sequence of requests grows a table, and gone with its end.

use std::collections::{BTreeMap, HashMap, HashSet};

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::limits::{CHANNELS_MAX, FDS_PER_REPLY_MAX, PORTS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::{Amounts, Full, Grants, Holder, Limit, Revoked, Shares};

use crate::endpoint::{Endpoint, Proof};
use crate::refusal::{Reason, Refusal};

/// Sockets of one address that are remembered: they tell one that was inherited from one that is new.
const SOCKETS_MAX: usize = 1024;

/// The port of channels that lead to none.
const NOWHERE: ObjectId = ObjectId { index: u32::MAX, generation: 0 };

/// What one session, one user and the node may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Listening addresses of one session.
    pub ports_per_session: usize,
    /// Channels of one connecting session, all destinations together.
    pub channels_per_session: usize,
    /// Channels of one connecting session to one address.
    pub channels_per_pair: usize,
    /// Bytes of channel memory of one connecting session.
    pub bytes_per_session: u64,
    /// Listening addresses.
    pub ports: Shares,
    /// Channels.
    pub channels: Shares,
    /// Bytes of channel memory.
    pub bytes: Shares,
}

/// What the daemon has to carry out, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// An address started or stops being listened on: bump the registry word.
    RegistryChanged,
    /// The port has a new channel: bump its word.
    PortChanged(ObjectId),
    /// The channel is in force.
    ChannelActive(ObjectId),
    /// The channel is forgotten: its word goes free, its memory file is closed.
    ChannelFreed(ObjectId),
    /// The channel's users must leave it now.
    ChannelRevoked(ObjectId),
}

/// A request for a channel whose port was found and whose rights were checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// The connecting session.
    pub client: ObjectId,
    /// Whose share the channel counts against.
    pub holder: Holder,
    /// The port, from `resolve`.
    pub port: ObjectId,
    /// Bytes of memory the channel will have.
    pub bytes: u64,
}

/// One answer to `attach`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Channels in the order they were opened.
    pub channels: Vec<ObjectId>,
    /// Another request would bring more.
    pub more: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) endpoint: Endpoint,
    pub(crate) v6_only: bool,
    pub(crate) owner_uid: u32,
    pub(crate) sockets: HashSet<u64>,
    /// Channels by serial; serials only grow.
    pub(crate) channels: BTreeMap<u64, ObjectId>,
    pub(crate) next_serial: u64,
}

/// What is kept for each session that has a port registered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registration {
    /// Serial of the first channel that it was not sent.
    pub(crate) unsent: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    pub(crate) port: ObjectId,
    pub(crate) serial: u64,
    pub(crate) bytes: u64,
    pub(crate) revoked: bool,
}

/// The net service.
#[derive(Clone, Debug)]
pub struct Net {
    pub(crate) channels_per_pair: usize,
    pub(crate) ports: Grants<Port, Registration>,
    pub(crate) by_endpoint: HashMap<Endpoint, ObjectId>,
    pub(crate) channels: Grants<Channel>,
    pub(crate) bytes: Amounts,
    pub(crate) revoked: Revoked,
}

impl Limits {
    fn ports(&self) -> Limit {
        Limit { per_session: self.ports_per_session, shares: self.ports }
    }

    fn channels(&self) -> Limit {
        Limit { per_session: self.channels_per_session, shares: self.channels }
    }
}

impl Net {
    /// A service that knows nobody yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            channels_per_pair: limits.channels_per_pair,
            ports: Grants::new(Thing::Ports, PORTS_MAX, limits.ports()),
            by_endpoint: HashMap::new(),
            channels: Grants::new(Thing::Channels, CHANNELS_MAX, limits.channels()),
            bytes: Amounts::new(Thing::ChannelBytes, limits.bytes_per_session, limits.bytes),
            revoked: Revoked::default(),
        }
    }

    /// New limits for what is asked from now on; what was granted stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.channels_per_pair = limits.channels_per_pair;
        self.ports.set_limit(limits.ports());
        self.channels.set_limit(limits.channels());
        self.bytes.set_limit(limits.bytes_per_session, limits.bytes);
    }

    /// Registers a listening socket of `session`. The same address registered again by the same
    /// session is the same object.
    ///
    /// The kernel lets one user's sockets share an address, and inherited ones; it never lets two
    /// users listen on it at once. So a proof by another user and another socket shows that the
    /// earlier registration is stale (its socket was closed without a word), and replaces it.
    ///
    /// An address counts against the share of whoever registered it first.
    pub fn register(
        &mut self,
        session: ObjectId,
        holder: Holder,
        proof: Proof,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        self.revoked.check(session)?;
        let known = self.by_endpoint.get(&proof.endpoint).copied();
        if let Some(id) = known.filter(|id| self.ports.has(session, *id)) {
            self.ports.get_mut(id).into_iter().for_each(|port| port.remember(proof.socket));
            return Ok(id);
        }
        self.ports.check(session)?;
        match known.filter(|id| self.may_share(*id, &proof)) {
            Some(id) => {
                self.ports.share(session, id)?;
                self.ports.get_mut(id).into_iter().for_each(|port| port.remember(proof.socket));
                Ok(id)
            }
            None => self.replace_port(session, known, holder, &proof, effects),
        }
    }

    fn may_share(&self, id: ObjectId, proof: &Proof) -> bool {
        self.ports.get(id).is_some_and(|port| {
            port.owner_uid == proof.owner_uid || port.sockets.contains(&proof.socket)
        })
    }

    fn replace_port(
        &mut self,
        session: ObjectId,
        stale: Option<ObjectId>,
        holder: Holder,
        proof: &Proof,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        if let Some(stale) = stale {
            self.free_port(stale, effects);
        }
        let port = Port {
            endpoint: proof.endpoint,
            v6_only: proof.v6_only,
            owner_uid: proof.owner_uid,
            sockets: HashSet::from([proof.socket]),
            channels: BTreeMap::new(),
            next_serial: 0,
        };
        let id = self.ports.grant(session, holder, port)?;
        self.by_endpoint.insert(proof.endpoint, id);
        effects.push(Effect::RegistryChanged);
        Ok(id)
    }

    /// The port that the kernel would connect `wanted` to, if it is registered.
    pub fn resolve(&self, wanted: Endpoint) -> Option<ObjectId> {
        wanted.candidates().find_map(|(endpoint, needs_dual)| {
            let id = *self.by_endpoint.get(&endpoint)?;
            let port = self.ports.get(id)?;
            (!needs_dual || !port.v6_only).then_some(id)
        })
    }

    /// Makes a channel. The caller has checked the rights; every limit is checked here.
    pub fn open(
        &mut self,
        opening: Opening,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        self.check_room(&opening)?;
        let port = self.ports.get_mut(opening.port).ok_or(Reason::NotFound)?;
        let channel = Channel {
            port: opening.port,
            serial: port.next_serial,
            bytes: opening.bytes,
            revoked: false,
        };
        let id = self.channels.grant(opening.client, opening.holder, channel)?;
        port.channels.insert(port.next_serial, id);
        port.next_serial += 1;
        self.bytes.take(opening.client, opening.holder, opening.bytes);
        effects.push(Effect::ChannelActive(id));
        effects.push(Effect::PortChanged(opening.port));
        Ok(id)
    }

    /// Makes a channel that leads to no port: its other end is the network service.
    pub fn open_delegated(
        &mut self,
        client: ObjectId,
        holder: Holder,
        bytes: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        self.revoked.check(client)?;
        self.channels.check(client)?;
        self.bytes.check(client, holder, bytes)?;
        let channel = Channel { port: NOWHERE, serial: 0, bytes, revoked: false };
        let id = self.channels.grant(client, holder, channel)?;
        self.bytes.take(client, holder, bytes);
        effects.push(Effect::ChannelActive(id));
        Ok(id)
    }

    fn check_room(&self, opening: &Opening) -> Result<(), Refusal> {
        self.revoked.check(opening.client)?;
        let leads_there = |id: &ObjectId| {
            self.channels.get(*id).is_some_and(|channel| channel.port == opening.port)
        };
        let limit = self.channels_per_pair;
        if self.channels.of(opening.client).filter(leads_there).count() >= limit {
            return Err(Full::of(Thing::Channels, Side::Object, limit as u64).into());
        }
        self.channels.check(opening.client)?;
        self.bytes.check(opening.client, opening.holder, opening.bytes)?;
        Ok(())
    }

    /// Channels of `port` that `session` was not sent yet; they count as sent from now on.
    pub fn attach(&mut self, session: ObjectId, port: ObjectId) -> Result<Batch, Refusal> {
        self.revoked.check(session)?;
        let not_registered = Reason::NotRegistered { port };
        let (found, registration) = self.ports.get_held(session, port).ok_or(not_registered)?;
        let mut unsent = found.channels.range(registration.unsent..);
        let channels: Vec<_> = unsent.by_ref().take(FDS_PER_REPLY_MAX).collect();
        registration.unsent =
            channels.last().map_or(registration.unsent, |(serial, _)| **serial + 1);
        let more = unsent.next().is_some();
        let channels = channels.into_iter().map(|(_, id)| *id).collect();
        Ok(Batch { channels, more })
    }
}

impl Port {
    /// Takes down that a socket has this address.
    fn remember(&mut self, socket: u64) {
        if self.sockets.len() < SOCKETS_MAX {
            self.sockets.insert(socket);
        }
    }
}

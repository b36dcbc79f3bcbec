//! The state of the net service: ports, channels and what each session holds of them.
//!
//! Sessions appear here when they first hold something and disappear with `end`. Everything is
//! counted against a limit before it is made, so that no sequence of requests grows a table.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use heliostat_abi::code::{Side, Thing};
use heliostat_abi::limits::{CHANNELS_MAX, FDS_PER_REPLY_MAX, PORTS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_abi::quota::{Exceeded, Holder, Quota, QuotaTable, Shares};
use heliostat_abi::record::Bound;

use crate::endpoint::{Endpoint, Proof};
use crate::refusal::Refusal;

/// Sockets of one address that are remembered: they tell one that was inherited from one that is new.
const SOCKETS_MAX: usize = 1024;

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
    /// Registered sessions, each with the serial of the first channel it was not sent.
    pub(crate) sessions: BTreeMap<u32, Registration>,
    /// Channels by serial; serials only grow.
    pub(crate) channels: BTreeMap<u64, ObjectId>,
    pub(crate) next_serial: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    pub(crate) session: ObjectId,
    pub(crate) unsent: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    pub(crate) client: ObjectId,
    pub(crate) port: ObjectId,
    pub(crate) serial: u64,
    pub(crate) bytes: u64,
    pub(crate) revoked: bool,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Held {
    pub(crate) ports: BTreeSet<ObjectId>,
    pub(crate) channels: BTreeSet<ObjectId>,
    pub(crate) bytes: u64,
    pub(crate) revoked: bool,
}

/// The net service.
#[derive(Clone, Debug)]
pub struct Net {
    pub(crate) limits: Limits,
    pub(crate) ports: QuotaTable<Port>,
    pub(crate) by_endpoint: HashMap<Endpoint, ObjectId>,
    pub(crate) channels: QuotaTable<Channel>,
    pub(crate) held: HashMap<ObjectId, Held>,
    pub(crate) bytes: Quota,
}

impl Net {
    /// A service that knows nobody yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ports: QuotaTable::new(PORTS_MAX, limits.ports),
            by_endpoint: HashMap::new(),
            channels: QuotaTable::new(CHANNELS_MAX, limits.channels),
            held: HashMap::new(),
            bytes: Quota::new(limits.bytes),
        }
    }

    /// New limits for what is asked from now on; what was granted stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.ports.set_shares(limits.ports);
        self.channels.set_shares(limits.channels);
        self.bytes.set_shares(limits.bytes);
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
        let held = self.held.entry(session).or_default();
        if held.revoked {
            return Err(Refusal::Revoked);
        }
        let known = self.by_endpoint.get(&proof.endpoint).copied();
        if let Some(id) = known.filter(|id| held.ports.contains(id)) {
            self.ports.get_mut(id).into_iter().for_each(|port| port.remember(proof.socket));
            return Ok(id);
        }
        let limit = self.limits.ports_per_session;
        if held.ports.len() >= limit {
            return Err(full(Thing::Ports, Side::Session, limit as u64));
        }
        let id = match known.filter(|id| self.may_share(*id, &proof)) {
            Some(id) => id,
            None => self.replace_port(known, holder, &proof, effects)?,
        };
        if let Some(port) = self.ports.get_mut(id) {
            port.remember(proof.socket);
            port.sessions.insert(session.index, Registration { session, unsent: 0 });
        }
        self.held.entry(session).or_default().ports.insert(id);
        Ok(id)
    }

    fn may_share(&self, id: ObjectId, proof: &Proof) -> bool {
        self.ports.get(id).is_some_and(|port| {
            port.owner_uid == proof.owner_uid || port.sockets.contains(&proof.socket)
        })
    }

    fn replace_port(
        &mut self,
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
            sockets: HashSet::new(),
            sessions: BTreeMap::new(),
            channels: BTreeMap::new(),
            next_serial: 0,
        };
        let id = self.ports.insert(holder, port).map_err(|it| exceeded(Thing::Ports, it))?;
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
        let port = self.ports.get_mut(opening.port).ok_or(Refusal::NotFound)?;
        let channel = Channel {
            client: opening.client,
            port: opening.port,
            serial: port.next_serial,
            bytes: opening.bytes,
            revoked: false,
        };
        let id = self
            .channels
            .insert(opening.holder, channel)
            .map_err(|it| exceeded(Thing::Channels, it))?;
        port.channels.insert(port.next_serial, id);
        port.next_serial += 1;
        let held = self.held.entry(opening.client).or_default();
        held.channels.insert(id);
        held.bytes += opening.bytes;
        self.bytes.take_anyway(opening.holder, opening.bytes);
        effects.push(Effect::ChannelActive(id));
        effects.push(Effect::PortChanged(opening.port));
        Ok(id)
    }

    fn check_room(&self, opening: &Opening) -> Result<(), Refusal> {
        let limits = &self.limits;
        let nothing = Held::default();
        let held = self.held.get(&opening.client).unwrap_or(&nothing);
        if held.revoked {
            return Err(Refusal::Revoked);
        }
        let same_port = |id: &&ObjectId| {
            self.channels.get(**id).is_some_and(|channel| channel.port == opening.port)
        };
        let (total, per_pair) = (held.channels.len(), limits.channels_per_pair);
        if held.channels.iter().filter(same_port).count() >= per_pair {
            return Err(full(Thing::Channels, Side::Object, per_pair as u64));
        }
        if total >= limits.channels_per_session {
            let limit = limits.channels_per_session as u64;
            return Err(full(Thing::Channels, Side::Session, limit));
        }
        if held.bytes.saturating_add(opening.bytes) > limits.bytes_per_session {
            return Err(full(Thing::ChannelBytes, Side::Session, limits.bytes_per_session));
        }
        let (used, bytes) = (self.bytes.used(opening.holder), opening.bytes);
        let check = limits.bytes.check(opening.holder, used, bytes);
        check.map_err(|it| exceeded(Thing::ChannelBytes, it))
    }

    /// Channels of `port` that `session` was not sent yet; they count as sent from now on.
    pub fn attach(&mut self, session: ObjectId, port: ObjectId) -> Result<Batch, Refusal> {
        if self.held.get(&session).is_some_and(|held| held.revoked) {
            return Err(Refusal::Revoked);
        }
        let found = self.ports.get_mut(port).ok_or(Refusal::NotRegistered { port })?;
        let registration = found
            .sessions
            .get_mut(&session.index)
            .filter(|registration| registration.session == session)
            .ok_or(Refusal::NotRegistered { port })?;
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

fn full(thing: Thing, side: Side, limit: u64) -> Refusal {
    Refusal::Full { bound: Bound::new(thing, side), limit }
}

fn exceeded(thing: Thing, it: Exceeded) -> Refusal {
    full(thing, it.side, it.limit)
}

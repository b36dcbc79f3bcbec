//! Streams: who listens where, and the channels that lead there.

use std::os::fd::AsFd;
use std::rc::Rc;

use heliostat_abi::code::{Code, Thing};
use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_abi::session::node::State;
use heliostat_abi::session::record::{self, ChannelEntry, Reply, Request};
use heliostat_abi::stream::channel;
use heliostat_control::config::Config;
use heliostat_control::name::tcp_name;
use heliostat_control::rights::Right;
use heliostat_service_grant::Quota;
use heliostat_service_net::{Effect, Endpoint, Opening, Proof};
use serde_json::{json, Value};
use tracing::{debug, warn};

use super::{listed, no_such_request};
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, Service, Told, Viewer};
use crate::memory::ChannelMemory;
use crate::proofs::Purpose;
use crate::refused::{refuse, Refused};
use crate::shares;

/// Streams, in the table of services.
pub struct Streams;

impl Service for Streams {
    fn number(&self) -> u16 {
        record::Service::Net as u16
    }

    fn answer(&self, daemon: &mut Daemon, asked: Asked) -> Result<Answer, Refused> {
        let id = asked.session;
        match asked.request {
            Request::Listen => daemon.examine(id, asked.only_descriptor()?, Purpose::Listen),
            Request::Unlisten { port } => daemon.unlisten(id, port),
            Request::Open { address } => daemon.open(id, address),
            Request::Attach { port } => daemon.attach(id, port),
            _ => no_such_request(),
        }
    }

    fn end(&self, daemon: &mut Daemon, session: ObjectId) {
        let mut effects = Vec::new();
        daemon.services.net.grants.end(session, &mut effects);
        daemon.carry_out(effects);
    }

    fn revoke(&self, daemon: &mut Daemon, sessions: &[ObjectId]) -> usize {
        let mut effects = Vec::new();
        let channels = daemon.services.net.grants.revoke(sessions, &mut effects);
        daemon.carry_out(effects);
        daemon.counts.revoked += channels as u64;
        channels
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        daemon.services.net.grants.set_limits(shares::net(config));
    }

    fn quotas<'a>(&self, daemon: &'a Daemon) -> Vec<(Thing, &'a Quota)> {
        daemon.services.net.grants.quotas().into()
    }

    fn status(&self, daemon: &Daemon, viewer: Viewer, told: &mut Told) {
        let net = &daemon.services.net.grants;
        let ports = net.ports().filter(|port| viewer.sees(port.owner_uid)).map(|port| {
            json!({
                "name": tcp_name(port.endpoint.address),
                "address": port.endpoint.address.to_string(),
                "id": port.id.to_string(),
                "namespace_cookie": port.endpoint.namespace.0,
                "uid": port.owner_uid,
                "sessions": listed(port.sessions.iter().map(ObjectId::to_string)),
                "session_count": port.sessions.len(),
                "channels": port.channels,
            })
        });
        told.insert("ports".into(), Value::Array(ports.collect()));
        told.insert("channels".into(), json!(net.channel_count()));
    }

    fn session_status(&self, daemon: &Daemon, session: ObjectId, told: &mut Told) {
        let holding = daemon.services.net.grants.holding(session);
        told.insert("ports".into(), json!(holding.ports));
        told.insert("channels".into(), json!(holding.channels));
        told.insert("shared_bytes".into(), json!(holding.bytes));
        told.insert("revoked".into(), json!(holding.revoked));
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        let net = &daemon.services.net.grants;
        let ids = daemon.connections.iter().map(|(id, _)| id);
        let bytes = ids.map(|id| net.holding(id).bytes).sum();
        vec![
            ("ports", "Listening addresses now registered", net.port_count() as u64),
            ("channels", "Channels now alive", net.channel_count() as u64),
            ("channel_bytes", "Bytes of channel memory now promised", bytes),
        ]
    }
}

impl Daemon {
    /// Registers the address of a listening socket.
    pub(crate) fn listen(&mut self, id: ObjectId, proof: Proof) -> Result<Answer, Refused> {
        let connection = self.session(id)?;
        let (owner, address) = (connection.peer.subject.uid, proof.endpoint.address);
        // Whoever holds the listening socket owns the name, unless a rule says otherwise.
        self.check_right(id, Right::Listen, address, owner)?;
        let (holder, mut effects) = (self.holder(id)?, Vec::new());
        let answer = self.services.net.grants.register(id, holder, proof, &mut effects);
        self.carry_out(effects);
        let port = answer.map_err(refuse(id))?;
        debug!(session = %id, %port, name = tcp_name(address), "listens");
        Ok(Reply::Listening { port, address }.into())
    }

    /// Takes a registration back.
    pub(crate) fn unlisten(&mut self, id: ObjectId, port: ObjectId) -> Result<Answer, Refused> {
        self.session(id)?;
        let mut effects = Vec::new();
        let answer = self.services.net.grants.unregister(id, port, &mut effects);
        self.carry_out(effects);
        answer.map_err(refuse(id))?;
        Ok(Reply::Done.into())
    }

    /// Makes a channel to whoever listens on an address: [channel memory].
    pub(crate) fn open(&mut self, id: ObjectId, address: NetAddress) -> Result<Answer, Refused> {
        let peer = &self.session(id)?.peer;
        let wanted = Endpoint { namespace: peer.namespace, address };
        let port = self.services.net.grants.resolve(wanted).ok_or(Code::NotFound)?;
        let port = self.services.net.grants.port(port).ok_or(Code::NotFound)?;
        self.check_right(id, Right::Connect, port.endpoint.address, port.owner_uid)?;
        let shape = self.parts.config.channel;
        let bytes = channel::bytes(shape.slots, shape.ring_bytes) as u64;
        let opening = Opening { client: id, holder: self.holder(id)?, port: port.id, bytes };
        let mut effects = Vec::new();
        let channel = self.services.net.grants.open(opening, &mut effects).map_err(refuse(id))?;
        match ChannelMemory::create(channel, shape.slots, shape.ring_bytes) {
            Ok(memory) => self.services.net.memory.insert(channel, memory),
            Err(error) => {
                warn!(%error, "no memory for a channel");
                effects.clear();
                self.services.net.grants.forget(channel, &mut effects);
                self.carry_out(effects);
                return Err(Code::Internal.into());
            }
        };
        self.carry_out(effects);
        debug!(session = %id, %channel, port = %port.id, name = tcp_name(address), "opens");
        self.channels_answer(port.id, vec![(channel, id, port.owner_uid)], false)
    }

    /// The channels of a port that a session does not have yet: [channel memory, ...].
    pub(crate) fn attach(&mut self, id: ObjectId, port: ObjectId) -> Result<Answer, Refused> {
        self.session(id)?;
        let batch = self.services.net.grants.attach(id, port).map_err(refuse(id))?;
        let views = batch.channels.iter().filter_map(|channel| {
            let view = self.services.net.grants.channel(*channel)?;
            Some((*channel, view.client, view.client_uid))
        });
        self.channels_answer(port, views.collect(), batch.more)
    }

    /// The reply for (channel, client, user of the other side) with each channel's memory.
    fn channels_answer(
        &self,
        port: ObjectId,
        channels: Vec<(ObjectId, ObjectId, u32)>,
        more: bool,
    ) -> Result<Answer, Refused> {
        let (mut entries, mut fds) = (Vec::new(), Vec::<Rc<dyn AsFd>>::new());
        for (id, client, peer_uid) in channels {
            let memory = self.services.net.memory.get(&id).ok_or(Code::Internal)?;
            let (slots, ring_bytes) = (memory.slots, memory.ring_bytes);
            entries.push(ChannelEntry { id, client, peer_uid, slots, ring_bytes });
            fds.push(memory.fd.clone());
        }
        Ok(Answer { reply: Reply::Channels { port, entries, more }, fds })
    }

    /// Carries out what the net service decided.
    pub(crate) fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::RegistryChanged => self.node.bump_registry(),
                Effect::PortChanged(port) => self.node.bump_port(port),
                Effect::ChannelActive(id) => self.node.set_channel(id, State::Active),
                Effect::ChannelRevoked(id) => {
                    self.node.set_channel(id, State::Revoked);
                    self.services.net.memory.remove(&id);
                    self.services.network.end(id, true);
                }
                Effect::ChannelFreed(id) => {
                    self.node.set_channel(id, State::Free);
                    self.services.net.memory.remove(&id);
                    self.services.network.end(id, false);
                }
            }
        }
    }
}

//! The network service: channels whose other end is a loop that has programs' remote connections.
//!
//! ```text
//! Channel -> rule (configuration, measured) -> limits of streams -> memory, link -> a loop
//! ```
//! `heliostat_service_net` counts the channels, as it does all others; which connections come over
//! one is between its session and the loop.

use heliostat_base::sync::Ordering::Relaxed;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::cores::CpuRanges;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Asker, ChannelEntry, Reply, Row};
use heliostat_abi::session::restriction::Services;
use heliostat_abi::stream::{channel, delegated};
use heliostat_backend_tcp::{Facts, Verdict};
use heliostat_base::mapping::{Access, SharedMapping};
use heliostat_control::config::{Config, When};
use heliostat_server_network::{CarrierState, NewChannel, NoLoop, Order, RefusedShare};
use heliostat_service_grant::{Full, Holder};
use rustix::net::{socketpair, AddressFamily, SocketFlags, SocketType};
use serde_json::{json, Value};
use std::os::fd::AsRawFd;
use tracing::{debug, error, warn};

use super::own_request;
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, Service, Told, Viewer};
use crate::memory::ChannelMemory;
use crate::refused::{full, full_of, refuse, Refused};
use crate::state::network::CarriedChannel;

/// The network service, in the table of services.
pub struct NetworkStreams;

const REQUESTS: &[(u16, Row)] = &[(
    delegated::CHANNEL,
    Row {
        name: "network_channel",
        brings: 0..=0,
        keeps: 0,
        answers: 2,
        asker: Asker::With(Services::STREAMS),
    },
)];

impl Service for NetworkStreams {
    fn number(&self) -> u16 {
        delegated::SERVICE
    }

    fn own_requests(&self) -> &'static [(u16, Row)] {
        REQUESTS
    }

    fn answer(&self, daemon: &mut Daemon, asked: Asked) -> Result<Answer, Refused> {
        let cores = own_request(&asked, "the network service", delegated::asked)?;
        daemon.open_carried(asked.session, cores)
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        daemon.services.network.set_limits(config);
    }

    fn status(&self, daemon: &Daemon, _: Viewer, told: &mut Told) {
        told.insert("network".into(), daemon.network_json(&[]));
    }

    fn explain(&self, daemon: &Daemon, sessions: &[ObjectId], told: &mut Told) {
        told.insert("network".into(), daemon.network_json(sessions));
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        let carried = each_loop(daemon).map(|it| it.counts.connections.load(Relaxed)).sum();
        vec![("network_connections", "Connections to remote peers now carried by loops", carried)]
    }
}

fn each_loop(daemon: &Daemon) -> impl Iterator<Item = &CarrierState> {
    daemon.services.network.loops.iter().flat_map(|loops| loops.each())
}

impl Daemon {
    /// Makes a channel to the network service, whatever the rule says where it is told which cores:
    /// [channel memory, link].
    fn open_carried(&mut self, id: ObjectId, cores: Option<CpuRanges>) -> Result<Answer, Refused> {
        let uid = self.session(id)?.peer.subject.uid;
        let is_off = self.parts.config.network.delegate == When::Never;
        if is_off || (cores.is_none() && !self.carries()) {
            return Err(Code::Unwilling.into());
        }
        let carrier = self.loop_for(id, cores)?;
        let shape = self.parts.config.channel;
        let bytes = channel::bytes(shape.slots, shape.ring_bytes) as u64;
        let (holder, mut effects) = (self.holder(id)?, Vec::new());
        let grants = &mut self.services.net.grants;
        let channel = grants.open_delegated(id, holder, bytes, &mut effects).map_err(refuse(id))?;
        match self.give_to_loop(id, holder, channel, carrier) {
            Ok(fds) => {
                let placed = CarriedChannel { carrier, session: id, is_asked_for: cores.is_some() };
                self.services.network.channels.insert(channel, placed);
                self.carry_out(effects);
                let (slots, ring_bytes) = (shape.slots, shape.ring_bytes);
                let entry =
                    ChannelEntry { id: channel, client: id, peer_uid: uid, slots, ring_bytes };
                debug!(session = %id, %channel, "has remote connections carried");
                Ok(Answer { reply: Reply::Own(Box::new(delegated::reply(&entry))), fds })
            }
            Err(error) => {
                warn!(%error, "no memory, or no link, for a channel of the network service");
                effects.clear();
                self.services.net.grants.forget(channel, &mut effects);
                self.carry_out(effects);
                Err(Code::Internal.into())
            }
        }
    }

    /// The loop for a session's channel, which is its user's: one of those on the cores that it names, if
    /// it names any. Cores that no loop has yet are the owner's to give.
    fn loop_for(&mut self, id: ObjectId, cores: Option<CpuRanges>) -> Result<u64, Refused> {
        let config = self.parts.config.clone();
        let cores: Vec<usize> = cores.map_or(Vec::new(), |cores| cores.mask().iter().collect());
        let (may_start, holder) = (self.is_owner(id), self.holder(id)?);
        let loops = self.services.network.start(&config);
        if cores.is_empty() {
            return loops.of(holder).map_err(no_loop);
        }
        if !may_start && !cores.iter().all(|core| loops.has_core(*core)) {
            return Err(Code::Denied.into());
        }
        loops.on_cores(holder, &cores).map_err(no_loop)
    }

    /// Makes memory and link, and gives the loop its ends.
    fn give_to_loop(
        &mut self,
        session: ObjectId,
        holder: Holder,
        id: ObjectId,
        carrier: u64,
    ) -> std::io::Result<Vec<Rc<dyn std::os::fd::AsFd>>> {
        let shape = self.parts.config.channel;
        let memory = ChannelMemory::create(id, shape.slots, shape.ring_bytes)
            .map_err(std::io::Error::other)?;
        let length = channel::bytes(shape.slots, shape.ring_bytes);
        let mapped = SharedMapping::from_fd(memory.fd.as_raw_fd(), length, Access::ReadWrite)
            .map_err(std::io::Error::other)?;
        let (theirs, link) = link()?;
        // Programs use on what has come back to them: its options stay.
        let closer = self.closer.of(holder).shared();
        let close: Box<dyn Fn(OwnedFd) + Send> = Box::new(move |fd| closer.close(fd));
        let loops = self.services.network.loops.as_mut().ok_or(std::io::ErrorKind::NotFound)?;
        loops.order(
            carrier,
            Order::Carry(NewChannel {
                id,
                session,
                holder,
                memory: Arc::new(mapped),
                slots: shape.slots,
                ring_bytes: shape.ring_bytes,
                link,
                close,
            }),
        );
        let fds: Vec<Rc<dyn std::os::fd::AsFd>> = vec![memory.fd.clone(), Rc::new(theirs)];
        self.services.net.memory.insert(id, memory);
        Ok(fds)
    }

    /// Whether remote connections are carried: as configured, or as the rule says.
    fn carries(&mut self) -> bool {
        match self.parts.config.network.delegate {
            When::Always => true,
            When::Never => false,
            // Where there are too few cores nothing is measured: that would take them from others.
            When::Auto if self.network_facts().judge() == Verdict::FewCores => false,
            When::Auto => {
                let measured = self.services.network.measured();
                Facts { measured, ..self.network_facts() }.judge() == Verdict::Pays
            }
        }
    }

    fn network_facts(&self) -> Facts {
        let cores = heliostat_base::affinity::cpu_count() as u64;
        let configured = self.parts.config.network.cores.len();
        let kernel_cores = heliostat_base::placement::kernel_cores().max(configured) as u64;
        Facts { cores, kernel_cores, measured: self.services.network.known() }
    }

    /// What the service does, for the program of these sessions where there are any, and why so.
    fn network_json(&self, sessions: &[ObjectId]) -> Value {
        let config = &self.parts.config.network;
        let facts = self.network_facts();
        let channels = self.services.network.channels.values();
        let mut its = channels.filter(|channel| sessions.contains(&channel.session));
        let is_asked_for = its.any(|channel| channel.is_asked_for);
        let (is_on, why) = match config.delegate {
            When::Auto if is_asked_for => (true, "the program was run so (--network-cores)"),
            When::Always => (true, "it is switched on by the configuration"),
            When::Never => (false, "it is switched off by the configuration"),
            When::Auto => (facts.judge() == Verdict::Pays, facts.judge().text()),
        };
        json!({
            "on": is_on,
            "why": why,
            "cores": facts.cores,
            "kernel_cores": facts.kernel_cores,
            "stack_ns": facts.measured.map(|it| it.stack_ns),
            "line_ns": facts.measured.map(|it| it.line_ns),
            "loops": each_loop(self).map(loop_json).collect::<Vec<_>>(),
            "full": self.full_json(sessions),
        })
    }

    /// What the users of these sessions were refused for want of a share.
    fn full_json(&self, sessions: &[ObjectId]) -> Value {
        let uid = |id: &ObjectId| self.session(*id).ok().map(|it| it.peer.subject.uid);
        let uids: BTreeSet<u32> = sessions.iter().filter_map(uid).collect();
        let share = self.services.network.share();
        let refused = |uid: u32| share.and_then(|share| share.refused(uid));
        uids.into_iter().filter_map(refused).map(refused_json).collect()
    }
}

fn refused_json(refused: RefusedShare) -> Value {
    let RefusedShare { exceeded, count } = refused;
    json!({
        "side": format!("{:?}", exceeded.side),
        "limit": exceeded.limit,
        "count": count,
        "text": Full::shared(Thing::CarriedConnections, exceeded).to_string(),
    })
}

/// Why a session gets no loop.
fn no_loop(why: NoLoop) -> Refused {
    match why {
        NoLoop::Full(exceeded) => full(Thing::NetworkLoops, exceeded),
        NoLoop::Behind(orders) => full_of(Thing::LoopOrders, Side::Object, orders),
        NoLoop::System(error) => {
            error!(%error, "a loop of the network service cannot start");
            Code::Internal.into()
        }
    }
}

fn loop_json(state: &CarrierState) -> Value {
    let counts = &state.counts;
    json!({
        "core": state.core,
        "connections": counts.connections.load(Relaxed),
        "handed": counts.handed.load(Relaxed),
        "refused": counts.refused.load(Relaxed),
        "given_back": counts.given_back.load(Relaxed),
        "corrupt": counts.corrupt.load(Relaxed),
        "received": counts.received.load(Relaxed),
        "sent": counts.sent.load(Relaxed),
        "bells": counts.bells.load(Relaxed),
        "sleeps": counts.sleeps.load(Relaxed),
    })
}

/// The session's end of a link, and the loop's: neither waits.
fn link() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(family, kind, flags, None)?)
}

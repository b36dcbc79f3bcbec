//! Sessions whose memory operations are delegated: their loops, and what those tell.

use std::rc::Rc;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::file::delegated::DEPTH_MAX;
use heliostat_abi::memory::MemoryReply;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_server_loop::{map_window, Event, NewSession};
use heliostat_server_memory::MemoryEvent;
use heliostat_service_grant::Meter;
use heliostat_service_memory::Asker;
use tracing::{debug, error};

use super::requests::reply;
use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::poll::Source;
use crate::refused::{full, full_of, refuse, Refused};
use crate::services::cluster::peer_subject;
use crate::shares;
use crate::state::memory::MemoryLoops;

/// Events attended to before others are served.
const EVENTS_AT_ONCE: usize = 1024;

impl Daemon {
    /// A session wants its operations delegated: shown is [its window], the answer brings [rings].
    pub(super) fn serve_memory(
        &mut self,
        asker: &Asker,
        shown: ReceivedFd,
    ) -> Result<Answer, Refused> {
        let id = asker.session;
        let config = self.parts.config.memory;
        let loops = self.memory_loops()?;
        if loops.sessions.contains_key(&id) {
            return Err(Code::BadState.into());
        }
        let room = loops.loops.as_ref().map_or(0, |loops| loops.sessions_max());
        if loops.sessions.len() >= room {
            return Err(full_of(Thing::MemorySessions, Side::Node, room as u64));
        }
        loops.quota.check(asker.holder, 1).map_err(|it| full(Thing::MemorySessions, it))?;
        let window = map_window(&shown, config.window_bytes).map_err(|error| {
            debug!(session = %id, %error, "no window");
            Refused::from(error)
        })?;
        let serial = loops.next_serial();
        let meter = self.meter_of_memory_session(asker)?;
        let link = NewSession::create(window, meter, serial, 0);
        let (rings, link) = link.map_err(|error| {
            debug!(session = %id, %error, "no rings");
            Code::Internal
        })?;
        let mut effects = Vec::new();
        let memory = &mut self.services.memory;
        memory.grants.serve(asker, &mut effects).map_err(refuse(id))?;
        if let Some(loops) = &mut memory.loops {
            loops.begin(id, asker.holder, link);
        }
        self.carry_out_memory(effects);
        self.open_remotes(id);
        debug!(session = %id, "delegates memory operations");
        let handles = u32::try_from(config.handles_per_session).unwrap_or(u32::MAX);
        let answer = reply(&MemoryReply::Session { depth: DEPTH_MAX as u32, handles });
        Ok(Answer { fds: vec![Rc::new(rings)], ..answer })
    }

    /// How much a session may do, where a rate without names is about it.
    fn meter_of_memory_session(&mut self, asker: &Asker) -> Result<Meter, Refused> {
        let subject = &self.session(asker.session)?.peer.subject;
        let rate = self.parts.config.rates.of_session(subject);
        let meters = &mut self.services.meters;
        let of = |rate| meters.of(rate, asker.session, asker.holder, monotonic_ns());
        Ok(rate.map_or_else(Meter::default, of))
    }

    /// How much a session may do by a handle, where a rate is about the name of its region.
    pub(super) fn meter_of_memory(&mut self, session: ObjectId, handle: ObjectId) -> Option<Meter> {
        let (_, name) = self.services.memory.grants.named(session, handle).ok()?;
        if let Some(who) = self.services.memory.across.users.get(session) {
            let (subject, who) = (peer_subject(who.user), (who.node, who.user));
            let rate = self.parts.config.rates.of_peer_name(&subject, who.0, &name?)?;
            return Some(self.services.meters.of_peer(rate, session, who, monotonic_ns()));
        }
        let subject = &self.connections.get(session)?.peer.subject;
        let rate = self.parts.config.rates.of_name(subject, &name?)?;
        let holder = self.holder(session).ok()?;
        Some(self.services.meters.of(rate, session, holder, monotonic_ns()))
    }

    /// The loops, which begin with the first session that asks.
    fn memory_loops(&mut self) -> Result<&mut MemoryLoops, Refused> {
        let config = &self.parts.config;
        if config.memory.sessions == 0 {
            return Err(Code::Denied.into());
        }
        if self.services.memory.loops.is_none() {
            let shares = shares::memory_sessions(config);
            let cluster = self.services.cluster.as_ref();
            let caller = || cluster.map(|cluster| cluster.nodes.caller());
            let page = &self.services.memory.page.mapping;
            let replicated = self.services.replica.as_ref().map(|it| &it.operations);
            let started = MemoryLoops::start(&config.memory, shares, page, caller, replicated);
            let started = started.map_err(|error| {
                error!(%error, "no delegated memory: the server loops cannot start");
                Code::Internal
            })?;
            self.poll.watch(&started.bell, Source::Memory).map_err(|_| Code::Internal)?;
            self.services.memory.loops = Some(started);
        }
        Ok(self.services.memory.loops.as_mut().ok_or(Code::Internal)?)
    }

    /// A session delegates no more, and stays. Its loop tells of each handle that it lets go of.
    pub(super) fn unserve_memory(&mut self, session: ObjectId) -> Result<Answer, Refused> {
        let memory = &mut self.services.memory;
        memory.grants.unserve(session);
        if let Some(loops) = &mut memory.loops {
            loops.end(session);
        }
        Ok(Reply::Done.into())
    }

    /// A session is served no more.
    pub(super) fn leave_memory(&mut self, session: ObjectId) {
        let memory = &mut self.services.memory;
        drop(memory.bells.remove(&session));
        if let Some(loops) = &mut memory.loops {
            loops.end(session);
        }
    }

    /// Attends to what the loops tell.
    pub(crate) fn attend_memory(&mut self) {
        let Some(loops) = &self.services.memory.loops else { return };
        let mut count = [0; 8];
        let _ = rustix::io::read(&loops.bell, &mut count);
        let bell = loops.bell.clone();
        let mut effects = Vec::new();
        for _ in 0..EVENTS_AT_ONCE {
            let received = self.services.memory.loops.as_ref().map(|it| it.events.try_recv());
            let Some(Ok(event)) = received else { return self.carry_out_memory(effects) };
            match event {
                Event::Service(MemoryEvent::Released { session, handle }) => {
                    self.services.memory.grants.let_go(session, handle, &mut effects);
                }
                Event::Service(MemoryEvent::Left { number, region, epoch }) => {
                    let memory = &mut self.services.memory;
                    let loops = memory.loops.as_ref();
                    let served = |session| loops.and_then(|it| it.sessions.get(&session));
                    let is_its =
                        |session| served(session).is_some_and(|it| it.loop_number == number);
                    memory.grants.left(region, epoch, is_its, &mut effects);
                }
                Event::Broken(session, how) => self.end_connection(session, how),
                Event::Gone => self.lose_memory_loop(),
            }
        }
        self.carry_out_memory(effects);
        // More of them: the bell brings us back after the others.
        let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
    }

    /// A loop's thread has ended, which it never does by itself. All loops end with it, and their
    /// sessions. When the last one is gone nobody touches anything, and the next session starts others.
    fn lose_memory_loop(&mut self) {
        let Some(loops) = &mut self.services.memory.loops else { return };
        loops.alive = loops.alive.saturating_sub(1);
        let is_last = loops.alive == 0;
        let sessions: Vec<_> = loops.sessions.keys().copied().collect();
        error!(sessions = sessions.len(), "a server loop of memory has ended");
        sessions.into_iter().for_each(|id| self.end_connection(id, "a server loop has ended"));
        let memory = &mut self.services.memory;
        if let Some(loops) = &mut memory.loops {
            loops.loops = None;
        }
        if is_last {
            let mut effects = Vec::new();
            memory.grants.let_all_go(&mut effects);
            if let Some(loops) = memory.loops.take() {
                self.poll.ignore(&loops.bell);
            }
            self.carry_out_memory(effects);
        }
    }
}

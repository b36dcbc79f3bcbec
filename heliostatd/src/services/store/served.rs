//! Sessions whose operations on areas are delegated: their loops, and what those tell.

use std::rc::Rc;

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::file::delegated::DEPTH_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::store::{StoreReply, Why};
use heliostat_base::clock::monotonic_ns;
use heliostat_server_loop::{map_window, Event, NewSession};
use heliostat_server_store::StoreEvent;
use heliostat_service_grant::Meter;
use heliostat_service_store::Asker;
use tracing::{debug, error};

use super::no::{reply, No};
use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::refused::{full, full_of, Refused};
use crate::shares;
use crate::state::store::StoreLoops;

/// Events attended to before others are served.
pub(super) const EVENTS_AT_ONCE: usize = 1024;

impl Daemon {
    /// A session wants its operations delegated: shown is [its window], the answer brings [rings].
    pub(super) fn serve_store(&mut self, asker: &Asker, shown: ReceivedFd) -> Result<Answer, No> {
        let id = asker.session;
        self.usable_store()?;
        let (window_bytes, handles) = {
            let config = &self.parts.config.store;
            (config.window_bytes, config.handles_per_session)
        };
        let loops = self.store_loops()?;
        if loops.sessions.contains_key(&id) {
            return Err(Code::BadState.into());
        }
        if loops.lets_go_of(id) {
            // Of when it delegated before: soon it has.
            return Err(Why::Busy.into());
        }
        let room = loops.loops.as_ref().map_or(0, |loops| loops.sessions_max());
        if loops.sessions.len() >= room {
            return Err(full_of(Thing::AreaSessions, Side::Node, room as u64).into());
        }
        loops.quota.check(asker.holder, 1).map_err(|it| full(Thing::AreaSessions, it))?;
        let window = map_window(&shown, window_bytes).map_err(|error| {
            debug!(session = %id, %error, "no window");
            Refused::from(error)
        })?;
        let serial = loops.next_serial();
        let meter = self.meter_of_store_session(asker)?;
        let link = NewSession::create(window, meter, serial, 0);
        let (rings, link) = link.map_err(|error| {
            debug!(session = %id, %error, "no rings");
            Code::Internal
        })?;
        if let Some(loops) = &mut self.services.store.loops {
            loops.begin(id, asker.holder, link);
        }
        let mut effects = Vec::new();
        self.usable_store()?.areas.serve(id, &mut effects);
        self.carry_out_store(effects);
        debug!(session = %id, "delegates operations on areas");
        let handles = u32::try_from(handles).unwrap_or(u32::MAX);
        let answer = reply(&StoreReply::Session { depth: DEPTH_MAX as u32, handles });
        Ok(Answer { fds: vec![Rc::new(rings)], ..answer })
    }

    /// How much a session may do, where a rate without names is about it.
    fn meter_of_store_session(&mut self, asker: &Asker) -> Result<Meter, Refused> {
        let subject = &self.session(asker.session)?.peer.subject;
        let rate = self.parts.config.rates.of_session(subject);
        let meters = &mut self.services.meters;
        let of = |rate| meters.of(rate, asker.session, asker.holder, monotonic_ns());
        Ok(rate.map_or_else(Meter::default, of))
    }

    /// The loops, which begin with the first session that asks.
    fn store_loops(&mut self) -> Result<&mut StoreLoops, No> {
        let config = &self.parts.config;
        if config.store.sessions == 0 {
            return Err(Code::Denied.into());
        }
        if self.services.store.loops.is_none() {
            let (shares, bell) = (shares::store_sessions(config), self.services.store.bell.clone());
            let started = StoreLoops::start(&config.store, shares, bell);
            let started = started.map_err(|error| {
                error!(%error, "no delegated areas: the server loops cannot start");
                Code::Internal
            })?;
            self.services.store.loops = Some(started);
            self.give_loops_device();
        }
        Ok(self.services.store.loops.as_mut().ok_or(Code::Internal)?)
    }

    /// A session delegates no more, and stays. Its handles go on as they are, of no use until it
    /// delegates again.
    pub(super) fn unserve_store(&mut self, session: ObjectId) {
        if let Some(loops) = &mut self.services.store.loops {
            loops.end(session);
        }
    }

    /// A session has ended.
    pub(super) fn end_store_session(&mut self, session: ObjectId) {
        let mut effects = Vec::new();
        if let Some(open) = self.services.store.open_mut() {
            open.areas.end(session, &mut effects);
        }
        self.carry_out_store(effects);
        self.unserve_store(session);
        self.services.store.waiting.remove(&session);
    }

    /// Takes everything from some sessions; how many handles those were. A program that has an area
    /// directly keeps its descriptor until it ends: the area stays as it is as long.
    pub(super) fn revoke_store(&mut self, sessions: &[ObjectId]) -> usize {
        let mut effects = Vec::new();
        let open = self.services.store.open_mut();
        let count = open.map_or(0, |open| open.areas.revoke(sessions, &mut effects));
        self.carry_out_store(effects);
        sessions.iter().for_each(|session| self.unserve_store(*session));
        count
    }

    /// Attends to what the loops tell.
    pub(super) fn attend_store_loops(&mut self) {
        for _ in 0..EVENTS_AT_ONCE {
            let received = self.services.store.loops.as_ref().map(|it| it.events.try_recv());
            let Some(Ok(event)) = received else { return };
            match event {
                Event::Service(StoreEvent::LetGo { handle }) => {
                    let mut effects = Vec::new();
                    let store = &mut self.services.store;
                    if let Some(loops) = &mut store.loops {
                        loops.let_go(handle);
                    }
                    if let Some(open) = store.open_mut() {
                        open.areas.let_go(handle, &mut effects);
                    }
                    self.carry_out_store(effects);
                }
                Event::Service(StoreEvent::Quiet { area, .. }) => self.loop_quiet(area),
                Event::Service(StoreEvent::DeviceFailed { errno, .. }) => {
                    let error = std::io::Error::from_raw_os_error(errno);
                    self.fail_store(format!("a server loop: {error}"));
                }
                Event::Broken(session, how) => self.end_connection(session, how),
                Event::Gone => self.lose_store_loop(),
            }
        }
        // More of them: the bell brings us back after the others.
        let _ = rustix::io::write(&self.services.store.bell, &1u64.to_ne_bytes());
    }

    /// A loop's thread has ended, which it never does by itself. All loops end with it, and their
    /// sessions. When the last one is gone nobody touches anything, and the next session starts others.
    fn lose_store_loop(&mut self) {
        let Some(loops) = &mut self.services.store.loops else { return };
        loops.alive = loops.alive.saturating_sub(1);
        let is_last = loops.alive == 0;
        let sessions: Vec<_> = loops.sessions.keys().copied().collect();
        error!(sessions = sessions.len(), "a server loop of areas has ended");
        sessions.into_iter().for_each(|id| self.end_connection(id, "a server loop has ended"));
        let store = &mut self.services.store;
        if let Some(loops) = &mut store.loops {
            loops.loops = None;
        }
        if is_last {
            store.loops = None;
            let mut effects = Vec::new();
            if let Some(open) = store.open_mut() {
                open.known.clear();
                open.unquiet.clear();
                open.areas.let_all_go(&mut effects);
            }
            self.carry_out_store(effects);
        }
    }
}

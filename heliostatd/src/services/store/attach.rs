//! How a store comes and goes: from the configuration, or shown to a control plane that runs.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_abi::store::{NotDone, StoreInfo, StoreReply, StoreState, Why};
use heliostat_service_grant::Rate;
use tracing::{error, info, warn};

use super::no::{reply, No};
use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::home::beside;
use crate::recovery::{recover_areas, runs, LeftLog};
use crate::shares;
use crate::state::store::{
    durability, is_distrusted, Event, Found, Kept, OpenStore, Opening, Place, State, StoreThread,
};

/// How long the start of the control plane waits for the store that the configuration names. If that
/// takes longer, programs are told to try again.
const START_WAIT: Duration = Duration::from_secs(5);

impl Daemon {
    /// Opens the store that the configuration names, if it names one. A store that cannot be opened
    /// keeps nobody from the other services.
    pub(super) fn open_configured_store(&mut self) {
        let kept = self.parts.home.as_ref().map(|home| beside(home.socket(), "store"));
        self.services.store.kept = Kept::load(kept);
        // One that was attached by hand is opened again, if it still is that one.
        let attached = self.services.store.kept.attached();
        let configured = self.parts.config.store.path.clone().map(|path| (path, None));
        let found = configured.or(attached.map(|(path, identity)| (path, Some(identity))));
        let Some((path, wanted)) = found else { return };
        let place = path.display().to_string();
        self.begin_store(self.opening(Place::Path(path), wanted), place, None);
        let thread = self.services.store.thread.as_ref();
        let told = thread.map(|thread| thread.wait(START_WAIT));
        if let Some(Ok(event)) = told {
            self.take_store_event(event);
        }
    }

    /// Takes a store in that somebody shows: [the file or disk].
    pub(super) fn attach_store(&mut self, id: ObjectId, shown: &ReceivedFd) -> Result<Answer, No> {
        if !self.is_owner(id) {
            return Err(Code::Denied.into());
        }
        match &self.services.store.state {
            State::None(_) => {}
            State::Opening { place, .. } => {
                return Err(NotDone::told(Why::Opening, place.clone()).into());
            }
            State::Open(open) => {
                return Err(NotDone::told(Why::HasStore, open.place.clone()).into());
            }
        }
        // The thread opens it anew, with a lock of its own; whoever shows it may close his.
        let copy = shown.as_fd().try_clone_to_owned().map_err(|_| Code::Internal)?;
        let from = Place::Shown(copy);
        let place = std::fs::read_link(from.path()).unwrap_or_else(|_| from.path());
        let sequence = self.sequence_of(id)?;
        let waiter = (id, sequence);
        let opening = self.opening(from, None);
        self.begin_store(opening, place.display().to_string(), Some(waiter));
        if let State::None(why) = &self.services.store.state {
            return Err(NotDone::told(Why::NotOpened, why.clone()).into());
        }
        self.answer_later(id);
        // Not sent: `answer_later` says so.
        Ok(Reply::Done.into())
    }

    fn opening(&self, place: Place, wanted: Option<[u8; 16]>) -> Opening {
        let config = &self.parts.config.store;
        Opening { place, wanted, durability: config.durability, discard: config.discard }
    }

    fn begin_store(&mut self, opening: Opening, place: String, waiter: Option<(ObjectId, u32)>) {
        let store = &mut self.services.store;
        match StoreThread::start(opening, store.bell.clone()) {
            Ok(thread) => {
                store.thread = Some(thread);
                store.state = State::Opening { place, waiter };
            }
            Err(error) => store.state = State::None(format!("{place}: {error}")),
        }
    }

    /// The thread has opened the store, or has not.
    pub(super) fn store_opened(&mut self, result: Result<Box<Found>, String>) {
        let before = std::mem::replace(&mut self.services.store.state, State::None(String::new()));
        let State::Opening { place, waiter } = before else {
            return self.services.store.state = before;
        };
        let answer = match result {
            Ok(found) => {
                let limits = shares::store(&self.parts.config);
                let left = left_logs(&found);
                let mut open = OpenStore::new(place, *found, limits, |uid| self.holder_of(uid));
                let (areas, free) = (open.areas.count(), open.numbers.free_bytes);
                info!(store = open.place, areas, free, "the store is open");
                recover_logs(&mut open, left);
                self.services.store.state = State::Open(Box::new(open));
                self.give_loops_device();
                self.keep_store(waiter.is_some());
                Ok(reply(&StoreReply::Store(self.store_info())))
            }
            Err(why) => {
                error!(store = place, why, "there is no store: it cannot be opened");
                self.services.store.thread = None;
                let text = format!("{place}: {why}");
                self.services.store.state = State::None(text.clone());
                Err(No::from(NotDone::told(Why::NotOpened, text)))
            }
        };
        if let Some((session, sequence)) = waiter {
            self.answer_store_late(session, sequence, answer);
        }
    }

    /// Of a store that was opened: has what was said of its areas hold again, and keeps where it lies, if
    /// somebody has shown it.
    fn keep_store(&mut self, is_shown: bool) {
        let mut effects = Vec::new();
        let store = &mut self.services.store;
        let State::Open(open) = &mut store.state else { return };
        let (identity, place) = (open.facts.identity, PathBuf::from(&open.place));
        if is_shown && place.is_absolute() {
            store.kept.set_attached(Some((place, identity)));
        }
        let rates = store.kept.rates(&identity);
        let all: Vec<_> = open.areas.list(0, "", |_| true).collect();
        store.kept.forget(&identity, |of| all.iter().any(|area| area.generation == of));
        for area in all {
            let Some(per_second) = rates.get(&area.generation).copied() else { continue };
            let rate = Rate { per_second, burst: per_second };
            // Nobody has a handle yet, so nothing stands in the way.
            let _ = open.areas.set_rate(area.area, rate, &mut effects);
        }
        self.carry_out_store(effects);
    }

    /// Lets go of the store, on whose areas nobody has a handle.
    pub(super) fn detach_store(&mut self, id: ObjectId) -> Result<Answer, No> {
        if !self.is_owner(id) {
            return Err(Code::Denied.into());
        }
        let open = self.open_store_even_failed()?;
        let (handles, _) = open.areas.handle_count();
        if handles > 0 {
            return Err(NotDone::of(Why::InUse, 0, handles as u64).into());
        }
        // Who recovers a log has the device.
        let is_recovering = self.services.store.open().is_some_and(|it| it.recovering.has_any());
        if is_recovering || !self.services.store.waiting.is_empty() {
            return Err(Why::Busy.into());
        }
        self.close_store("it was detached");
        self.services.store.kept.set_attached(None);
        Ok(Reply::Done.into())
    }

    /// Forgets the store; its thread ends when it has done what was ordered.
    pub(super) fn close_store(&mut self, why: &str) {
        let store = &mut self.services.store;
        if let Some(open) = store.open() {
            info!(store = open.place, why, "the store is closed");
            let known: Vec<ObjectId> = open.known.iter().copied().collect();
            if let Some(loops) = &store.loops {
                known.into_iter().for_each(|area| {
                    loops.tell_all(|| heliostat_server_store::StoreOrder::Gone { area });
                });
                loops.take_device();
            }
        }
        store.thread = None;
        store.state = State::None(why.to_owned());
    }

    /// Gives the loops a device each, if there are both.
    pub(super) fn give_loops_device(&mut self) {
        let store = &self.services.store;
        let (Some(open), Some(loops)) = (store.open(), &store.loops) else { return };
        let does_discard = open.numbers.does_discard;
        if let Err(error) = loops.give_device(&open.file, open.facts.durable_by, does_discard) {
            warn!(%error, "server loops have no device: operations on areas fail");
        }
    }

    /// What people are told of the store.
    pub(super) fn store_info(&self) -> StoreInfo {
        let direct_max = self.parts.config.store.direct_max;
        match &self.services.store.state {
            State::None(why) => StoreInfo { text: why.clone(), ..StoreInfo::default() },
            State::Opening { place, .. } => {
                let state = StoreState::Opening;
                StoreInfo { state, text: place.clone(), ..StoreInfo::default() }
            }
            State::Open(open) => open.info(direct_max),
        }
    }

    /// The store, whether its device has failed or not.
    pub(super) fn open_store_even_failed(&self) -> Result<&OpenStore, No> {
        match &self.services.store.state {
            State::None(why) => Err(NotDone::told(Why::NoStore, why.clone()).into()),
            State::Opening { place, .. } => Err(NotDone::told(Why::Opening, place.clone()).into()),
            State::Open(open) => Ok(open),
        }
    }

    /// The store, if it can be used.
    ///
    /// # Errors
    /// There is none, or its device has failed.
    pub(super) fn usable_store(&mut self) -> Result<&mut OpenStore, No> {
        if self.open_store_even_failed()?.failed.is_some() {
            return Err(No::NotDone(self.device_failed(), Code::Internal));
        }
        Ok(self.services.store.open_mut().ok_or(Code::Internal)?)
    }

    /// What the thread has told.
    pub(super) fn take_store_event(&mut self, event: Event) {
        match event {
            Event::Opened(result) => self.store_opened(result),
            Event::Done(area, result, numbers) => self.store_done(area, result, numbers),
            Event::Zeroed(numbers) => {
                if let Some(open) = self.services.store.open_mut() {
                    open.numbers = numbers;
                }
            }
            Event::DeviceFailed(why) => self.fail_store(why),
        }
    }

    /// The device has failed: everything is refused until the store is attached anew.
    pub(super) fn fail_store(&mut self, why: String) {
        let Some(open) = self.services.store.open_mut() else { return };
        if open.failed.is_none() {
            error!(store = open.place, why, "the device of the store has failed");
            open.failed = Some(why);
        }
    }
}

/// Logs of durable files that an earlier run of the machine has left. What one says that others than its owner
/// may have written is not done with its owner's rights.
fn left_logs(found: &Found) -> Vec<LeftLog> {
    let (doubtful, left): (Vec<_>, Vec<_>) =
        found.areas.iter().filter(|it| it.is_left).partition(|it| is_distrusted(it.area.rights));
    for it in doubtful {
        let (area, owner) = (it.area.name.to_string(), it.area.owner);
        warn!(area, owner, "others may have written this log: `heliostat recover` decides");
    }
    let left = left.into_iter().map(|it| {
        let (generation, name) = (it.area.generation, it.area.name.to_string());
        LeftLog { generation, name, owner: it.area.owner, runs: runs(&it.pieces) }
    });
    left.collect()
}

/// Has them put into their files, but those that a program still drives: the machine has not crashed for it.
fn recover_logs(open: &mut OpenStore, mut left: Vec<LeftLog>) {
    left.retain(|log| !open.is_granted(log.generation, 0));
    if !left.is_empty() {
        open.recovering = recover_areas(left, &open.file, durability(open.facts.durable_by));
    }
}

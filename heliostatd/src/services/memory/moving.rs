//! Moves of regions: who is in one, the bytes that are copied, and how that stands.
//!
//! ```text
//! Move --> word: moving --> loops have left, presence pages are quiet --> copied, 1 MiB a turn --> live
//!                '-- somebody does not leave in 2 s: the region stays where it was, and the asker hears who
//! ```
//! The loop of events copies, a piece in each of its turns, so that nobody waits for a large region but
//! who uses it. Pages of the new pieces are asked for before they are written: where there is no memory
//! that is an error, and no signal.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use heliostat_abi::code::Code;
use heliostat_abi::memory::presence::{PRESENCE_BYTES, PRESENCE_ROWS, PRESENCE_SLOTS};
use heliostat_abi::memory::{MemoryReply, MoveStage, MoveState};
use heliostat_abi::name::ObjectId;
use heliostat_base::clock::monotonic_ns;
use heliostat_base::mapping::SharedMapping;
use heliostat_server_loop::Presence;
use heliostat_service_memory::{Asker, Effect, MoveEnd};
use tracing::{debug, info, warn};

use super::requests::{moved_to, reply};
use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};
use crate::state::memory::{Copied, Copying, Departure, RegionMemory};

/// How long it takes until presence pages are looked at again.
const LOOK_NS: u64 = 1_000_000;

/// A session's presence page, in an answer.
fn presence_answer(fd: Rc<OwnedFd>) -> Answer {
    let places = (PRESENCE_SLOTS * PRESENCE_ROWS) as u64;
    Answer { fds: vec![fd], ..reply(&MemoryReply::Page { places }) }
}

impl Daemon {
    /// Moves the region of a handle to other pieces.
    pub(super) fn move_memory(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        node: u64,
    ) -> Result<Answer, Refused> {
        let id = asker.session;
        let held = self.services.memory.grants.handle(id, handle).map(|(region, _)| region);
        if held.is_some_and(|region| self.services.memory.departures.contains_key(&region)) {
            // It moves, or did, and a node has yet to answer about that.
            return Err(Code::BadState.into());
        }
        if node != 0 && self.own_node() != Some(node) {
            return self.move_memory_away(asker, handle, node);
        }
        let room = self.services.memory.grants.check_move(asker, handle);
        let (uid, holder, room) = room.map_err(refuse(id))?;
        let arena = self.make_room_in(uid, holder, room)?;
        let (mut effects, now_ns) = (Vec::new(), monotonic_ns());
        let grants = &mut self.services.memory.grants;
        let begun = grants.begin_move(asker, handle, arena, now_ns, &mut effects);
        self.carry_out_memory(effects);
        let region = begun.map_err(refuse(id))?;
        debug!(session = %id, %region, "a region moves");
        self.go_on_with_moves(now_ns);
        self.memory_move_state(id, handle)
    }

    /// How the last move of the region of a handle stands.
    pub(super) fn memory_move_state(
        &mut self,
        id: ObjectId,
        handle: ObjectId,
    ) -> Result<Answer, Refused> {
        let memory = &self.services.memory;
        if let Some((_, forward)) = memory.grants.forward(id, handle) {
            return Ok(reply(&MemoryReply::Moving(moved_to(forward))));
        }
        let found = memory.grants.move_state(id, handle).map_err(refuse(id))?;
        let (region, mut stage, end) = found;
        let departure = memory.departures.get(&region);
        if stage == MoveStage::Copying && departure.is_some_and(Departure::is_in_doubt) {
            stage = MoveStage::Doubt;
        }
        let bytes = memory.grants.pieces(region).map_or(0, |(_, bytes)| bytes);
        let done = match stage {
            MoveStage::Done => bytes,
            _ => match departure {
                Some(departure) => departure.done,
                None => memory.copies.get(&region).map_or(0, |copying| copying.done),
            },
        };
        let node = departure.map_or(0, |it| it.peer.node.0);
        let process = match end {
            // A user of another node is no process of this one.
            MoveEnd::Held(session) => self.session(session).map_or(0, |held| held.pid()),
            _ => 0,
        };
        let state = MoveState { stage, process, done, bytes, node, region };
        Ok(reply(&MemoryReply::Moving(state)))
    }

    /// The page in which a session says where it is: [the page]. It is the same each time: what counts
    /// in it is added up, so that any number of a program's accesses to memory may use it.
    pub(super) fn presence_page(&mut self, asker: &Asker) -> Result<Answer, Refused> {
        if !asker.maps {
            return Err(Code::Denied.into());
        }
        if let Some((_, fd)) = self.services.memory.presence.get(&asker.session) {
            return Ok(presence_answer(fd.clone()));
        }
        let made = SharedMapping::create(c"heliostat-presence", PRESENCE_BYTES);
        let (fd, mapping) = made.map_err(|error| {
            warn!(session = %asker.session, %error, "no memory for a presence page");
            Code::Internal
        })?;
        let page = Presence::new(mapping.into()).ok_or(Code::Internal)?;
        let fd = Rc::new(OwnedFd::from(fd));
        self.services.memory.presence.insert(asker.session, (page, fd.clone()));
        Ok(presence_answer(fd))
    }

    /// Nobody is in a region that moves: its bytes are copied from now on.
    pub(super) fn begin_copy(&mut self, region: ObjectId, effects: &mut Vec<Effect>) {
        let memory = &mut self.services.memory;
        if memory.departures.contains_key(&region) {
            return self.stage_departure(region, effects);
        }
        let Some(plan) = memory.grants.copy_plan(region) else { return };
        match Copying::begin(&mut memory.arenas, &plan) {
            Ok(copying) => drop(memory.copies.insert(region, copying)),
            Err(error) => {
                warn!(%region, %error, "a region cannot be moved");
                memory.grants.cancel_move(region, MoveEnd::Failed, effects);
            }
        }
    }

    /// Looks who has left, gives up what takes too long, and copies the next bytes.
    pub(crate) fn go_on_with_moves(&mut self, now_ns: u64) {
        let memory = &mut self.services.memory;
        if memory.grants.forward_count() > 0 {
            memory.grants.expire_forwards(now_ns);
        }
        if memory.grants.moves().next().is_none() {
            memory.copies.clear();
            return self.tidy_departures();
        }
        let mut effects = Vec::new();
        if memory.look_ns <= now_ns {
            memory.look_ns = now_ns.saturating_add(LOOK_NS);
            memory.look_who_is_in(&mut effects);
            memory.grants.expire_moves(now_ns, &mut effects);
        }
        memory.copy_some(&mut effects);
        self.end_late_stages(now_ns, &mut effects);
        self.carry_out_memory(effects);
        self.tidy_departures();
        self.ask_about_doubts(now_ns);
        self.send_departures();
    }
}

impl RegionMemory {
    /// When moves go on.
    pub(crate) fn next_move_ns(&self) -> Option<u64> {
        self.grants.moves().next()?;
        let has_bytes = !self.copies.is_empty() || self.departures.values().any(|it| it.can_send());
        Some(if has_bytes { 0 } else { self.look_ns })
    }

    fn look_who_is_in(&mut self, effects: &mut Vec<Effect>) {
        let regions: Vec<_> = self.grants.moves().collect();
        for region in regions {
            for (session, handle) in self.grants.may_be_in(region) {
                // Who has no page yet has not looked at the region's word, and will see that it moves.
                let page = self.presence.get(&session).map(|(page, _)| page);
                if page.is_none_or(|page| page.is_quiet(handle)) {
                    self.grants.is_out(region, (session, handle), effects);
                }
            }
        }
    }

    /// Copies a piece of one region; each has its turn.
    fn copy_some(&mut self, effects: &mut Vec<Effect>) {
        let after =
            self.copies.range((std::ops::Bound::Excluded(self.copied), std::ops::Bound::Unbounded));
        let next = after.chain(self.copies.iter()).next().map(|(region, _)| *region);
        let Some(region) = next else { return };
        self.copied = region;
        // It may have ended meanwhile.
        let copying = self.copies.get_mut(&region).filter(|_| self.grants.is_copying(region));
        let copied = copying.map(|copying| copying.go_on(&self.arenas));
        match copied {
            Some(Ok(Copied::Some)) => return,
            Some(Ok(Copied::All)) => {
                info!(%region, "a region has moved");
                self.grants.copied(region, effects);
            }
            Some(Err(error)) => {
                warn!(%region, %error, "a region stays where it was");
                self.grants.cancel_move(region, MoveEnd::Failed, effects);
            }
            None => {}
        }
        self.copies.remove(&region);
    }
}

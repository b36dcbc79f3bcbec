//! Regions that leave for another node, and those that come from one.
//!
//! ```text
//! this node                                   that node
//! Move: whoever is in it leaves
//!   Stage -------------------------------->   a region that nobody sees
//!   bytes -------------------------------->   written, as by any program of this node
//!   Appoint, Adopt ----------------------->   a region as any other, with its name
//!   <-------------------------------- Done
//! gone here, with a record where it is        its only manager is this node, until others map it
//! ```
//! Up to Adopt a refusal, a lost link, or an answer that is none gives the move up, and what was staged
//! ends with the link. An Adopt without an answer, or with one that is none, leaves a doubt: the region
//! moves on, and serves nobody, until that node says whether it has it, or is joined in another life, in
//! which it has not.

use heliostat_abi::cluster::Class;
use heliostat_abi::code::Code;
use heliostat_abi::memory::peer::{PeerAnswer, PeerHandle, PeerReply};
use heliostat_abi::memory::request::SERVICE;
use heliostat_abi::memory::{Allocation, MemoryName, MemoryReply, MemoryRequest, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_control::rights::Right;
use heliostat_server_node::{Effect as Done, NodeCall, Outcome, PeerNode};
use heliostat_service_grant::{is_of_peer, Granted};
use heliostat_service_memory::{Asker, Departing, Effect, Forward, MoveEnd};
use tracing::{debug, info, warn};

use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};
use crate::services::cluster::via;
use crate::state::memory::{Departure, Step, Waiting, Wanted};
use crate::state::returns::Return;

/// How long a message with bytes may be on its way.
const WRITE_NS: u64 = 10_000_000_000;
/// How long a region that waits for its place there serves nobody: then it stays. The answer is waited
/// for longer, since it brings a handle that has to be given back.
const STAGE_NS: u64 = 10_000_000_000;

/// What came of a request to the other node.
enum Heard {
    /// Its answer.
    Answer(PeerReply),
    /// None; whether it may have been done all the same.
    Nothing { may_be_done: bool },
}

/// How long it takes until a node is asked again whether it has a region.
const ASK_NS: u64 = 500_000_000;

impl Daemon {
    /// Moves the region of a handle to another node.
    pub(super) fn move_memory_away(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        node: u64,
    ) -> Result<Answer, Refused> {
        let id = asker.session;
        if !asker.is_user {
            return Err(Code::Denied.into());
        }
        let peer = self.joined_node(node).ok_or(Code::Unreachable)?;
        let (mut effects, now_ns) = (Vec::new(), monotonic_ns());
        let memory = &mut self.services.memory;
        let begun = memory.grants.begin_departure(asker, handle, now_ns, &mut effects);
        let region = begun.map_err(refuse(id))?;
        let (user, _) = memory.grants.owner(region).ok_or(Code::Stale)?;
        let serial = memory.across.asks.next_token();
        memory.departures.insert(region, Departure::new(peer, user, serial));
        debug!(session = %id, %region, node, "a region begins to leave");
        self.carry_out_memory(effects);
        self.go_on_with_moves(now_ns);
        self.memory_move_state(id, handle)
    }

    /// Everybody has left: the other node makes a place for it.
    pub(super) fn stage_departure(&mut self, region: ObjectId, effects: &mut Vec<Effect>) {
        let memory = &mut self.services.memory;
        let area = memory.area(region).map(|(area, _)| area);
        let departing = memory.grants.departing(region);
        let departure = memory.departures.get_mut(&region);
        let (Some(area), Some(departing), Some(departure)) = (area, departing, departure) else {
            memory.departures.remove(&region);
            return memory.grants.cancel_move(region, MoveEnd::Failed, effects);
        };
        let Departing { bytes, appointed, .. } = departing;
        departure.has_area(area, bytes);
        departure.appointed = appointed;
        departure.step = Step::Stage;
        departure.stage_until_ns = monotonic_ns().saturating_add(STAGE_NS);
        let wanted = Allocation { bytes, lasting: false, name: None, others: Rights::NONE };
        self.ask_departure(region, MemoryRequest::Stage(wanted));
    }

    /// Asks the other node something about a region that leaves.
    fn ask_departure(&mut self, region: ObjectId, request: MemoryRequest) {
        let Some(departure) = self.services.memory.departures.get(&region) else { return };
        let (peer, user, wanted) = (departure.peer, departure.user, Wanted::Departure(region));
        let (class, returned) = (Class::Normal, None);
        let (waiter, is_restricted) = (None, false);
        let waiting = Waiting { waiter, peer, user, is_restricted, wanted, class, returned };
        if self.send_to_peer(waiting, 0, request).is_err() {
            self.hear_departure(region, Heard::Nothing { may_be_done: false });
        }
    }

    /// The other node has answered about a region that leaves, or will not.
    pub(super) fn take_departure_answer(&mut self, region: ObjectId, outcome: Outcome) {
        let heard = match outcome {
            Ok(reply) => match PeerReply::decode(&reply.header, &reply.payload) {
                Ok(reply) => Heard::Answer(reply),
                // It breaks the protocol, and is believed nothing.
                Err(_) => Heard::Nothing { may_be_done: true },
            },
            Err(error) => Heard::Nothing { may_be_done: error.effect == Done::Unknown },
        };
        self.hear_departure(region, heard);
    }

    fn hear_departure(&mut self, region: ObjectId, heard: Heard) {
        let memory = &mut self.services.memory;
        let Some(departure) = memory.departures.get_mut(&region) else { return };
        let is_there = memory.grants.is_copying(region);
        match (departure.step, heard) {
            (Step::Stage, Heard::Answer(PeerReply::Own { session, reply })) => {
                let Ok(MemoryReply::Granted(granted)) = MemoryReply::decode(&reply) else {
                    return self.cancel_departure(region);
                };
                departure.is_staged(session, &granted);
                if !is_there || granted.bytes != departure.bytes() {
                    return self.cancel_departure(region);
                }
                self.send_departures();
            }
            (_, _) if !is_there && departure.step != Step::Adopt => self.cancel_departure(region),
            (Step::Appoint(done), Heard::Answer(PeerReply::Done)) => {
                departure.step = Step::Appoint(done + 1);
                self.appoint_or_adopt(region);
            }
            (Step::Adopt, Heard::Answer(PeerReply::Done)) if is_there => self.depart(region),
            // It has ended here meanwhile, and does there with its last manager; or is freed.
            (Step::Adopt, Heard::Answer(PeerReply::Done)) => self.free_departed(region),
            // Another answer than one of these two says nothing.
            (
                Step::Adopt,
                Heard::Nothing { may_be_done: true } | Heard::Answer(PeerReply::Own { .. }),
            ) => {
                warn!(%region, node = %departure.peer.node, "a region may be on that node, or not");
                departure.step = Step::Doubt;
            }
            (Step::Ask, Heard::Answer(PeerReply::Own { session, reply })) => {
                departure.there = match MemoryReply::decode(&reply) {
                    Ok(MemoryReply::Granted(granted)) if departure.is_it(&granted) => {
                        Some(PeerHandle { session, handle: granted.handle })
                    }
                    // It has left that node since.
                    Ok(MemoryReply::Moving(_)) => None,
                    _ => return departure.step = Step::Doubt,
                };
                self.depart(region);
            }
            (Step::Ask, Heard::Answer(PeerReply::Refused { code, .. })) => match code {
                // Asked for its owner, who may map it if it is there: whoever has none is told Denied too.
                Code::NotFound | Code::Stale | Code::Denied => {
                    departure.there = None;
                    self.cancel_departure(region);
                }
                _ => departure.step = Step::Doubt,
            },
            (Step::Ask | Step::Doubt, _) => departure.step = Step::Doubt,
            _ => self.cancel_departure(region),
        }
    }

    /// Has the regions stay for which the other node makes no place in time.
    pub(super) fn end_late_stages(&mut self, now_ns: u64, effects: &mut Vec<Effect>) {
        let memory = &mut self.services.memory;
        for (region, departure) in &memory.departures {
            if departure.step == Step::Stage && departure.stage_until_ns <= now_ns {
                memory.grants.cancel_move(*region, MoveEnd::Failed, effects);
            }
        }
    }

    /// Ends the departures whose regions stay, or have ended, where no answer is to come.
    pub(super) fn tidy_departures(&mut self) {
        let memory = &self.services.memory;
        let is_over = |(region, it): (&ObjectId, &Departure)| {
            let is_over = memory.grants.departing(*region).is_none() && !it.is_asked();
            is_over.then_some(*region)
        };
        let over: Vec<_> = memory.departures.iter().filter_map(is_over).collect();
        over.into_iter().for_each(|region| self.cancel_departure(region));
    }

    /// Sends the next bytes of regions that leave.
    pub(super) fn send_departures(&mut self) {
        let ready = |(region, it): (&ObjectId, &Departure)| {
            (it.can_send() || it.is_copied()).then_some(*region)
        };
        let ready: Vec<_> = self.services.memory.departures.iter().filter_map(ready).collect();
        ready.into_iter().for_each(|region| self.send_departure(region));
    }

    fn send_departure(&mut self, region: ObjectId) {
        let memory = &mut self.services.memory;
        if !memory.grants.is_copying(region) {
            return self.cancel_departure(region);
        }
        let Some(departure) = memory.departures.get_mut(&region) else { return };
        let (peer, serial) = (departure.peer, departure.serial);
        let Ok(messages) = departure.next() else { return self.cancel_departure(region) };
        for (header, payload) in messages {
            let bytes = payload.len() as u64;
            let token = self.services.memory.across.asks.next_token();
            let deadline_ns = monotonic_ns().saturating_add(WRITE_NS);
            let (node, link) = (peer.node, Some(peer.link));
            let call = NodeCall { node, link, service: SERVICE, header, payload, deadline_ns };
            self.services.memory.writes.insert(token, ((region, serial), bytes));
            if let Err(error) = self.call_node(token, call) {
                debug!(%region, %error, "bytes of a region are not sent");
                self.services.memory.writes.remove(&token);
                return self.cancel_departure(region);
            }
        }
        self.adopt_if_copied(region);
    }

    /// A message with bytes has its answer; whether it was one.
    pub(super) fn take_written(&mut self, token: u64, outcome: &Outcome) -> bool {
        let memory = &mut self.services.memory;
        let Some(((region, serial), bytes)) = memory.writes.remove(&token) else { return false };
        let answer = outcome.as_ref().ok().and_then(|it| PeerAnswer::decode(&it.header).ok());
        let departure = memory.departures.get_mut(&region).filter(|it| it.serial == serial);
        let Some(departure) = departure else { return true };
        if answer.is_some_and(|answer| answer.result == Ok(bytes)) {
            departure.written(bytes);
            self.send_departure(region);
        } else if departure.step == Step::Copy {
            self.cancel_departure(region);
        }
        true
    }

    fn adopt_if_copied(&mut self, region: ObjectId) {
        let departure = self.services.memory.departures.get_mut(&region);
        if let Some(departure) = departure.filter(|departure| departure.is_copied()) {
            departure.step = Step::Appoint(0);
            self.appoint_or_adopt(region);
        }
    }

    fn appoint_or_adopt(&mut self, region: ObjectId) {
        let memory = &mut self.services.memory;
        let Some(departure) = memory.departures.get_mut(&region) else { return };
        let (Some(there), Step::Appoint(done)) = (departure.there, departure.step) else { return };
        let handle = there.handle;
        if let Some((user, rights)) = departure.appointed.get(done).copied() {
            return self.ask_departure(region, MemoryRequest::Appoint { handle, user, rights });
        }
        let Some(Departing { name, others, lasting, .. }) = memory.grants.departing(region) else {
            return self.cancel_departure(region);
        };
        departure.step = Step::Adopt;
        self.ask_departure(region, MemoryRequest::Adopt { handle, others, lasting, name });
    }

    /// The other node has it: from here on it is there, and nowhere else.
    fn depart(&mut self, region: ObjectId) {
        let memory = &mut self.services.memory;
        let Some(departure) = memory.departures.remove(&region) else { return };
        let forward = Forward { node: departure.peer.node.0, region: departure.region };
        // First: where nobody here managed it, it is given back at once.
        if let Some(keeper) = departure.handle() {
            memory.keepers.insert(region, keeper);
        }
        let mut effects = Vec::new();
        memory.grants.departed(region, forward, monotonic_ns(), &mut effects);
        info!(%region, node = forward.node, there = %forward.region, "a region has left");
        self.carry_out_memory(effects);
    }

    /// The move is given up: the region is here, and what was staged there ends.
    fn cancel_departure(&mut self, region: ObjectId) {
        let Some(departure) = self.services.memory.departures.remove(&region) else { return };
        info!(%region, node = %departure.peer.node, "a region does not leave");
        if let Some(handle) = departure.handle() {
            self.give_back_remote(Return { remote: handle, tries: 0 });
        }
        let mut effects = Vec::new();
        self.services.memory.grants.cancel_move(region, MoveEnd::Failed, &mut effects);
        self.carry_out_memory(effects);
    }

    /// A region has ended here while the other node adopted it: it ends there too.
    fn free_departed(&mut self, region: ObjectId) {
        let handle = self.services.memory.departures.get(&region).and_then(|it| it.there);
        if let Some(there) = handle {
            self.ask_departure(region, MemoryRequest::Free { handle: there.handle });
        }
        self.services.memory.departures.remove(&region);
    }

    /// Nobody here manages a region any more that has left.
    pub(super) fn give_keeper_back(&mut self, region: ObjectId) {
        if let Some(keeper) = self.services.memory.keepers.remove(&region) {
            self.give_back_remote(Return { remote: keeper, tries: 0 });
        }
    }

    /// A node is lost: handles there have ended.
    pub(super) fn lose_keepers(&mut self, peer: PeerNode) {
        self.services.memory.keepers.retain(|_, keeper| keeper.via() != via(peer));
    }

    /// Asks again about regions that are in doubt: an answer that says nothing may have come after the
    /// node was joined again, and it is not joined a second time for that.
    pub(super) fn ask_about_doubts(&mut self, now_ns: u64) {
        let all = self.services.memory.departures.values_mut();
        let due = all.filter(|it| it.step == Step::Doubt && it.ask_ns <= now_ns);
        let mut nodes: Vec<_> = due
            .map(|departure| {
                departure.ask_ns = now_ns.saturating_add(ASK_NS);
                departure.peer.node
            })
            .collect();
        nodes.dedup();
        for node in nodes {
            if let Some(peer) = self.joined_node(node.0) {
                self.settle_doubts(peer);
            }
        }
    }

    /// A node is joined: it says what it has, where that is in doubt.
    pub(super) fn settle_doubts(&mut self, peer: PeerNode) {
        let doubts = self
            .services
            .memory
            .departures
            .iter()
            .filter(|(_, it)| it.step == Step::Doubt && it.peer.node == peer.node);
        let doubts: Vec<_> = doubts.map(|(region, _)| *region).collect();
        for region in doubts {
            let Some(departure) = self.services.memory.departures.get_mut(&region) else {
                continue;
            };
            if departure.peer.incarnation != peer.incarnation {
                // What it had has ended with its earlier life.
                departure.there = None;
                self.cancel_departure(region);
                continue;
            }
            (departure.peer, departure.step) = (peer, Step::Ask);
            let (region_there, rights) = (departure.region, Rights::ALL);
            let asked = MemoryRequest::MapRegion { region: region_there, rights };
            self.ask_departure(region, asked);
        }
    }

    /// Makes a region for the bytes of another node's.
    pub(super) fn stage_memory(
        &mut self,
        asker: &Asker,
        wanted: Allocation,
    ) -> Result<Answer, Refused> {
        let is_bare = wanted.name.is_none() && !wanted.lasting && wanted.others.is_empty();
        if !is_of_peer(asker.session) || !is_bare {
            return Err(Code::BadRecord.into());
        }
        let handle = self.allocate_handle(asker, wanted)?;
        self.services.memory.grants.stage(asker.session, handle);
        self.granted_memory(asker.session, handle, 0)
    }

    /// Makes such a region one for all.
    pub(super) fn adopt_memory(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        (name, others): (Option<MemoryName>, Rights),
        lasting: bool,
    ) -> Result<Answer, Refused> {
        if !is_of_peer(asker.session) {
            return Err(Code::BadRecord.into());
        }
        if let Some(name) = &name {
            self.check_memory_right(asker, Right::Publish, name, asker.uid)?;
        }
        let grants = &mut self.services.memory.grants;
        let adopted = grants.adopt(asker.session, handle, (name, others), lasting);
        adopted.map_err(refuse(asker.session))?;
        Ok(Reply::Done.into())
    }
}

//! Each request of a session, from its record to its answer.

use heliostat_abi::code::Code;
use heliostat_abi::memory::name::OWN_USER;
use heliostat_abi::memory::peer::place_elsewhere;
use heliostat_abi::memory::{
    Allocation, MemoryName, MemoryReply, MemoryRequest, MoveStage, MoveState, Rights,
};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{Bound, Reply};
use heliostat_base::clock::monotonic_ns;
use heliostat_control::rights::Right;
use heliostat_control::rules::Decision;
use heliostat_service_grant::{is_of_peer, Holder};
use heliostat_service_memory::{Asker, Forward, Key, Room};
use tracing::{debug, warn};

use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};
use crate::state::memory::Arena;

/// What is not allowed, and why.
#[derive(Clone, Copy)]
pub(super) struct Denial {
    right: Right,
    decision: Decision,
}

/// A reply of the memory service as an answer.
pub(super) fn reply(reply: &MemoryReply) -> Answer {
    Reply::Own(Box::new(reply.encode())).into()
}

impl Daemon {
    /// Answers a request that was decoded.
    pub(super) fn answer_memory(
        &mut self,
        id: ObjectId,
        request: MemoryRequest,
        shown: Option<ReceivedFd>,
    ) -> Result<Answer, Refused> {
        let asker = self.memory_asker(id)?;
        if let Some(handle) = handle_elsewhere(&request) {
            return self.ask_holder(&asker, handle, request);
        }
        match request {
            MemoryRequest::Allocate(wanted) => self.allocate_memory(&asker, wanted),
            MemoryRequest::Replicate(wanted) => self.replicate_memory(&asker, wanted),
            MemoryRequest::Map { user, name, rights } => {
                self.map_memory(&asker, user, name, rights)
            }
            MemoryRequest::MapRegion { region, rights } => {
                self.map_memory_region(&asker, region, rights)
            }
            MemoryRequest::Locate { handle, from } => self.granted_memory(id, handle, from),
            MemoryRequest::Arena { arena } => self.memory_arena(&asker, arena),
            MemoryRequest::RegionPage => self.region_page(&asker),
            MemoryRequest::Grow { handle, bytes } => self.grow_memory(&asker, handle, bytes),
            MemoryRequest::Move { handle, node } => self.move_memory(&asker, handle, node),
            MemoryRequest::MoveState { handle } => self.memory_move_state(id, handle),
            MemoryRequest::Stage(wanted) => self.stage_memory(&asker, wanted),
            MemoryRequest::Adopt { handle, others, lasting, name } => {
                self.adopt_memory(&asker, handle, (name, others), lasting)
            }
            MemoryRequest::Presence => self.presence_page(&asker),
            MemoryRequest::Session => self.serve_memory(&asker, shown.ok_or(Code::BadRecord)?),
            MemoryRequest::EndSession => self.unserve_memory(id),
            MemoryRequest::List { user, from, beginning } => {
                self.list_memory(&asker, user, from, &beginning)
            }
            MemoryRequest::AskMe { handle } => {
                self.judge_memory(id, handle, shown.ok_or(Code::BadRecord)?)
            }
            MemoryRequest::On { node, request } => self.ask_node(&asker, node, *request),
            MemoryRequest::NextAsked => self.next_asked(id),
            MemoryRequest::Answer { question, rights } => self.answer_asked(id, question, rights),
            other => self.change_memory(&asker, other),
        }
    }

    /// Answers a request that is answered with Done.
    fn change_memory(&mut self, asker: &Asker, request: MemoryRequest) -> Result<Answer, Refused> {
        let id = asker.session;
        let mut effects = Vec::new();
        let grants = &mut self.services.memory.grants;
        let done = match request {
            MemoryRequest::Unmap { handle } => grants.unmap(id, handle, &mut effects),
            MemoryRequest::Free { handle } => grants.free(id, handle, &mut effects),
            MemoryRequest::Appoint { handle, user, rights } => {
                grants.appoint(id, handle, user, rights)
            }
            MemoryRequest::Lasting { handle, lasting } => grants.set_lasting(id, handle, lasting),
            MemoryRequest::Name { handle, name, others } => {
                return self.name_memory(asker, handle, name, others)
            }
            _ => return Err(Code::BadRecord.into()),
        };
        self.carry_out_memory(effects);
        done.map_err(refuse(id))?;
        Ok(Reply::Done.into())
    }

    /// Who a session is to the memory service.
    pub(super) fn memory_asker(&self, id: ObjectId) -> Result<Asker, Refused> {
        if let Some(asker) = self.peer_user_asker(id) {
            return Ok(asker);
        }
        let uid = self.session(id)?.peer.subject.uid;
        let is_user = !self.is_restricted(id);
        Ok(Asker { session: id, holder: self.holder(id)?, uid, maps: is_user, is_user })
    }

    fn allocate_memory(&mut self, asker: &Asker, wanted: Allocation) -> Result<Answer, Refused> {
        let handle = self.allocate_handle(asker, wanted)?;
        self.granted_memory(asker.session, handle, 0)
    }

    pub(super) fn allocate_handle(
        &mut self,
        asker: &Asker,
        wanted: Allocation,
    ) -> Result<ObjectId, Refused> {
        let id = asker.session;
        if let Some(name) = &wanted.name {
            self.check_memory_right(asker, Right::Publish, name, asker.uid)?;
        }
        let room = self.services.memory.grants.check_allocation(asker, &wanted);
        let arena = self.make_room_in(asker.uid, asker.holder, room.map_err(refuse(id))?)?;
        let (mut effects, now) = (Vec::new(), monotonic_ns());
        let grants = &mut self.services.memory.grants;
        let handle = grants.allocate(asker, wanted, arena, now, &mut effects);
        self.carry_out_memory(effects);
        handle.map_err(refuse(id))
    }

    /// Makes the arena that is needed, if one is.
    pub(super) fn make_room_in(
        &mut self,
        uid: u32,
        holder: Holder,
        room: Room,
    ) -> Result<Option<ObjectId>, Refused> {
        let Room::NewArena(bytes) = room else { return Ok(None) };
        self.check_descriptors(holder, 1)?;
        let arena = Arena::create(holder, bytes).map_err(|error| {
            warn!(uid, bytes, %error, "no memory for an arena");
            Code::Internal
        })?;
        let memory = &mut self.services.memory;
        let id = memory.grants.add_arena((uid, holder), bytes)?;
        memory.arenas.insert(id, arena);
        debug!(uid, bytes, arena = %id, "a new arena");
        Ok(Some(id))
    }

    fn map_memory(
        &mut self,
        asker: &Asker,
        user: u32,
        name: MemoryName,
        rights: Rights,
    ) -> Result<Answer, Refused> {
        let uid = if user == OWN_USER { asker.uid } else { user };
        let key = Key { uid, name };
        let region = self.services.memory.grants.resolve(&key);
        let denial = self.judge_map(asker, &key, region, rights)?;
        let forward = self.services.memory.grants.forward_of(&key);
        if let (None, None, Some(Forward { node, .. })) = (&denial, region, forward) {
            return Err(Refused { code: Code::Moved, limit: node, bound: Bound::NONE });
        }
        if region.is_none() && self.may_be_replicated(asker) {
            return self.open_replicated(asker, &key, rights);
        }
        match (denial, region) {
            (None, region) => self.give_memory(asker, region.ok_or(Code::NotFound)?, rights),
            (Some(denial), Some(region)) => self.ask_owner(asker, &key, (region, rights), denial),
            (Some(denial), None) => Err(self.deny_map(asker, &key, denial)),
        }
    }

    /// Counts a denial for people.
    pub(super) fn deny_map(&mut self, asker: &Asker, key: &Key, denial: Denial) -> Refused {
        let (right, name) = (denial.right.to_string(), key.name.to_string());
        self.denials.note(asker.holder.uid, &right, &name, denial.decision);
        Code::Denied.into()
    }

    /// Maps a region by its identity: also one without a name.
    fn map_memory_region(
        &mut self,
        asker: &Asker,
        region: ObjectId,
        rights: Rights,
    ) -> Result<Answer, Refused> {
        let grants = &self.services.memory.grants;
        if let Some(forward) = grants.forward_of_region(region) {
            // What may be done with it is decided there.
            return Ok(reply(&MemoryReply::Moving(moved_to(forward))));
        }
        let owner = grants.owner(region).map(|(uid, _)| uid);
        if grants.is_staged(region) {
            return Err(Code::NotFound.into());
        }
        let is_own = owner == Some(asker.uid) && asker.is_user;
        let given = self.services.memory.grants.appointed(region, asker.uid);
        if !is_own && !self.sees_all_memory(asker) && !given.have(rights) {
            return Err(Code::Denied.into());
        }
        self.give_memory(asker, region, rights)
    }

    /// Root and the owner of the control plane, when they are not restricted.
    pub(super) fn sees_all_memory(&self, asker: &Asker) -> bool {
        asker.maps && self.is_owner(asker.session)
    }

    /// What of these rights neither a rule nor the owner of the name allows, if anything.
    ///
    /// # Errors
    /// A rule denies one of them: no owner may allow it.
    fn judge_map(
        &mut self,
        asker: &Asker,
        key: &Key,
        region: Option<ObjectId>,
        rights: Rights,
    ) -> Result<Option<Denial>, Refused> {
        // A sealed program is no more than somebody else to its own user's regions, but for bytes of
        // those that its policy names: what it may not name has not come as far as this.
        let given = region.map(|id| self.services.memory.grants.rights_of(id, asker.uid));
        let is_given = given.is_some_and(|given| given.have(rights));
        let is_here = !is_of_peer(asker.session);
        let is_data = is_here && Rights::DATA.have(rights);
        for right in needed(rights) {
            let decision = self.decide_memory(asker, right, &key.name, key.uid)?;
            let denial = Denial { right, decision };
            let is_allowed = match decision {
                Decision::ByRule { .. } if decision.is_allowed() => true,
                Decision::ByRule { .. } => return Err(self.deny_map(asker, key, denial)),
                Decision::Own => asker.is_user || is_given || is_data,
                Decision::Foreign => self.sees_all_memory(asker) || is_given,
            };
            if !is_allowed {
                return Ok(Some(denial));
            }
        }
        Ok(None)
    }

    fn give_memory(
        &mut self,
        asker: &Asker,
        region: ObjectId,
        rights: Rights,
    ) -> Result<Answer, Refused> {
        let mut effects = Vec::new();
        let handle = self.services.memory.grants.map(asker, region, rights, &mut effects);
        self.carry_out_memory(effects);
        self.granted_memory(asker.session, handle.map_err(refuse(asker.session))?, 0)
    }

    pub(super) fn granted_memory(
        &mut self,
        id: ObjectId,
        handle: ObjectId,
        from: u32,
    ) -> Result<Answer, Refused> {
        let granted = self.services.memory.grants.granted(id, handle, from);
        Ok(reply(&MemoryReply::Granted(granted.map_err(refuse(id))?)))
    }

    fn grow_memory(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        bytes: u64,
    ) -> Result<Answer, Refused> {
        let id = asker.session;
        let grants = &self.services.memory.grants;
        let room = grants.check_growth(asker, handle, bytes).map_err(refuse(id))?;
        let region = grants.handle(id, handle).map(|(region, _)| region);
        let owner = region.and_then(|region| grants.owner(region));
        let (uid, holder) = owner.ok_or(Code::Stale)?;
        let arena = self.make_room_in(uid, holder, room)?;
        let mut effects = Vec::new();
        let grown = self.services.memory.grants.grow(asker, handle, bytes, arena, &mut effects);
        self.carry_out_memory(effects);
        grown.map_err(refuse(id))?;
        self.granted_memory(id, handle, 0)
    }

    fn name_memory(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        name: Option<MemoryName>,
        others: Rights,
    ) -> Result<Answer, Refused> {
        let id = asker.session;
        let (owner, old) = self.services.memory.grants.named(id, handle).map_err(refuse(id))?;
        if let Some(name) = name.as_ref().filter(|name| old.as_ref() != Some(name)) {
            self.check_memory_right(asker, Right::Publish, name, owner)?;
        }
        let renamed = self.services.memory.grants.rename(id, handle, name, others);
        renamed.map_err(refuse(id))?;
        Ok(Reply::Done.into())
    }
}

/// What is told of a region that has left.
pub(super) fn moved_to(forward: Forward) -> MoveState {
    let Forward { node, region } = forward;
    MoveState { stage: MoveStage::Done, process: 0, done: 0, bytes: 0, node, region }
}

/// The handle of a request about one, if that is on another node.
fn handle_elsewhere(request: &MemoryRequest) -> Option<ObjectId> {
    use MemoryRequest::*;
    let (Locate { handle, .. }
    | Unmap { handle }
    | Free { handle }
    | Grow { handle, .. }
    | Name { handle, .. }
    | Appoint { handle, .. }
    | Lasting { handle, .. }
    | Move { handle, .. }
    | MoveState { handle }
    | Class { handle, .. }
    | AskMe { handle }) = request
    else {
        return None;
    };
    place_elsewhere(*handle).map(|_| *handle)
}

/// What rules have to allow for these rights.
fn needed(rights: Rights) -> impl Iterator<Item = Right> {
    let meets = move |some: Rights| !rights.within(some).is_empty();
    let all = [
        (Right::Read, Rights::READ),
        (Right::Write, Rights::WRITE.and(Rights::ATOMIC)),
        (Right::Manage, Rights::SHARE.and(Rights::MANAGE)),
    ];
    all.into_iter().filter(move |(_, some)| meets(*some)).map(|(right, _)| right)
}

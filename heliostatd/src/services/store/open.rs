//! How a session comes to an area: who may, by which way, and what it is told of it.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::store::limits::PIECES_PER_REPLY_MAX;
use heliostat_abi::store::reply::NO_MORE;
use heliostat_abi::store::{
    AreaKind, AreaName, AreaRights, Creation, NotDone, OpenedArea, Spill, StoreReply, Way, Why,
};
use heliostat_backend_block::SharedFile;
use heliostat_control::rights::Right;
use heliostat_control::rules::Decision;
use heliostat_service_store::{AreaView, Asker, Key, Opening, Wanted};
use tracing::{debug, warn};

use super::no::{reply, No};
use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::state::store::{Pending, State, Wish};

impl Daemon {
    /// Has an area made; it is opened when it is there.
    pub(super) fn create_area(&mut self, asker: &Asker, wanted: Creation) -> Result<Answer, No> {
        let Creation { name, bytes, kind, others, rights, way, alone } = wanted;
        self.usable_store()?;
        self.check_right(asker.session, Right::Publish, &name, asker.uid)?;
        let pending = Pending::Create { name: name.clone(), wish: Wish { rights, way, alone } };
        let wanted = Wanted { name, bytes, kind, others };
        self.change_area(asker.session, pending, |areas, number, effects| {
            areas.create(asker, wanted, number, effects)
        })
    }

    /// Gives a session a handle on the area of a user's name.
    pub(super) fn open_area(
        &mut self,
        asker: &Asker,
        (uid, name): (u32, AreaName),
        Wish { rights, way, alone }: Wish,
    ) -> Result<Answer, No> {
        self.usable_store()?;
        let key = Key { uid, name };
        self.check_recovered(&key, rights)?;
        let is_allowed = self.judge_open(asker, &key, rights)?;
        let untrusted = self.distrusted(asker)?;
        let opening = Opening { rights, way, alone, untrusted, is_allowed };
        let before = self.usable_store()?.known_of(&key);
        let (handle, way) = self.open_handle(asker, &key, &opening)?;
        if let Some(no) = self.strangers(before, &opening) {
            self.close_handle(asker.session, handle)?;
            return Err(no);
        }
        self.distrust(asker, handle);
        let Way::Direct = way else { return self.opened_area(asker.session, handle, None) };
        match self.grant_device(asker.session, handle) {
            Ok(device) => self.opened_area(asker.session, handle, Some(device)),
            Err(_) => {
                // The other way is left, unless that is not wanted.
                self.close_handle(asker.session, handle)?;
                let opening = Opening { untrusted: Some(Spill::NotOpened), ..opening };
                let (handle, _) = self.open_handle(asker, &key, &opening)?;
                self.opened_area(asker.session, handle, None)
            }
        }
    }

    /// Who may write an area waits until the log in it has been put into its files.
    fn check_recovered(&mut self, key: &Key, rights: AreaRights) -> Result<(), No> {
        let open = self.usable_store()?;
        let generation = open.areas.resolve(key).and_then(|id| open.areas.view(id));
        let is_recovering = generation.is_some_and(|it| open.recovering.has(it.generation));
        match is_recovering && !AreaRights::READ.have(rights) {
            true => Err(Why::Busy.into()),
            false => Ok(()),
        }
    }

    /// Why a handle is not to be had because of programs that are older than this control plane, and have
    /// the area directly: no session here knows of them, but the kernel's locks tell.
    fn strangers(&mut self, before: Option<AreaView>, opening: &Opening) -> Option<No> {
        let (before, open) = (before?, self.services.store.open_mut()?);
        let rights = opening.rights;
        let changes = rights.have(AreaRights::WRITE) || rights.have(AreaRights::MANAGE);
        let is_alone = opening.alone.shuts_out();
        if before.alone.is_none()
            && (is_alone || changes)
            && open.has_stranger_alone(before.generation)
        {
            return Some(Why::HasAlone.into());
        }
        let writes_log =
            rights.have(AreaRights::WRITE) && open.has_stranger_writer(before.generation);
        let has_strangers = is_alone && before.direct == 0 && open.is_granted(before.generation, 0);
        (writes_log || has_strangers).then(|| NotDone::of(Why::HasWriters, 0, 1).into())
    }

    fn open_handle(
        &mut self,
        asker: &Asker,
        key: &Key,
        opening: &Opening,
    ) -> Result<(ObjectId, Way), No> {
        let mut effects = Vec::new();
        let opened = self.usable_store()?.areas.open(asker, key, opening, &mut effects);
        self.carry_out_store(effects);
        opened.map_err(|refusal| self.no_of(asker.session, refusal))
    }

    /// Writes down that others than its owner may write a log: recovery is made with its owner's rights, and
    /// asks a person then. It is durable some milliseconds later, which nobody waits for.
    fn distrust(&mut self, asker: &Asker, handle: ObjectId) {
        let store = &mut self.services.store;
        let (State::Open(open), Some(thread)) = (&mut store.state, &store.thread) else { return };
        let Ok(held) = open.areas.held(asker.session, handle) else { return };
        let Some(view) = open.areas.view(held.area) else { return };
        let is_owner = asker.is_user && (asker.uid == view.key.uid || asker.uid == 0);
        let writes = held.rights.have(AreaRights::WRITE) && view.kind == AreaKind::Log;
        if writes && !is_owner && open.distrusted.insert(view.generation) {
            thread.distrust(view.generation);
        }
    }

    fn close_handle(&mut self, session: ObjectId, handle: ObjectId) -> Result<(), No> {
        let mut effects = Vec::new();
        let closed = self.usable_store()?.areas.close(session, handle, &mut effects);
        self.carry_out_store(effects);
        closed.map_err(|refusal| self.no_of(session, refusal))
    }

    /// Whether a rule allows all of these rights, so that the owner of the area is not asked.
    ///
    /// # Errors
    /// A rule denies one of them: no owner may allow it.
    fn judge_open(&mut self, asker: &Asker, key: &Key, rights: AreaRights) -> Result<bool, No> {
        let sees_all = self.is_owner(asker.session) && !self.is_restricted(asker.session);
        let mut is_allowed = true;
        for right in needed(rights) {
            match self.decide(asker.session, right, &key.name, key.uid)? {
                Decision::Own => {}
                Decision::Foreign => is_allowed &= sees_all,
                decision if decision.is_allowed() => {}
                decision => {
                    let (right, name) = (right.to_string(), key.name.to_string());
                    self.denials.note(asker.uid, &right, &name, decision);
                    return Err(Code::Denied.into());
                }
            }
        }
        // Who wants nothing, and who is its owner, is allowed nothing by rules. A restricted session is
        // not its user: what it may do its restriction has said before.
        let is_foreign = key.uid != asker.uid || !asker.is_user;
        Ok(is_allowed && is_foreign && !rights.is_empty())
    }

    /// Why a session is not trusted with the device, if it is not.
    fn distrusted(&self, asker: &Asker) -> Result<Option<Spill>, No> {
        let config = &self.parts.config;
        let subject = &self.session(asker.session)?.peer.subject;
        if self.is_restricted(asker.session) {
            return Ok(Some(Spill::Restricted));
        }
        if !config.store.is_trusted(subject, self.is_owner(asker.session)) {
            return Ok(Some(Spill::NotTrusted));
        }
        let has_rate = !config.rate_of_session(subject).per_second.is_unlimited();
        Ok(has_rate.then_some(Spill::HasRate))
    }

    /// The device, opened once more for a handle that is direct, with locks on what the area has.
    fn grant_device(&mut self, session: ObjectId, handle: ObjectId) -> Result<OwnedFd, No> {
        let uid = self.session(session)?.peer.subject.uid;
        let open = self.usable_store()?;
        if uid != 0 && open.facts.driven.needs_privilege() {
            debug!(%session, "the kernel would take no command from the program: it is served");
            return Err(Code::Denied.into());
        }
        let held = open.areas.held(session, handle).map_err(|_| Code::Internal)?;
        let view = open.areas.view(held.area).ok_or(Code::Internal)?;
        let pieces = open.pieces(view.generation);
        let ranges: Vec<_> = pieces.iter().map(|piece| (piece.offset, piece.bytes)).collect();
        let first = ranges.first().map_or(0, |(offset, _)| *offset);
        let device = open.file.grant(&ranges, held.rights.have(AreaRights::WRITE));
        let device = match (device, held.alone) {
            (Ok(device), true) => SharedFile::mark_alone(&device, first).map(|()| device),
            (device, _) => device,
        };
        device.map_err(|error| {
            warn!(%session, %error, "the device is not opened for a program: it is served");
            Code::Internal.into()
        })
    }

    /// What a session is told of a handle: [the device, if it is direct].
    fn opened_area(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        device: Option<OwnedFd>,
    ) -> Result<Answer, No> {
        let open = self.usable_store()?;
        let held = open.areas.held(session, handle).map_err(|_| Code::Internal)?;
        let view = open.areas.view(held.area).ok_or(Code::Internal)?;
        let pieces = open.pieces(view.generation).len();
        let opened = OpenedArea {
            handle,
            area: view.area,
            generation: view.generation,
            bytes: view.bytes,
            kind: view.kind,
            rights: held.rights,
            way: held.way,
            durable_by: open.facts.durable_by,
            grain_bytes: open.facts.grain_bytes,
            sector_bytes: open.facts.sector_bytes,
            memory_alignment: open.facts.memory_alignment,
            pieces: u32::try_from(pieces).unwrap_or(u32::MAX),
        };
        debug!(%session, area = %view.key.name, way = ?held.way, "an area is opened");
        let fds = device.into_iter().map(|fd| Rc::new(fd) as Rc<_>).collect();
        Ok(Answer { fds, ..reply(&StoreReply::Opened(opened)) })
    }

    /// Where an area's bytes lie, for who has it directly.
    pub(super) fn area_pieces(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        from: u32,
    ) -> Result<Answer, No> {
        let open = self.usable_store()?;
        let held = open.areas.held(session, handle);
        let held = match held {
            Ok(held) => held,
            Err(refusal) => return Err(self.no_of(session, refusal)),
        };
        if let Way::Emulated(why) = held.way {
            return Err(NotDone::of(Why::NotDirect, 0, why as u64).into());
        }
        let view = open.areas.view(held.area).ok_or(Code::Internal)?;
        let all = open.pieces(view.generation);
        let from = from as usize;
        let some = all.get(from..).unwrap_or_default();
        let some = &some[..some.len().min(PIECES_PER_REPLY_MAX)];
        let next = from + some.len();
        let next = if next < all.len() { next as u32 } else { NO_MORE };
        let (bytes, pieces) = (view.bytes, some.to_vec());
        Ok(reply(&StoreReply::Pieces { bytes, pieces, next }))
    }
}

/// What rules have to allow for these rights.
fn needed(rights: AreaRights) -> impl Iterator<Item = Right> {
    let all = [
        (Right::Read, AreaRights::READ),
        (Right::Write, AreaRights::WRITE),
        (Right::Manage, AreaRights::MANAGE),
    ];
    all.into_iter().filter(move |(_, one)| rights.have(*one)).map(|(right, _)| right)
}

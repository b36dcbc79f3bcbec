//! Each request of a session, from its record to its answer.

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_abi::store::limits::LISTED_PER_REPLY_MAX;
use heliostat_abi::store::name::OWN_USER;
use heliostat_abi::store::reply::NO_MORE;
use heliostat_abi::store::{AreaRights, ListedArea, NotDone, StoreReply, StoreRequest, Why};
use heliostat_service_grant::Rate;
use heliostat_service_store::{AreaView, Asker};

use super::no::{reply, No};
use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::state::store::{Pending, Wish};

impl Daemon {
    /// Answers a request that was decoded.
    pub(super) fn answer_store(
        &mut self,
        id: ObjectId,
        request: StoreRequest,
        shown: Option<ReceivedFd>,
    ) -> Result<Answer, No> {
        match request {
            // Asked by people, who need no session.
            StoreRequest::Store => Ok(reply(&StoreReply::Store(self.store_info()))),
            StoreRequest::Attach => self.attach_store(id, &shown.ok_or(Code::BadRecord)?),
            StoreRequest::Detach => self.detach_store(id),
            other => self.answer_store_session(id, other, shown),
        }
    }

    fn answer_store_session(
        &mut self,
        id: ObjectId,
        request: StoreRequest,
        shown: Option<ReceivedFd>,
    ) -> Result<Answer, No> {
        let asker = self.store_asker(id)?;
        match request {
            StoreRequest::Create(creation) => self.create_area(&asker, creation),
            StoreRequest::Open { user, name, rights, way, alone } => {
                let uid = if user == OWN_USER { asker.uid } else { user };
                self.open_area(&asker, (uid, name), Wish { rights, way, alone })
            }
            StoreRequest::Close { handle } => self.close_area(id, handle),
            StoreRequest::Resize { handle, bytes } => self.resize_area(id, handle, bytes),
            StoreRequest::Appoint { handle, others } => {
                self.change_area(id, Pending::Other, |areas, number, effects| {
                    areas.appoint((id, handle), others, number, effects)
                })
            }
            StoreRequest::Delete { handle } => self.delete_area(id, handle),
            StoreRequest::SetRate { handle, bytes_per_second } => {
                self.set_area_rate(id, handle, bytes_per_second)
            }
            StoreRequest::List { user, from, beginning } => {
                self.list_areas(&asker, user, from, &beginning)
            }
            StoreRequest::Pieces { handle, from } => self.area_pieces(id, handle, from),
            StoreRequest::Outcome => self.change_outcome(id),
            StoreRequest::Session => self.serve_store(&asker, shown.ok_or(Code::BadRecord)?),
            StoreRequest::EndSession => {
                self.unserve_store(id);
                Ok(Reply::Done.into())
            }
            StoreRequest::Store | StoreRequest::Attach | StoreRequest::Detach => {
                Err(Code::BadRecord.into())
            }
        }
    }

    /// Who a session is to the store service.
    fn store_asker(&self, id: ObjectId) -> Result<Asker, No> {
        let uid = self.session(id)?.peer.subject.uid;
        let is_user = !self.is_restricted(id);
        Ok(Asker { session: id, holder: self.holder(id)?, uid, is_user })
    }

    fn close_area(&mut self, id: ObjectId, handle: ObjectId) -> Result<Answer, No> {
        let mut effects = Vec::new();
        let open = self.open_store_mut()?;
        let closed = open.areas.close(id, handle, &mut effects);
        self.carry_out_store(effects);
        closed.map_err(|refusal| self.no_of(id, refusal))?;
        Ok(Reply::Done.into())
    }

    fn resize_area(&mut self, id: ObjectId, handle: ObjectId, bytes: u64) -> Result<Answer, No> {
        let view = self.managed_area(id, handle)?;
        if bytes < view.bytes {
            self.check_not_granted(&view, bytes)?;
        }
        self.change_area(id, Pending::Resize, |areas, number, effects| {
            areas.resize((id, handle), bytes, number, effects)
        })
    }

    fn delete_area(&mut self, id: ObjectId, handle: ObjectId) -> Result<Answer, No> {
        let view = self.managed_area(id, handle)?;
        self.check_not_granted(&view, 0)?;
        self.change_area(id, Pending::Other, |areas, number, effects| {
            areas.delete((id, handle), number, effects)
        })
    }

    /// The area of a handle by which it may be managed.
    fn managed_area(&mut self, id: ObjectId, handle: ObjectId) -> Result<AreaView, No> {
        let open = self.usable_store()?;
        let held = open.areas.held(id, handle);
        let view = held.as_ref().ok().and_then(|held| open.areas.view(held.area));
        let held = held.map_err(|refusal| self.no_of(id, refusal))?;
        let wanted = AreaRights::MANAGE;
        if !held.rights.have(wanted) {
            let (wanted, found) = (wanted.bits().into(), held.rights.bits().into());
            return Err(No::NotDone(NotDone::of(Why::Denied, wanted, found), Code::Denied));
        }
        Ok(view.ok_or(Code::Internal)?)
    }

    /// Refuses what would take bytes from a program that no session here knows to have them: it has
    /// closed its handle and not its descriptor, or is of an earlier control plane. Of those that are
    /// known the service tells.
    fn check_not_granted(&mut self, view: &AreaView, from: u64) -> Result<(), No> {
        let open = self.usable_store()?;
        match view.direct == 0 && open.is_granted(view.generation, from) {
            true => Err(Why::Held.into()),
            false => Ok(()),
        }
    }

    /// Sets how fast an area may be used: for who may do anything with the store.
    fn set_area_rate(
        &mut self,
        id: ObjectId,
        handle: ObjectId,
        per_second: u64,
    ) -> Result<Answer, No> {
        if !self.is_owner(id) {
            return Err(Code::Denied.into());
        }
        let view = self.managed_area(id, handle)?;
        if per_second > 0 {
            self.check_not_granted(&view, 0)?;
        }
        let (mut effects, rate) = (Vec::new(), Rate { per_second, burst: per_second });
        let set = self.usable_store()?.areas.set_rate(view.area, rate, &mut effects);
        self.carry_out_store(effects);
        set.map_err(|refusal| self.no_of(id, refusal))?;
        let store = &mut self.services.store;
        if let Some(identity) = store.open().map(|open| open.facts.identity) {
            store.kept.set_rate(identity, view.generation, per_second);
        }
        Ok(Reply::Done.into())
    }

    /// Some of the areas that the asker may see: its own user's, to root and the owner everybody's.
    fn list_areas(
        &mut self,
        asker: &Asker,
        user: u32,
        from: u32,
        beginning: &str,
    ) -> Result<Answer, No> {
        let sees_all = self.is_owner(asker.session);
        let sees = |uid: u32| (user == OWN_USER || uid == user) && (sees_all || uid == asker.uid);
        let open = self.open_store_even_failed()?;
        let mut found = open.areas.list(from, beginning, sees);
        let some: Vec<AreaView> = found.by_ref().take(LISTED_PER_REPLY_MAX).collect();
        let next = found.next().map_or(NO_MORE, |view| view.area.index);
        let areas = some.into_iter().map(|view| {
            let pieces = open.pieces(view.generation).len();
            let alone = view.alone.map(|session| self.pid_of(session));
            listed(view, pieces, alone)
        });
        Ok(reply(&StoreReply::Listed { areas: areas.collect(), next }))
    }
}

fn listed(view: AreaView, pieces: usize, alone: Option<u32>) -> ListedArea {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    ListedArea {
        area: view.area,
        generation: view.generation,
        bytes: view.bytes,
        bytes_per_second: view.rate.per_second,
        user: view.key.uid,
        kind: view.kind,
        others: view.others,
        handles: number(view.handles),
        direct: number(view.direct),
        pieces: number(pieces),
        is_changing: view.is_changing,
        alone,
        name: view.key.name,
    }
}

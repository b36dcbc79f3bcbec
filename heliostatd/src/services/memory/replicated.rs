//! Regions on several nodes, as sessions ask for them: made, found by name, freed.
//!
//! ```text
//! Replicate, Map of a name that no region here has --> thread of replicas, the session waits --> handle
//! ```
//! Handles stand among those on other nodes, by a link that is no node's.

use heliostat_abi::code::{Code, Side, Thing};
use heliostat_abi::memory::name::OWN_USER;
use heliostat_abi::memory::peer::PeerHandle;
use heliostat_abi::memory::replicated::Replication;
use heliostat_abi::memory::{Granted, MemoryName, MemoryRequest, Rights};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_control::rights::Right;
use heliostat_server_memory::{replicated_link, MemoryOrder, There};
use heliostat_server_replica::{Alter, Draft, Failure, Fault, NotAltered, Opened, Placement};
use heliostat_service_grant::is_of_peer;
use heliostat_service_memory::{Asker, Key, Remote};

use super::remote::ANSWER_NS;
use super::there::{granted_there, replicated_peer};
use crate::answer::Answer;
use crate::daemon::Daemon;
use crate::refused::{full_of, Refused};
use crate::state::asks::Waiter;
use crate::state::replica::{
    number_of, ReplicaEvent, ReplicatedHandle, WaitsForReplica, WantedOfReplica,
};

impl Daemon {
    /// Whether a name that no region here has may be that of a region on several nodes.
    pub(super) fn may_be_replicated(&self, asker: &Asker) -> bool {
        let is_here = asker.is_user && !is_of_peer(asker.session);
        is_here && self.services.replica.is_some()
    }

    /// A region on several nodes is made.
    pub(super) fn replicate_memory(
        &mut self,
        asker: &Asker,
        wanted: Replication,
    ) -> Result<Answer, Refused> {
        if !self.may_be_replicated(asker) {
            return Err(Code::BadState.into());
        }
        self.services.memory.grants.check_session(asker.session)?;
        self.check_memory_right(asker, Right::Publish, &wanted.name, asker.uid)?;
        let key = Key { uid: asker.uid, name: wanted.name };
        if self.services.memory.grants.resolve(&key).is_some() {
            return Err(Code::BadState.into());
        }
        self.services.memory.across.remotes.check(asker.session, asker.holder)?;
        let draft = Draft {
            key: key_of(&key),
            owner: asker.uid,
            others: wanted.others.bits(),
            bytes: wanted.bytes,
            wanted: wanted.wanted,
            nodes: wanted.backups.iter().map(|it| u64::from(*it)).collect(),
        };
        let wanted = WantedOfReplica::Handle(Rights::ALL, key.name.clone());
        let token = self.wait_for_replica(asker, wanted)?;
        let Some(replica) = &self.services.replica else { return Err(Code::Internal.into()) };
        let news = replica.news.clone();
        let told = move |result| news.tell(ReplicaEvent::Opened(token, result));
        replica.replicas.make(draft, told);
        // Not sent: it is answered later.
        Ok(Reply::Done.into())
    }

    /// A region on several nodes is sought by its name.
    pub(super) fn open_replicated(
        &mut self,
        asker: &Asker,
        key: &Key,
        rights: Rights,
    ) -> Result<Answer, Refused> {
        self.services.memory.grants.check_session(asker.session)?;
        self.services.memory.across.remotes.check(asker.session, asker.holder)?;
        let wanted = WantedOfReplica::Handle(rights, key.name.clone());
        let token = self.wait_for_replica(asker, wanted)?;
        let Some(replica) = &self.services.replica else { return Err(Code::Internal.into()) };
        let news = replica.news.clone();
        let told = move |result| news.tell(ReplicaEvent::Opened(token, result));
        replica.replicas.open(key_of(key), told);
        // Not sent: it is answered later.
        Ok(Reply::Done.into())
    }

    fn wait_for_replica(&mut self, asker: &Asker, wanted: WantedOfReplica) -> Result<u64, Refused> {
        let session = asker.session;
        let sequence = self.answer_later_as(session).ok_or(Code::Internal)?;
        let replica = self.services.replica.as_mut().ok_or(Code::Internal)?;
        let token = replica.next();
        let until_ns = monotonic_ns().saturating_add(ANSWER_NS);
        let waiter = Waiter { session, sequence, until_ns };
        replica.waiting.insert(token, WaitsForReplica { waiter, uid: asker.uid, wanted });
        Ok(token)
    }

    /// A region was found or made, or not.
    pub(crate) fn opened_replicated(&mut self, token: u64, result: Result<Opened, Failure>) {
        let waits = self.services.replica.as_mut().and_then(|it| it.waiting.remove(&token));
        let Some(WaitsForReplica { waiter, uid, wanted }) = waits else { return };
        let Waiter { session, sequence, .. } = waiter;
        if self.connections.get(session).is_none_or(|it| it.awaits != Some(sequence)) {
            return;
        }
        let WantedOfReplica::Handle(rights, name) = wanted else { return };
        let answer = result.map_err(why_not).and_then(|Opened { placement }| {
            self.grant_replicated(session, (uid, rights, name), &placement)
        });
        self.answer_late_to(session, sequence, answer);
    }

    fn grant_replicated(
        &mut self,
        session: ObjectId,
        (user, rights, name): (u32, Rights, MemoryName),
        placement: &Placement,
    ) -> Result<Answer, Refused> {
        if placement.rights_of(user) & rights.bits() != rights.bits() {
            return Err(Code::Denied.into());
        }
        let holder = self.holder(session)?;
        let replica = self.services.replica.as_mut().ok_or(Code::Internal)?;
        let number = replica.next();
        let (index, generation) = (number as u32, (number >> 32) as u32);
        let there =
            PeerHandle { session: ObjectId { index, generation }, handle: ObjectId::default() };
        let identity = placement.identity;
        let link = replicated_link(identity.maker.node << 40 | identity.number);
        let remote = Remote {
            node: placement.primary.node,
            link: link.0,
            there,
            region: ObjectId {
                index: identity.number as u32,
                generation: identity.maker.node as u32,
            },
            rights,
            user,
            is_restricted: false,
            is_lost: false,
        };
        let bytes = placement.bytes;
        let handle = ReplicatedHandle { region: identity, user, rights, bytes, name };
        replica.handles.insert(number, handle);
        let remotes = &mut self.services.memory.across.remotes;
        let handle = match remotes.insert(session, holder, remote) {
            Ok(handle) => handle,
            Err(full) => {
                self.close_replicated(there);
                return Err(full.into());
            }
        };
        self.limit_replicated(session, handle, there);
        let peer = replicated_peer(&remote);
        let order =
            MemoryOrder::HoldThere { session, handle, there: There { peer, handle: there } };
        self.services.memory.tell(session, order);
        Ok(granted_there(peer, handle, granted(&remote, bytes)))
    }

    /// How much a session may do by a handle, where a rate is about the name of its region.
    pub(super) fn limit_replicated(
        &mut self,
        session: ObjectId,
        handle: ObjectId,
        there: PeerHandle,
    ) {
        let Some(its) = self.replicated_handle(there) else { return };
        let Some(connection) = self.connections.get(session) else { return };
        let rate = self.parts.config.rates.of_name(&connection.peer.subject, &its.name);
        let (Some(rate), Ok(holder)) = (rate, self.holder(session)) else { return };
        let meter = self.services.meters.of(rate, session, holder, monotonic_ns());
        self.services.memory.tell(session, MemoryOrder::Limit { session, handle, meter });
    }

    /// A session asks something about a region on several nodes.
    pub(super) fn ask_replicated(
        &mut self,
        asker: &Asker,
        handle: ObjectId,
        remote: &Remote,
        request: &MemoryRequest,
    ) -> Result<Answer, Refused> {
        match request {
            MemoryRequest::Unmap { .. } => self.unmap_remote(asker.session, handle),
            MemoryRequest::Locate { .. } => {
                let its = self.replicated_handle(remote.there).ok_or(Code::Stale)?;
                Ok(granted_there(replicated_peer(remote), handle, granted(remote, its.bytes)))
            }
            MemoryRequest::Free { .. } if !remote.rights.have(Rights::MANAGE) => {
                Err(Code::Denied.into())
            }
            MemoryRequest::Free { .. } => {
                let its = self.replicated_handle(remote.there).ok_or(Code::Stale)?;
                let token = self.wait_for_replica(asker, WantedOfReplica::End(handle))?;
                let Some(replica) = &self.services.replica else {
                    return Err(Code::Internal.into());
                };
                let news = replica.news.clone();
                let told = move |result| news.tell(ReplicaEvent::Freed(token, result));
                replica.replicas.free(its.region, its.user, told);
                // Not sent: it is answered later.
                Ok(Reply::Done.into())
            }
            // No user has this number: it stands for the asker's own, and in the record for others.
            MemoryRequest::Appoint { user: OWN_USER, .. } => Err(Code::BadRecord.into()),
            MemoryRequest::Appoint { user, rights, .. } => {
                let alter = Alter::Appoint(*user, rights.bits());
                self.alter_replicated(asker, remote, Rights::MANAGE, alter)
            }
            // Its record lies under its name; what others may can be said anew.
            MemoryRequest::Name { name: Some(name), others, .. }
                if self.replicated_handle(remote.there).is_some_and(|it| it.name == *name) =>
            {
                let alter = Alter::Others(others.bits());
                self.alter_replicated(asker, remote, Rights::SHARE, alter)
            }
            // It has the length, the name and the life that it was made with.
            _ => Err(Code::BadState.into()),
        }
    }

    fn alter_replicated(
        &mut self,
        asker: &Asker,
        remote: &Remote,
        wanted: Rights,
        alter: Alter,
    ) -> Result<Answer, Refused> {
        if !remote.rights.have(wanted) {
            return Err(Code::Denied.into());
        }
        let its = self.replicated_handle(remote.there).ok_or(Code::Stale)?;
        let token = self.wait_for_replica(asker, WantedOfReplica::Altered)?;
        let Some(replica) = &self.services.replica else { return Err(Code::Internal.into()) };
        let news = replica.news.clone();
        let told = move |result| news.tell(ReplicaEvent::Altered(token, result));
        replica.replicas.alter(its.region, its.user, alter, told);
        // Not sent: it is answered later.
        Ok(Reply::Done.into())
    }

    /// It was altered who may use a region, or not.
    pub(crate) fn altered_replicated(&mut self, token: u64, result: Result<(), NotAltered>) {
        let waits = self.services.replica.as_mut().and_then(|it| it.waiting.remove(&token));
        let Some(WaitsForReplica { waiter, .. }) = waits else { return };
        let Waiter { session, sequence, .. } = waiter;
        let answer = result.map(|()| Reply::Done.into()).map_err(|why| match why {
            NotAltered::Unknown => Code::Unreachable.into(),
            NotAltered::Full(limit) => full_of(Thing::MemoryAppointed, Side::Object, limit),
            NotAltered::Denied => Code::Denied.into(),
        });
        self.answer_late_to(session, sequence, answer);
    }

    /// A region was freed, or not.
    pub(crate) fn freed_replicated(&mut self, token: u64, result: Result<(), Fault>) {
        let waits = self.services.replica.as_mut().and_then(|it| it.waiting.remove(&token));
        let Some(WaitsForReplica { waiter, wanted, .. }) = waits else { return };
        let Waiter { session, sequence, .. } = waiter;
        if let (Ok(()), WantedOfReplica::End(handle)) = (result, wanted) {
            if let Some(remote) = self.forget_remote(session, handle) {
                self.close_replicated(remote.there);
            }
        }
        let answer = result.map(|()| Reply::Done.into());
        self.answer_late_to(
            session,
            sequence,
            answer.map_err(|fault| why_not(Failure::Fault(fault))),
        );
    }

    fn replicated_handle(&self, there: PeerHandle) -> Option<ReplicatedHandle> {
        self.services.replica.as_ref()?.handles.get(number_of(there))
    }

    /// Nobody has this handle any more.
    pub(super) fn close_replicated(&mut self, there: PeerHandle) {
        if let Some(replica) = &self.services.replica {
            replica.handles.remove(number_of(there));
        }
    }
}

/// The key of a region's record.
fn key_of(key: &Key) -> String {
    format!("{}/{}", key.uid, key.name.as_str())
}

fn granted(remote: &Remote, bytes: u64) -> Granted {
    Granted {
        handle: ObjectId::default(),
        region: remote.region,
        bytes,
        epoch: 0,
        rights: remote.rights,
        direct: false,
        lasting: true,
        node: Some(remote.node),
        from: 0,
        pieces_all: 0,
        pieces: Vec::new(),
    }
}

fn why_not(failure: Failure) -> Refused {
    match failure {
        Failure::NotFound => Code::NotFound.into(),
        Failure::NoKeeper | Failure::TooFew { .. } => Code::Unreachable.into(),
        Failure::Fault(Fault::Exists) => Code::BadState.into(),
        Failure::Fault(Fault::Denied) => Code::Denied.into(),
        Failure::Fault(Fault::Full(_)) => full_of(Thing::ReplicaBytes, Side::Node, 0),
        Failure::Fault(Fault::Unreachable(_) | Fault::NotPrimary) => Code::Unreachable.into(),
        Failure::Full(limit) => full_of(Thing::ReplicaBytes, Side::Node, limit),
    }
}

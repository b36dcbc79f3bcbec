//! What sessions ask of the snapshot service: to name a region, to attach to one, and who did.

use std::os::fd::AsFd;
use std::rc::Rc;

use heliostat_abi::code::{Code, Thing};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{self, Reply, Request};
use heliostat_abi::snapshot::region::{Presence, RegionName, OWN_USER};
use heliostat_control::config::Config;
use heliostat_control::rights::Right;
use heliostat_service_grant::Quota;
use heliostat_service_snapshot::{Effect, Key, Named};
use serde_json::{json, Value};
use tracing::debug;

use super::no_such_request;
use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::{Asked, Daemon, Service, Told, Viewer};
use crate::refused::{refuse, Refused};
use crate::shares;
use crate::shown;
use crate::state::snapshot::NamedRegion;

/// Snapshots, in the table of services.
pub struct Snapshots;

impl Service for Snapshots {
    fn number(&self) -> u16 {
        record::Service::Snapshot as u16
    }

    fn answer(&self, daemon: &mut Daemon, asked: Asked) -> Result<Answer, Refused> {
        let Asked { session: id, request, fds } = asked;
        match request {
            Request::Publish { name } => {
                let shown = <[ReceivedFd; 2]>::try_from(fds).map_err(|_| Code::BadRecord)?;
                daemon.publish(id, name, shown)
            }
            Request::AttachRegion { name, owner } => daemon.attach_region(id, name, owner, fds),
            Request::Consumers { region } => daemon.consumers(id, region),
            Request::Unpublish { region } => daemon.unpublish(id, region),
            Request::Detach { region, consumer } => daemon.detach(id, region, consumer),
            _ => no_such_request(),
        }
    }

    fn end(&self, daemon: &mut Daemon, session: ObjectId) {
        let mut effects = Vec::new();
        daemon.services.snapshot.grants.end(session, &mut effects);
        daemon.carry_out_snapshot(effects);
    }

    fn revoke(&self, daemon: &mut Daemon, sessions: &[ObjectId]) -> usize {
        let mut effects = Vec::new();
        let count = daemon.services.snapshot.grants.revoke(sessions, &mut effects);
        daemon.carry_out_snapshot(effects);
        count
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        daemon.services.snapshot.grants.set_limits(shares::snapshot(config));
    }

    fn quotas<'a>(&self, daemon: &'a Daemon) -> Vec<(Thing, &'a Quota)> {
        daemon.services.snapshot.grants.quotas().into()
    }

    fn status(&self, daemon: &Daemon, viewer: Viewer, told: &mut Told) {
        let regions = daemon.regions_json(viewer.sees_all, viewer.uid);
        told.insert("regions".into(), Value::Array(regions));
    }

    fn session_status(&self, daemon: &Daemon, session: ObjectId, told: &mut Told) {
        let holding = daemon.services.snapshot.grants.holding(session);
        told.insert("regions".into(), json!(holding.regions));
        told.insert("attachments".into(), json!(holding.attachments));
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        let snapshot = &daemon.services.snapshot.grants;
        let (regions, consumers) = (snapshot.region_count(), snapshot.consumer_count());
        vec![
            ("regions", "Snapshot regions that now have a name", regions as u64),
            ("region_consumers", "Consumers now attached to regions", consumers as u64),
        ]
    }
}

impl Daemon {
    /// Names a region: shown are [table, pool].
    pub(crate) fn publish(
        &mut self,
        id: ObjectId,
        name: RegionName,
        shown: [ReceivedFd; 2],
    ) -> Result<Answer, Refused> {
        let [table, pool] = shown;
        let (named, bytes) = self.publish_shown(id, name, &table, &pool)?;
        let Named { region, generation } = named;
        let memory = NamedRegion { table: Rc::new(table), pool: Rc::new(pool), bytes };
        self.services.snapshot.memory.insert(region, memory);
        Ok(Reply::Published { region, generation }.into())
    }

    fn publish_shown(
        &mut self,
        id: ObjectId,
        name: RegionName,
        table: &ReceivedFd,
        pool: &ReceivedFd,
    ) -> Result<(Named, u64), Refused> {
        let uid = self.session(id)?.peer.subject.uid;
        self.check_right(id, Right::Publish, &name, uid)?;
        let bytes = shown::region(table.as_fd(), pool.as_fd()).map_err(|error| {
            debug!(session = %id, %error, "no memory of a region");
            Code::BadRecord
        })?;
        let key = Key { uid, name };
        let named = self.services.snapshot.grants.publish(id, self.holder(id)?, key.clone());
        let named = named.map_err(refuse(id))?;
        debug!(session = %id, region = %named.region, name = %key.name, "publishes");
        Ok((named, bytes))
    }

    /// Attaches to a region: shown is [own page of pins] or [own page of pins, end of a bell], the
    /// answer brings [table, pool].
    pub(crate) fn attach_region(
        &mut self,
        id: ObjectId,
        name: RegionName,
        owner: u32,
        shown: Vec<ReceivedFd>,
    ) -> Result<Answer, Refused> {
        let (named, consumer) = self.attach_shown(id, name, owner, &shown)?;
        let Named { region, generation } = named;
        self.services.snapshot.pins.insert(consumer, shown);
        let memory = self.services.snapshot.memory.get(&region).ok_or(Code::Internal)?;
        let fds: Vec<Rc<dyn AsFd>> = vec![memory.table.clone(), memory.pool.clone()];
        Ok(Answer { reply: Reply::Region { region, consumer, generation }, fds })
    }

    fn attach_shown(
        &mut self,
        id: ObjectId,
        name: RegionName,
        owner: u32,
        shown: &[ReceivedFd],
    ) -> Result<(Named, ObjectId), Refused> {
        let uid = self.session(id)?.peer.subject.uid;
        let owner = if owner == OWN_USER { uid } else { owner };
        // Before the name is looked for: who may not read a region is not told whether it is there.
        self.check_right(id, Right::Attach, &name, owner)?;
        shown::consumer(shown).map_err(|error| {
            debug!(session = %id, %error, "no page of pins, or no bell");
            Code::BadRecord
        })?;
        let named = self
            .services
            .snapshot
            .grants
            .resolve(&Key { uid: owner, name })
            .ok_or(Code::NotFound)?;
        let mut effects = Vec::new();
        let consumer =
            self.services.snapshot.grants.attach(id, self.holder(id)?, named.region, &mut effects);
        let consumer = consumer.map_err(refuse(id))?;
        self.carry_out_snapshot(effects);
        debug!(session = %id, region = %named.region, %consumer, "attaches");
        Ok((named, consumer))
    }

    /// Who joined and left: [page of pins, perhaps bell, ...] of those who joined.
    pub(crate) fn consumers(&mut self, id: ObjectId, region: ObjectId) -> Result<Answer, Refused> {
        self.session(id)?;
        let mut batch = self.services.snapshot.grants.changes(id, region).map_err(refuse(id))?;
        let mut fds: Vec<Rc<dyn AsFd>> = Vec::new();
        for change in batch.changes.iter_mut().filter(|it| it.state == Presence::Joined) {
            // The producer alone has them from now on: a copy of the bell that stayed here would
            // outlive the producer, and the consumer would not hear of its end.
            let shown =
                self.services.snapshot.pins.remove(&change.consumer).ok_or(Code::Internal)?;
            if shown.len() > 1 {
                change.state = Presence::JoinedWithBell;
            }
            fds.extend(shown.into_iter().map(|fd| Rc::new(fd) as Rc<dyn AsFd>));
        }
        let reply = Reply::Consumers { region, entries: batch.changes, more: batch.more };
        Ok(Answer { reply, fds })
    }

    /// Takes a region's name back.
    pub(crate) fn unpublish(&mut self, id: ObjectId, region: ObjectId) -> Result<Answer, Refused> {
        self.session(id)?;
        let mut effects = Vec::new();
        let answer = self.services.snapshot.grants.unpublish(id, region, &mut effects);
        self.carry_out_snapshot(effects);
        answer.map_err(refuse(id))?;
        Ok(Reply::Done.into())
    }

    /// A consumer leaves.
    pub(crate) fn detach(
        &mut self,
        id: ObjectId,
        region: ObjectId,
        consumer: ObjectId,
    ) -> Result<Answer, Refused> {
        self.session(id)?;
        let mut effects = Vec::new();
        let answer = self.services.snapshot.grants.detach(id, region, consumer, &mut effects);
        self.carry_out_snapshot(effects);
        answer.map_err(refuse(id))?;
        Ok(Reply::Done.into())
    }

    /// Carries out what the snapshot service decided.
    pub(crate) fn carry_out_snapshot(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::RegionChanged(region) => self.node.bump_region(region),
                // The last close of a large pool takes the kernel its time.
                Effect::RegionFreed(region) => drop(self.services.snapshot.memory.remove(&region)),
                // What waits in a bell's queue is closed with it.
                Effect::ConsumerFreed(consumer) => {
                    drop(self.services.snapshot.pins.remove(&consumer))
                }
            }
        }
    }

    /// Named regions as people see them; those of other users are shown to the owner and root only.
    pub(crate) fn regions_json(&self, sees_all: bool, uid: Option<u32>) -> Vec<Value> {
        let pid = |id| self.connections.get(id).map_or(0, |connection| connection.peer.pid);
        let consumer = |id: &ObjectId| {
            let session =
                self.services.snapshot.grants.consumer(*id).map(|consumer| consumer.session);
            json!({ "id": id.to_string(), "pid": session.map_or(0, pid) })
        };
        let regions = self.services.snapshot.grants.regions();
        let regions = regions.filter(|region| sees_all || Some(region.key.uid) == uid);
        let each = regions.map(|region| {
            json!({
                "name": region.key.name.to_string(),
                "id": region.id.to_string(),
                "generation": region.generation,
                "uid": region.key.uid,
                "pid": pid(region.producer),
                "bytes": self.services.snapshot.memory.get(&region.id).map_or(0, |memory| memory.bytes),
                "consumers": region.consumers.iter().map(consumer).collect::<Vec<_>>(),
            })
        });
        each.collect()
    }
}

//! Records of regions: asked of a registry, or of the node that keeps them, which may be this one.

use heliostat_service_replica::{Member, Outcome as Decided, Placement, Record};

use crate::engine::{Engine, Todo};
use crate::input::{Called, Wanted};
use crate::keeper::{NotKept, RECORDS_MAX};
use crate::message::{header, number_at, Kind};
use crate::request::{AskRecord, Failure, Opened, Records};

/// How long a keeper may take.
const ASK_NS: u64 = 2_000_000_000;
/// What a keeper answers in a revision's place: it has as many records as may be.
const FULL: u64 = u64::MAX;

impl Engine {
    pub(crate) fn keep_read(&self, key: &str) -> Vec<u8> {
        let (revision, record) = self.keeper.read(key);
        let life = self.starting.me.life;
        [&life.to_le_bytes()[..], &revision.to_le_bytes(), &record].concat()
    }

    pub(crate) fn keep_write(&mut self, key: &str, expected: u64, record: &[u8]) -> Vec<u8> {
        let revision = match self.keeper.write(key, expected, record) {
            Ok(revision) => revision,
            Err(NotKept::Conflict) => 0,
            Err(NotKept::Full) => FULL,
        };
        [self.starting.me.life.to_le_bytes(), revision.to_le_bytes()].concat()
    }

    pub(crate) fn read_record(&mut self, key: &str, wanted: Wanted) {
        let Some(keeper) = self.keeper() else { return self.ask_registry(key, None, wanted) };
        if keeper == self.starting.me.node {
            let answer = self.trusted(&self.keep_read(key));
            return self.record_came(wanted, answer);
        }
        self.ask_keeper(keeper, header(Kind::Read, key.as_bytes()), Vec::new(), wanted);
    }

    pub(crate) fn write_record(
        &mut self,
        key: &str,
        expected: u64,
        record: Vec<u8>,
        wanted: Wanted,
    ) {
        let Some(keeper) = self.keeper() else {
            return self.ask_registry(key, Some((expected, record)), wanted);
        };
        if keeper == self.starting.me.node {
            let answer = self.keep_write(key, expected, &record);
            let answer = self.trusted(&answer);
            return self.record_came(wanted, answer);
        }
        let payload = [expected.to_le_bytes().to_vec(), record].concat();
        self.ask_keeper(keeper, header(Kind::Write, key.as_bytes()), payload, wanted);
    }

    /// The node that keeps the records, where no registry does.
    pub(crate) fn keeper(&self) -> Option<u64> {
        match self.starting.records {
            Records::Keeper(node) => Some(node),
            Records::Registry(_) => None,
        }
    }

    /// Whether this node keeps them.
    pub(crate) fn is_keeper(&self) -> bool {
        self.keeper() == Some(self.starting.me.node)
    }

    fn ask_registry(&mut self, key: &str, write: Option<(u64, Vec<u8>)>, wanted: Wanted) {
        let token = self.next();
        self.records.insert(token, wanted);
        if let Records::Registry(ask) = &self.starting.records {
            ask(AskRecord { token, key: key.to_owned(), write });
        }
    }

    fn ask_keeper(&mut self, keeper: u64, header: Vec<u8>, payload: Vec<u8>, wanted: Wanted) {
        let called = Called::Record(wanted);
        match self.joined.get(&keeper) {
            Some(peer) => {
                let keeper = Member { node: peer.node.0, life: peer.incarnation };
                self.call(2, keeper, (header, payload, ASK_NS), called);
            }
            None => self.not_called(called),
        }
    }

    /// What a keeper says: revision and record. One that was started anew has forgotten what it kept.
    pub(crate) fn trusted(&mut self, answer: &[u8]) -> Option<(u64, Vec<u8>)> {
        let (life, revision) = (number_at(answer, 0)?, number_at(answer, 8)?);
        let known = *self.keeper_life.get_or_insert(life);
        (known == life).then(|| (revision, answer[16..].to_vec()))
    }

    pub(crate) fn record_came(&mut self, wanted: Wanted, answer: Option<(u64, Vec<u8>)>) {
        match wanted {
            Wanted::Propose(identity, attempt) => {
                let outcome = match answer {
                    Some((0, _)) => Decided::Conflict,
                    Some((FULL, _)) => Decided::Full(RECORDS_MAX as u64),
                    Some((revision, _)) => Decided::Accepted(revision),
                    None => Decided::Unknown,
                };
                self.with_replica(identity, |it, effects| it.proposed(attempt, outcome, effects));
            }
            Wanted::Look(identity, look) => {
                let record = answer.and_then(|(revision, record)| {
                    let placement = Placement::decode(&record);
                    // One that is none says nothing.
                    (revision == 0 || placement.is_some()).then_some(Record { revision, placement })
                });
                self.with_replica(identity, |it, effects| match record {
                    Some(record) => it.looked(look, record, effects),
                    None => it.not_looked(look),
                });
            }
            Wanted::Client(identity) => {
                let found = answer.map(|(_, record)| Placement::decode(&record)).ok_or(());
                let Some(one) = self.clients.get_mut(&identity) else { return };
                let mut effects = Vec::new();
                one.client.looked(found, &mut effects);
                self.todo.extend(effects.into_iter().map(|it| Todo::Client(identity, it)));
            }
            Wanted::Open(token) => {
                let Some((key, then)) = self.opening.remove(&token) else { return };
                match answer.map(|(_, record)| Placement::decode(&record)) {
                    Some(Some(placement)) => {
                        self.opened(key, &placement);
                        then(Ok(Opened { placement }));
                    }
                    Some(None) => then(Err(Failure::NotFound)),
                    None => then(Err(Failure::NoKeeper)),
                }
            }
        }
    }
}

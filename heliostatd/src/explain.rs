//! Why one process's connections and reads of files travel as they do.
//!
//! Reports are foreign bytes; they are shown and decide nothing. Only the two ends together tell why
//! a connection is native, so each is looked for in the reports of all sessions (`peers`), when
//! somebody asks: the data plane pays nothing for it.

use heliostat_abi::code::{Code, Native, Unheld, Unlogged, Unmapped, Unoffloaded};
use heliostat_abi::limits::REPORT_ENTRIES_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_abi::offload::Group;
use heliostat_abi::session::report::{Entry, COUNTER_NAMES};
use serde_json::{json, Value};

use crate::answer::{text_answer, Answer};
use crate::daemon::Daemon;
use crate::inspect::{counters_json, reasons_json};
use crate::memory::{OffloadedGroups, Report};
use crate::peers::{Peers, PLACES_MAX};
use crate::refused::Refused;
use crate::state::connection::{Connection, Session};
use crate::state::counts::{add, NativeCounts};

/// What all sessions of a process add up to. A process may have many, whose reports are as long as
/// it likes: so many connections are listed as one report has places for.
#[derive(Default)]
struct Sums {
    program: String,
    whole: Option<Native>,
    entries: Vec<(ObjectId, Entry)>,
    counters: [u64; COUNTER_NAMES.len()],
    reasons: NativeCounts,
    file_reasons: [u64; Unmapped::ALL.len()],
    unheld_reasons: [u64; Unheld::ALL.len()],
    unlogged_reasons: [u64; Unlogged::ALL.len()],
    unoffloaded_reasons: [u64; Unoffloaded::ALL.len()],
    offloaded: OffloadedGroups,
    /// Places of reports looked at.
    places: usize,
    /// Some connections are not listed.
    is_cut: bool,
}

impl Sums {
    /// Takes what a session lists, as far as there is room.
    fn list(&mut self, id: ObjectId, report: &Report) {
        self.places += report.places();
        if self.places > PLACES_MAX {
            self.is_cut = true;
            return;
        }
        let room = REPORT_ENTRIES_MAX - self.entries.len();
        let mut entries = report.entries().map(|entry| (id, entry));
        self.entries.extend(entries.by_ref().take(room));
        self.is_cut |= entries.next().is_some();
    }
}

impl Daemon {
    /// The connections of a process as its stub reports them. Its own user, the owner of the
    /// control plane and root may ask.
    pub(crate) fn explain(&self, asker: ObjectId, pid: u32) -> Result<Answer, Refused> {
        let found = self.sessions_shown(asker, pid)?;
        let mut sums = Sums::default();
        found.iter().for_each(|id| self.add_session(&mut sums, *id));
        let peers = self.peers_of(asker, &sums.entries);
        let namespace = |id| self.connections.get(id).map(|it| it.peer.namespace);
        let each = |(id, entry): &(ObjectId, Entry)| peers.entry_json(namespace(*id), entry);
        let mut explained = json!({
            "pid": pid,
            "program": sums.program,
            "native_as_a_whole": sums.whole.map(|reason| format!("{reason:?}")),
            "connections": sums.entries.iter().map(each).collect::<Vec<_>>(),
            "all_listed": peers.is_complete && !sums.is_cut,
            "counters": counters_json(&sums.counters),
            "reasons": reasons_json(Native::ALL, &sums.reasons.0),
            "file_reasons": reasons_json(Unmapped::ALL, &sums.file_reasons),
            "unheld_reasons": reasons_json(Unheld::ALL, &sums.unheld_reasons),
            "unlogged_reasons": reasons_json(Unlogged::ALL, &sums.unlogged_reasons),
            "unoffloaded_reasons": reasons_json(Unoffloaded::ALL, &sums.unoffloaded_reasons),
            "offloaded": offloaded_json(&sums.offloaded),
        });
        if let Some(told) = explained.as_object_mut() {
            self.parts.table.iter().for_each(|service| service.explain(self, &found, told));
        }
        text_answer(&explained.to_string())
    }

    /// The sessions of a process that the asker may look into.
    fn sessions_shown(&self, asker: ObjectId, pid: u32) -> Result<Vec<ObjectId>, Refused> {
        let mut found = self.sessions_of(pid);
        if found.is_empty() {
            return Err(Code::NotFound.into());
        }
        // Another user may have said of its own session that it is this process's.
        found.retain(|id| self.may_see(asker, *id));
        if found.is_empty() {
            return Err(Code::Denied.into());
        }
        Ok(found)
    }

    /// Whether a session may be shown: to its own user, the owner of the control plane and root.
    fn may_see(&self, asker: ObjectId, id: ObjectId) -> bool {
        let user_of = |id| self.connections.get(id).map(|it: &Connection| it.peer.subject.uid);
        self.is_owner(asker) || user_of(id) == user_of(asker)
    }

    fn add_session(&self, sums: &mut Sums, id: ObjectId) {
        let Some(connection) = self.connections.get(id) else { return };
        let Some(session) = &connection.session else { return };
        sums.program.clone_from(&session.program);
        sums.whole = sums.whole.or(session.report.whole());
        sums.list(id, &session.report);
        add(&mut sums.counters, &session.report.counters());
        add(&mut sums.reasons.0, &session.report.reasons());
        add(&mut sums.file_reasons, &session.report.file_reasons());
        add(&mut sums.unheld_reasons, &session.report.unheld_reasons());
        add(&mut sums.unlogged_reasons, &session.report.unlogged_reasons());
        add(&mut sums.unoffloaded_reasons, &session.report.unoffloaded_reasons());
        for (sum, found) in sums.offloaded.iter_mut().zip(session.report.offloaded_groups()) {
            let [calls, plain, plain_ns, offloaded_ns] = found;
            // Counts add up; what a call takes does not.
            *sum = [
                sum[0].saturating_add(calls),
                sum[1].saturating_add(plain),
                sum[2].max(plain_ns),
                sum[3].max(offloaded_ns),
            ];
        }
    }

    /// The other ends of these connections, as far as sessions have them.
    fn peers_of(&self, asker: ObjectId, entries: &[(ObjectId, Entry)]) -> Peers {
        let namespace = |id| self.connections.get(id).map(|it| it.peer.namespace);
        let wanted = entries.iter().filter_map(|(id, entry)| Some((namespace(*id)?, entry)));
        let mut peers = Peers::wanted(wanted);
        for (id, connection) in self.connections.iter() {
            let Some(session) = &connection.session else { continue };
            let shown = self.may_see(asker, id).then(|| shown_json(connection, session));
            peers.look_into(connection.peer.namespace, &session.report, shown.as_ref());
        }
        peers
    }
}

/// Groups of calls of which any was made by kernel cores, or might have been.
fn offloaded_json(groups: &OffloadedGroups) -> Value {
    let told = Group::ALL.into_iter().zip(groups).filter(|(_, words)| **words != [0; 4]);
    let one = |(group, [offloaded, plain, plain_ns, offloaded_ns]): (Group, &[u64; 4])| {
        let words = json!({
            "offloaded": offloaded, "plain": plain,
            "plain_ns": plain_ns, "offloaded_ns": offloaded_ns,
        });
        (group.name().to_owned(), words)
    };
    Value::Object(told.map(one).collect())
}

/// A program as another one's explanation names it.
fn shown_json(connection: &Connection, session: &Session) -> Value {
    json!({
        "pid": connection.pid(),
        "uid": connection.peer.subject.uid,
        "program": session.program,
    })
}

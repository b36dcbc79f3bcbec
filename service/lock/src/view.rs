//! What can be read of the lock service without changing it.

use heliostat_abi::lock::limits::LISTED_PER_REPLY_MAX;
use heliostat_abi::lock::reply::NO_MORE;
use heliostat_abi::lock::ListedLock;
use heliostat_abi::name::ObjectId;

use crate::locks::Locks;
use crate::object::Object;
use crate::ticket::State;

/// Places of the table that one answer to `list` looks at: every other session waits for it.
const LOOKED_AT_MAX: u32 = 4096;
/// Waits of one session that are told: each is counted through its line, while others wait.
const WAITS_TOLD_MAX: usize = 16;
/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// What one session has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// Handles.
    pub handles: usize,
    /// Tickets that hold.
    pub held: usize,
    /// Tickets that wait.
    pub waiting: usize,
}

impl Locks {
    /// Some locks from an index on that may be seen and whose names begin so, and the index to go on
    /// from.
    pub fn list(
        &self,
        from: u32,
        beginning: &str,
        now_ns: u64,
        sees: impl Fn(u32) -> bool,
    ) -> (Vec<ListedLock>, u32) {
        let mut found = Vec::new();
        let end = self.objects.places() as u32;
        let last = end.min(from.saturating_add(LOOKED_AT_MAX));
        for index in from..last {
            let Some(id) = self.objects.id_at(index) else { continue };
            let Some(object) = self.objects.get(id) else { continue };
            if !sees(object.key.uid) || !object.key.name.as_str().starts_with(beginning) {
                continue;
            }
            if found.len() == LISTED_PER_REPLY_MAX {
                return (found, index);
            }
            found.push(listed(id, object, now_ns));
        }
        (found, if last < end { last } else { NO_MORE })
    }

    /// Whose name a lock has, by a session's handle.
    pub fn name_of(&self, session: ObjectId, handle: ObjectId) -> Option<&crate::Key> {
        let (object, ()) = self.handles.held(session, handle)?;
        self.objects.get(*object).map(|object| &object.key)
    }

    /// Locks, semaphores and barriers that are there.
    pub fn lock_count(&self) -> usize {
        self.objects.len()
    }

    /// Tickets that hold, and that wait.
    pub fn ticket_counts(&self) -> (usize, usize) {
        let (mut held, mut waiting) = (0, 0);
        for (_, object) in self.objects.iter() {
            held += object.held;
            waiting += object.line.len();
        }
        (held, waiting)
    }

    /// Handles and tickets of a session together.
    pub fn count_of(&self, session: ObjectId) -> usize {
        self.handles.count_of(session) + self.tickets.count_of(session)
    }

    /// What a session has.
    pub fn holding(&self, session: ObjectId) -> Holding {
        let handles = self.handles.count_of(session);
        let mut holding = Holding { handles, ..Holding::default() };
        for ticket in self.tickets.of(session).filter_map(|id| self.tickets.get(id)) {
            match ticket.state {
                State::Held { .. } => holding.held += 1,
                State::Waiting { .. } => holding.waiting += 1,
                State::Over(_) => {}
            }
        }
        holding
    }

    /// Some of what a session waits for: names, and how many tickets are before it.
    pub fn waits(&self, session: ObjectId) -> Vec<(String, usize)> {
        let tickets = self.tickets.of(session).filter_map(|id| self.tickets.get(id));
        let waits = tickets.filter_map(|ticket| {
            let State::Waiting { place } = ticket.state else { return None };
            let object = self.objects.get(ticket.object)?;
            Some((object.key.name.to_string(), object.line.range(..place).count()))
        });
        waits.take(WAITS_TOLD_MAX).collect()
    }
}

fn listed(id: ObjectId, object: &Object, now_ns: u64) -> ListedLock {
    ListedLock {
        lock: id,
        user: object.key.uid,
        shape: object.shape,
        opened: object.opened as u32,
        held: object.held as u32,
        waiting: object.line.len() as u32,
        has_owner_died: object.death > 0,
        is_broken: object.broken.is_some(),
        age_s: u32::try_from(now_ns.saturating_sub(object.since_ns) / SECOND_NS)
            .unwrap_or(u32::MAX),
        last: object.last,
        name: object.key.name.clone(),
    }
}

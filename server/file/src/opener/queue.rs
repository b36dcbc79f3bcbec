//! Who opens next, and whose share of the threads is used up: a pure state machine.
//!
//! A thread is held from `take` to `release`. Nothing can free one that hangs in a file system, so
//! one session, and one user's sessions together, can hold so many and no more; some are kept for
//! users who hold none yet, and for root and the owner (`SHARES`). Whoever waits behind an
//! own thread that hangs is told at once (`push`), others wait.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use heliostat_abi::name::ObjectId;
use heliostat_server_loop::pool::thread_shares;
use heliostat_service_grant::{Holder, Shares, Used};

/// Threads that open: each may be lost to a file system that hangs, and costs a stack of some pages.
pub const THREADS_MAX: usize = 32;
/// Whose they may be.
const SHARES: Shares = thread_shares(THREADS_MAX as u64);
/// Of one session: one that hangs leaves it another.
const SESSION_MAX: usize = 2;
/// A thread that has been away for so long counts as stuck. A disk answers sooner.
const STUCK: Duration = Duration::from_secs(1);

/// Whose share a name counts against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The session that wants it.
    pub session: ObjectId,
    /// Whose threads it may have.
    pub holder: Holder,
}

/// A name in line.
#[derive(Debug)]
pub struct Job<T> {
    /// Who wants it.
    pub owner: Owner,
    /// Not before then.
    pub due: Instant,
    /// After that it is not asked for again.
    pub until: Instant,
    /// What is wanted.
    pub item: T,
}

/// Names in line, and the threads that are away with one.
pub struct Queue<T> {
    waiting: VecDeque<Job<T>>,
    away: Vec<Away>,
    tickets: u64,
}

struct Away {
    ticket: u64,
    owner: Owner,
    since: Instant,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { waiting: VecDeque::new(), away: Vec::new(), tickets: 0 }
    }
}

impl<T> Queue<T> {
    /// Puts a name in line; it comes back when every thread that it may have is stuck. Callers
    /// bound how many of a session wait.
    pub fn push(&mut self, job: Job<T>, now: Instant) -> Result<(), Job<T>> {
        let long_ago = |away: &&Away| now.saturating_duration_since(away.since) >= STUCK;
        if self.is_used_up(job.owner, self.away.iter().filter(long_ago)) {
            return Err(job);
        }
        self.waiting.push_back(job);
        Ok(())
    }

    /// Puts a name that was taken in line once more.
    pub fn put_back(&mut self, job: Job<T>) {
        self.waiting.push_back(job);
    }

    /// The first that is due and may have a thread, which is away from now on; and a ticket.
    pub fn take(&mut self, now: Instant) -> Option<(u64, Job<T>)> {
        let may_go = |job: &Job<T>| job.due <= now && self.may_go(job.owner);
        let place = self.waiting.iter().position(may_go)?;
        let job = self.waiting.remove(place)?;
        self.tickets += 1;
        self.away.push(Away { ticket: self.tickets, owner: job.owner, since: now });
        Some((self.tickets, job))
    }

    /// The thread with this ticket is back.
    pub fn release(&mut self, ticket: u64) {
        self.away.retain(|away| away.ticket != ticket);
    }

    /// When the next one that may have a thread is due.
    pub fn due(&self) -> Option<Instant> {
        self.waiting.iter().filter(|job| self.may_go(job.owner)).map(|job| job.due).min()
    }

    fn may_go(&self, owner: Owner) -> bool {
        !self.is_used_up(owner, self.away.iter())
    }

    /// Whether these threads are all that an owner may have.
    fn is_used_up<'a>(&self, owner: Owner, away: impl Iterator<Item = &'a Away>) -> bool {
        let (mut used, mut of_session) = (Used::default(), 0);
        for Away { owner: other, .. } in away {
            used.all += 1;
            used.user += u64::from(other.holder.uid == owner.holder.uid);
            used.program += u64::from(other.holder == owner.holder);
            of_session += usize::from(other.session == owner.session);
        }
        of_session >= SESSION_MAX || SHARES.check(owner.holder, used, 1).is_err()
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;

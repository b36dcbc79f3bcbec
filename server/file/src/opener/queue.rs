//! Who opens next, and whose share of the threads is used up: a pure state machine.
//!
//! A thread is held from `take` to `release`. Nothing can free one that hangs in a file system, so
//! one session, and one user's sessions together, can hold so many and no more; some are kept for
//! users who hold none yet, and for root and the owner (`SHARES`). Whoever waits behind an
//! own thread that hangs is told at once (`push`), others wait: so many of one session, and of one
//! user (`WAITING`). What a session waits for is taken out when its delegation ends.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::DEPTH_MAX;
use heliostat_abi::name::ObjectId;
use heliostat_server_loop::pool::thread_shares;
use heliostat_service_grant::{Holder, Shares, Used};

/// Threads that open: each may be lost to a file system that hangs, and costs a stack of some pages.
pub const THREADS_MAX: usize = 32;
/// Whose they may be.
const SHARES: Shares = thread_shares(THREADS_MAX as u64);
/// Of one session: one that hangs leaves it another.
const SESSION_MAX: usize = 2;
/// Names that may wait, and whose they may be: each has up to 8 KiB.
const WAITING: Shares = Shares {
    all: 8192,
    reserve: 2048,
    user: 8 * DEPTH_MAX as u64,
    trusted: 16 * DEPTH_MAX as u64,
    sealed: 2 * DEPTH_MAX as u64,
};
/// Of one session: as many as it may have operations.
const WAITING_SESSION_MAX: usize = DEPTH_MAX;
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
    /// Its session's delegation has ended meanwhile.
    is_over: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { waiting: VecDeque::new(), away: Vec::new(), tickets: 0 }
    }
}

impl<T> Queue<T> {
    /// Puts a name in line; it comes back when every thread that it may have is stuck, and when its
    /// session or user has as many in line as it may.
    pub fn push(&mut self, job: Job<T>, now: Instant) -> Result<(), Job<T>> {
        let long_ago = |away: &&Away| now.saturating_duration_since(away.since) >= STUCK;
        if self.is_used_up(job.owner, self.away.iter().filter(long_ago)) || self.is_full(job.owner)
        {
            return Err(job);
        }
        self.waiting.push_back(job);
        Ok(())
    }

    /// The thread with this ticket is back, and these names are put in line once more; they come back
    /// when their delegation has ended.
    pub fn put_back(&mut self, ticket: u64, jobs: Vec<Job<T>>) -> Vec<Job<T>> {
        if self.release(ticket) {
            return jobs;
        }
        self.waiting.extend(jobs);
        Vec::new()
    }

    /// Others of a session that has just been given a thread, which does them too: those that are due
    /// and alike, so many at most.
    pub fn take_alike(
        &mut self,
        session: ObjectId,
        now: Instant,
        (most, is_alike): (usize, impl Fn(&T) -> bool),
    ) -> Vec<Job<T>> {
        let (mut taken, mut others) = (Vec::new(), VecDeque::with_capacity(self.waiting.len()));
        for job in std::mem::take(&mut self.waiting) {
            let is_its = job.owner.session == session && job.due <= now && is_alike(&job.item);
            if is_its && taken.len() < most {
                taken.push(job);
            } else {
                others.push_back(job);
            }
        }
        self.waiting = others;
        taken
    }

    /// A session's delegation has ended: takes out what it waits for.
    pub fn forget(&mut self, session: ObjectId) -> Vec<Job<T>> {
        let its = self.away.iter_mut().filter(|away| away.owner.session == session);
        its.for_each(|away| away.is_over = true);
        let is_its = |job: &Job<T>| job.owner.session == session;
        let (its, others) = std::mem::take(&mut self.waiting).into_iter().partition(is_its);
        self.waiting = others;
        Vec::from(its)
    }

    /// The first that is due and may have a thread, which is away from now on; and a ticket.
    pub fn take(&mut self, now: Instant) -> Option<(u64, Job<T>)> {
        let may_go = |job: &Job<T>| job.due <= now && self.may_go(job.owner);
        let place = self.waiting.iter().position(may_go)?;
        let job = self.waiting.remove(place)?;
        self.tickets += 1;
        let (ticket, owner) = (self.tickets, job.owner);
        self.away.push(Away { ticket, owner, since: now, is_over: false });
        Some((self.tickets, job))
    }

    /// The thread with this ticket is back; true when its delegation has ended meanwhile.
    pub fn release(&mut self, ticket: u64) -> bool {
        let place = self.away.iter().position(|away| away.ticket == ticket);
        place.is_some_and(|place| self.away.swap_remove(place).is_over)
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
        let (used, of_session) = owner.used(away.map(|away| away.owner));
        of_session >= SESSION_MAX || SHARES.check(owner.holder, used, 1).is_err()
    }

    /// Whether an owner has as many names in line as it may.
    fn is_full(&self, owner: Owner) -> bool {
        let (used, of_session) = owner.used(self.waiting.iter().map(|job| job.owner));
        of_session >= WAITING_SESSION_MAX || WAITING.check(owner.holder, used, 1).is_err()
    }
}

impl Owner {
    /// What these take of an owner's shares, and how many of them are its session's.
    fn used(self, others: impl Iterator<Item = Owner>) -> (Used, usize) {
        let (mut used, mut of_session) = (Used::default(), 0);
        for other in others {
            used.all += 1;
            used.user += u64::from(other.holder.uid == self.holder.uid);
            used.program += u64::from(other.holder == self.holder);
            of_session += usize::from(other.session == self.session);
        }
        (used, of_session)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;

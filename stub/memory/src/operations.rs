//! Operations that are submitted now and complete later, of any regions of one session.
//!
//! ```text
//! submit --> number    direct path: done at once         take, wait    any that has completed
//!                      delegated: parts on their way     completion    a future of one
//!                                                        submit_batch  a future of all
//! ```
//!
//! Every operation owns its bytes until it has completed, so that giving one up, by `cancel` or by
//! dropping its future, leaves nothing that a server loop could still write into. How many there may be
//! is said at the start, and `Full` is an answer as any other.

mod completion;
mod ends;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_base::event::Event;

use super::delegated::{After, Delegated, End, Failure, Task};
use super::work::{Completed, Submission, Unsubmitted};
use super::{Memory, MemoryError};
use ends::{Ended, Ends, Taker};

pub use completion::{Batch, Completion};

/// Operations on their way, at most so many. Clones are the same; threads may share it. Dropped, it
/// gives up what is on its way.
#[derive(Clone)]
pub struct Operations {
    inner: Arc<Inner>,
}

struct Inner {
    memory: Memory,
    ends: Arc<Ends>,
}

impl Memory {
    /// Returns a place for operations that complete later, `limit` of them that were not taken at most.
    pub fn operations(&self, limit: usize) -> Operations {
        let (memory, ends) = (self.clone(), Arc::new(Ends::new(limit)));
        Operations { inner: Arc::new(Inner { memory, ends }) }
    }
}

impl Operations {
    /// Submits an operation; returns its number. On the direct path it is done when this returns. Does
    /// not wait for others, but for a call of this process that is with the server loop.
    ///
    /// # Errors
    /// `Full`; the operation comes back. What else may be wrong is told by its completion.
    pub fn submit(&self, submission: Submission) -> Result<u64, Unsubmitted> {
        let numbers = self.submit_all(vec![submission])?;
        Ok(numbers.first().copied().unwrap_or_default())
    }

    /// Submits all of these or none, and rings the server loop once; returns their numbers in order. They
    /// may be done in any order.
    ///
    /// # Errors
    /// As `submit`.
    pub fn submit_all(&self, submissions: Vec<Submission>) -> Result<Vec<u64>, Unsubmitted> {
        self.submit_for(submissions, Taker::Anybody)
    }

    fn submit_for(
        &self,
        submissions: Vec<Submission>,
        taker: Taker,
    ) -> Result<Vec<u64>, Unsubmitted> {
        let ends = &self.inner.ends;
        let of_each = submissions.iter().map(|it| (it.region.clone(), it.work.about()));
        let numbers = match ends.begin(of_each.collect(), taker) {
            Ok(numbers) => numbers,
            Err(error) => return Err(Unsubmitted { error, submissions }),
        };
        let (mut tasks, mut after) = (Vec::new(), After::default());
        for (number, Submission { region, work, is_urgent }) in
            numbers.iter().copied().zip(submissions)
        {
            let is_ours = Arc::ptr_eq(&region.memory.shared, &self.inner.memory.shared);
            if !is_ours || work.is_done_at_once(&region) {
                let (result, bytes) = work.perform(&region);
                ends.end(number, Ended::Told(result), bytes, &mut after);
                continue;
            }
            match work.into_task(&region) {
                Ok(task) => tasks.push((number, task, is_urgent)),
                Err((error, bytes)) => {
                    ends.end(number, Ended::Told(Err(error)), bytes, &mut after);
                }
            }
        }
        after.act();
        if !tasks.is_empty() {
            self.delegate(tasks);
        }
        Ok(numbers)
    }

    /// Submits all of these or none; they are told of once all have completed.
    ///
    /// # Errors
    /// As `submit`.
    pub fn submit_batch(&self, submissions: Vec<Submission>) -> Result<Batch, Unsubmitted> {
        let numbers = self.submit_for(submissions, Taker::Future)?;
        let future = |number| Completion::new(self.clone(), number);
        Ok(Batch::new(numbers.into_iter().map(future).collect()))
    }

    /// Returns the future of an operation, which `take` and `wait` do not tell of from then on; `None`
    /// where it was told of, or has one. Any executor may poll it. Dropped, it gives the operation up.
    pub fn completion(&self, number: u64) -> Option<Completion> {
        self.inner.ends.claim(number).then(|| Completion::new(self.clone(), number))
    }

    /// Takes a completion that is there. Does not wait.
    pub fn take(&self) -> Option<Completed> {
        self.inner.memory.shared.attend_if_free();
        self.inner.ends.take()
    }

    /// Waits for a completion, `limit` at most.
    ///
    /// # Errors
    /// `TimedOut`; `Idle` when nothing is on its way that it could tell of.
    pub fn wait(&self, limit: Option<Duration>) -> Result<Completed, MemoryError> {
        // A time that no clock reaches is never.
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            if let Some(completed) = self.take() {
                return Ok(completed);
            }
            if !self.inner.ends.is_awaited() {
                return Err(MemoryError::Idle);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(MemoryError::TimedOut);
            }
            self.inner.memory.shared.pause(left);
        }
    }

    /// Gives an operation up; says whether it was on its way. It completes in any case: as `Cancelled`,
    /// perhaps done in part, or as if nobody had asked.
    pub fn cancel(&self, number: u64) -> bool {
        let Some(job) = self.inner.ends.job(number) else { return false };
        self.inner.cancel_jobs(&[job]);
        true
    }

    /// Returns how many are on their way or have not been taken.
    pub fn under_way(&self) -> usize {
        self.inner.ends.count()
    }

    /// Returns a descriptor that is readable, for poll(2) and epoll(7), while `take` has something to
    /// tell. From its first use on a thread of this process waits for completions. It stays this value's.
    ///
    /// # Errors
    /// `Event`, `Thread`: the machine gives none.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, MemoryError> {
        let event = self.inner.ends.event()?;
        self.inner.memory.shared.drive()?;
        Ok(std::os::fd::AsFd::as_fd(event))
    }

    fn delegate(&self, tasks: Vec<(u64, Task, bool)>) {
        let (shared, ends) = (&self.inner.memory.shared, &self.inner.ends);
        let mut left = Some(tasks);
        let added = shared.with_loops(|loops| {
            let tasks = left.take().unwrap_or_default();
            let numbers: Vec<_> = tasks.iter().map(|(number, ..)| *number).collect();
            let with_ends =
                tasks.into_iter().map(|(number, task, urgent)| (task, urgent, self.end_of(number)));
            // Before anybody else has the loops, so that none has ended without being known.
            loops.add(with_ends).inspect(|jobs| ends.note_jobs(&numbers, jobs))
        });
        if let Err(error) = added {
            let mut after = After::default();
            for (number, task, _) in left.into_iter().flatten() {
                ends.end(number, Ended::Refused(error), task.into_bytes(), &mut after);
            }
            after.act();
        }
        if ends.is_watched() {
            // Where there is no thread any more whoever looks finds it.
            let _ = shared.drive();
        }
    }

    /// What is done when the loop has ended an operation.
    fn end_of(&self, number: u64) -> End {
        let ends = self.inner.ends.clone();
        Box::new(move |result, bytes, after| {
            let ended = result.map_or_else(Ended::Failed, |result| Ended::Told(Ok(result)));
            ends.end(number, ended, bytes, after);
        })
    }
}

impl Inner {
    fn cancel_jobs(&self, jobs: &[u64]) {
        let cancel = |loops: &mut Delegated| -> Result<(), Failure> {
            jobs.iter().try_for_each(|job| loops.cancel(*job))
        };
        self.memory.shared.with_loops_if_any(cancel);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let jobs = self.ends.give_all_up();
        if !jobs.is_empty() {
            self.cancel_jobs(&jobs);
        }
    }
}

/// What is readable while there are completions to take.
fn make_event() -> Result<Event, MemoryError> {
    Event::create().map_err(MemoryError::Event)
}

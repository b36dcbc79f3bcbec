//! Operations on their way that nobody waits for in a call: which have slots, and who is next.
//!
//! ```text
//! add -> urgent, ordinary (both in order) -> slots, a part each -> ring -> completion -> end
//! ```
//!
//! A long operation has its parts begun one after the other, so that an urgent one waits for the parts
//! that have slots already and for nothing else. Each part owns its slot until its completion has come,
//! whoever has given the operation up meanwhile.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use heliostat_abi::file::delegated::{Completion, OpKind, Operation, Pieces};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::SharedMapping;
use heliostat_stub_link::{LinkError, ServerConnection};

use super::after::After;
use super::task::Task;
use super::window::{result_of, SLOTS};
use super::Failure;

/// What is done with an operation's end: its result, and its bytes. What may do anything is left for
/// later.
pub(crate) type End = Box<dyn FnOnce(Result<u64, Failure>, Vec<u8>, &mut After) + Send>;

/// Tag of the completions of cancellations; those of parts are their slots.
const CANCEL_TAG: u64 = SLOTS as u64;

/// The operations of a session.
#[derive(Default)]
pub(super) struct Jobs {
    all: HashMap<u64, Job>,
    slots: [Option<Part>; SLOTS],
    urgent: VecDeque<u64>,
    ordinary: VecDeque<u64>,
    last: u64,
    /// Cancellations whose completions have not come.
    cancels: usize,
    after: After,
}

struct Job {
    task: Task,
    end: End,
    begun: usize,
    under_way: usize,
    result: u64,
    failed: Option<Failure>,
}

struct Part {
    job: u64,
    bytes: Range<usize>,
    /// The loop was asked to end it, which is said once.
    is_cancelled: bool,
}

impl Jobs {
    /// Whether nothing of theirs is in a ring or waits for it.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.cancels == 0
    }

    /// Returns how many completions are to come.
    pub(super) fn under_way(&self) -> usize {
        self.slots.iter().flatten().count() + self.cancels
    }

    /// Takes an operation in, which `pump` begins; returns its number.
    pub(super) fn add(&mut self, task: Task, is_urgent: bool, end: End) -> u64 {
        self.last += 1;
        let job = Job { task, end, begun: 0, under_way: 0, result: 0, failed: None };
        self.all.insert(self.last, job);
        let queue = if is_urgent { &mut self.urgent } else { &mut self.ordinary };
        queue.push_back(self.last);
        self.last
    }

    /// Begins parts as far as there are slots; the loop has to be rung afterwards.
    pub(super) fn pump(
        &mut self,
        server: &mut ServerConnection,
        window: &SharedMapping,
    ) -> Result<(), Failure> {
        while let Some(number) = self.slots.iter().position(Option::is_none) {
            let queue = if self.urgent.is_empty() { &mut self.ordinary } else { &mut self.urgent };
            let Some(id) = queue.front().copied() else { break };
            let job = self.all.get_mut(&id);
            let part = job.as_ref().filter(|job| job.failed.is_none());
            let part = part.and_then(|job| job.task.part(job.begun));
            let (Some(job), Some(bytes)) = (job, part) else {
                queue.pop_front();
                continue;
            };
            let asked = job.task.begin(window, number, &bytes)?;
            let asked = Operation { tag: number as u64, ..asked };
            if !server.push(&asked).map_err(Failure::Link)? {
                // Cancellations are in the ring too. It goes on after the next completion.
                let is_awaited = self.under_way() > 0;
                return is_awaited.then_some(()).ok_or(Failure::Link(LinkError::Corrupt));
            }
            job.begun = bytes.end;
            job.under_way += 1;
            self.slots[number] = Some(Part { job: id, bytes, is_cancelled: false });
        }
        Ok(())
    }

    /// Takes a completion; an operation whose last part it was ends.
    pub(super) fn complete(
        &mut self,
        window: &SharedMapping,
        completion: &Completion,
    ) -> Result<(), Failure> {
        let corrupt = Failure::Link(LinkError::Corrupt);
        if completion.tag == CANCEL_TAG {
            self.cancels = self.cancels.checked_sub(1).ok_or(corrupt)?;
            return Ok(());
        }
        let number = completion.tag as usize;
        let Part { job: id, bytes, .. } =
            self.slots.get_mut(number).and_then(Option::take).ok_or(corrupt)?;
        let Some(job) = self.all.get_mut(&id) else { return Ok(()) };
        job.under_way -= 1;
        let taken = result_of(completion.result)
            .and_then(|moved| job.task.end(window, number, &bytes, moved));
        match taken {
            Ok(gained) => job.result = job.result.wrapping_add(gained),
            Err(Failure::Errno(errno)) => {
                job.failed = job.failed.or(Some(Failure::Errno(errno)));
            }
            Err(failure) => return Err(failure),
        }
        self.end_if_over(id);
        Ok(())
    }

    /// Ends an operation early: what has not begun never does, and what the loop has it is asked to end.
    pub(super) fn cancel(&mut self, id: u64, server: &mut ServerConnection) -> Result<(), Failure> {
        let Some(job) = self.all.get_mut(&id) else { return Ok(()) };
        if job.task.part(job.begun).is_some() {
            job.failed = job.failed.or(Some(Failure::Errno(libc::ECANCELED)));
        }
        for (number, part) in self.slots.iter_mut().enumerate() {
            if let Some(part) = part.as_mut().filter(|it| it.job == id && !it.is_cancelled) {
                let (kind, object) = (OpKind::Cancel, ObjectId::default());
                let (argument, pieces) = (number as u64, Pieces::default());
                let (offset, tag, timeout_us) = (0, CANCEL_TAG, 0);
                let asked = Operation { kind, object, offset, tag, timeout_us, argument, pieces };
                // Where the ring is full the parts end by themselves.
                part.is_cancelled = server.push(&asked).map_err(Failure::Link)?;
                self.cancels += usize::from(part.is_cancelled);
            }
        }
        self.end_if_over(id);
        Ok(())
    }

    /// The session is over: all end with this.
    pub(super) fn fail_all(&mut self, failure: Failure) {
        let Jobs { all, mut after, .. } = std::mem::take(self);
        for job in all.into_values() {
            (job.end)(Err(failure), job.task.into_bytes(), &mut after);
        }
        self.after = after;
    }

    /// Returns what the ends until now have left to be done.
    pub(super) fn take_after(&mut self) -> After {
        std::mem::take(&mut self.after)
    }

    fn end_if_over(&mut self, id: u64) {
        let over = self.all.get(&id).filter(|job| {
            let has_more = job.failed.is_none() && job.task.part(job.begun).is_some();
            job.under_way == 0 && !has_more
        });
        if over.is_none() {
            return;
        }
        let Some(Job { task, end, result, failed, .. }) = self.all.remove(&id) else { return };
        end(failed.map_or(Ok(result), Err), task.into_bytes(), &mut self.after);
    }
}

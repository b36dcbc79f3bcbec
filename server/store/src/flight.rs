//! Gives parts of operations to the device, and takes what it has done.

use heliostat_abi::file::delegated::{OpKind, Way};
use heliostat_abi::name::ObjectId;
use heliostat_backend_block::{BeginError, Request};
use heliostat_server_loop::{OperationId, Sessions, COST_MIN};

use crate::areas::Areas;
use crate::bounce::BounceId;
use crate::disk::Part;
use crate::job::Job;
use crate::message::StoreEvent;

/// What became of the next part.
enum Begun {
    /// The device has it; of this operation it has so many now.
    Part(OperationId, u32),
    /// The operation can go on no more, and nothing of it is under way.
    Over(ObjectId),
    /// The operation can go on no more, or has to wait for its rate: it is another one's turn.
    Passed,
    /// Nothing waits, or the device has no room.
    Nothing,
}

/// Begins what the device has room for; whether that was anything.
pub fn pump(sessions: &mut Sessions<Areas>) -> bool {
    let (mut did, now_ns) = (false, sessions.engine.now_ns);
    loop {
        match sessions.engine.service.begin_next(now_ns) {
            Begun::Part(id, under_way) => {
                set_flying(sessions, id, under_way);
                did = true;
            }
            Begun::Over(job) => end(sessions, job),
            Begun::Passed => {}
            Begun::Nothing => return did,
        }
    }
}

/// Takes what the device has done; whether that was anything.
pub fn collect(sessions: &mut Sessions<Areas>) -> bool {
    let mut ended = Vec::new();
    let failed = sessions.engine.service.disk.collect(&mut ended);
    if let Some(errno) = failed {
        let number = sessions.engine.number;
        sessions.engine.service.tell(StoreEvent::DeviceFailed { number, errno });
    }
    let did = !ended.is_empty();
    take_ended(sessions, &mut ended);
    did
}

/// Parts have ended.
pub fn take_ended(sessions: &mut Sessions<Areas>, ended: &mut Vec<(Part, Result<(), i32>)>) {
    if ended.is_empty() {
        return;
    }
    for (part, result) in ended.drain(..) {
        match part.is_flush() {
            true => flush_ended(sessions, part, result),
            false => part_ended(sessions, &part, result),
        }
    }
    let number = sessions.engine.number;
    sessions.engine.service.answer_quiets(number);
}

fn part_ended(sessions: &mut Sessions<Areas>, part: &Part, result: Result<(), i32>) {
    let ended = sessions.engine.service.part_ended(part, result);
    let Some((id, under_way, is_over)) = ended else { return };
    match is_over {
        true => end(sessions, part.job),
        false => set_flying(sessions, id, under_way),
    }
}

/// A flush has ended for all whom it was for, and the next one begins for those that wait.
fn flush_ended(sessions: &mut Sessions<Areas>, part: Part, result: Result<(), i32>) {
    let mut its = sessions.engine.service.flushes.end();
    for job in its.drain(..) {
        part_ended(sessions, &Part { job, ..part }, result);
    }
    let (next, failed) = sessions.engine.service.begin_flush(its);
    for id in &next {
        match (failed, sessions.engine.service.jobs.get(*id).map(|job| job.id)) {
            (None, Some(operation)) => set_flying(sessions, operation, 1),
            _ => end(sessions, *id),
        }
    }
    if failed.is_none() {
        sessions.engine.service.flushes.begin_for(next);
    }
}

/// Ends an operation that is over, and tells its session, if that is there still.
pub fn end(sessions: &mut Sessions<Areas>, job: ObjectId) {
    let Some(job) = sessions.engine.service.remove(job) else { return };
    sessions.engine.service.has_ended = true;
    let now_ns = sessions.engine.now_ns;
    let Some((session, engine)) = sessions.at(job.id.seat) else { return };
    let Some(entry) = session.operations.get_mut(job.id.operation) else { return };
    entry.flying = 0;
    if job.is_transfer() {
        entry.way = Way::Direct;
    }
    let result = match (job.result(), entry.verdict) {
        (..0, Some(errno)) => -i64::from(errno),
        (result, _) => result,
    };
    session.hear(now_ns);
    session.end(engine, job.id.operation, result);
}

fn set_flying(sessions: &mut Sessions<Areas>, id: OperationId, under_way: u32) {
    let entry = sessions.session_of(id).and_then(|it| it.operations.get_mut(id.operation));
    if let Some(entry) = entry {
        entry.flying = under_way;
    }
}

impl Areas {
    /// Begins the next part of the operation whose turn it is.
    fn begin_next(&mut self, now_ns: u64) -> Begun {
        if !self.disk.has_room() {
            return Begun::Nothing;
        }
        let Some(id) = self.line.front() else { return Begun::Nothing };
        let Some(job) = self.jobs.get_mut(id) else {
            self.line.pop();
            return Begun::Passed;
        };
        if !job.is_paid {
            let meter = self.areas.get(&job.area).map(|area| &area.meter);
            if let Some(Err(until_ns)) = meter.map(|meter| meter.take(job.cost(), now_ns)) {
                self.line.hold(until_ns);
                return Begun::Passed;
            }
            job.is_paid = true;
        }
        if job.kind == OpKind::Fsync && self.flushes.is_under_way() {
            self.line.spend(COST_MIN);
            self.line.pop();
            self.flushes.wait(id);
            return Begun::Passed;
        }
        match self.begin_part(id) {
            Ok(begun) => begun,
            Err(errno) => {
                self.line.pop();
                match self.jobs.get_mut(id) {
                    Some(job) => {
                        job.cut(errno);
                        if job.is_over() {
                            Begun::Over(id)
                        } else {
                            Begun::Passed
                        }
                    }
                    None => Begun::Passed,
                }
            }
        }
    }

    fn begin_part(&mut self, id: ObjectId) -> Result<Begun, i32> {
        if let Some(errno) = self.disk.failure() {
            return Err(errno);
        }
        let Some((part, request, cost)) = self.next_part(id)? else { return Ok(Begun::Nothing) };
        match self.disk.begin(part, request) {
            Ok(()) => {}
            Err(error) => {
                part.bounce.into_iter().for_each(|it| self.disk.bounce.give_back(it));
                return match error {
                    BeginError::Full { .. } => Ok(Begun::Nothing),
                    BeginError::Unsupported => Err(libc::EOPNOTSUPP),
                    _ => Err(libc::EIO),
                };
            }
        }
        let job = self.jobs.get_mut(id).ok_or(libc::EIO)?;
        job.under_way += 1;
        if part.is_flush() {
            self.flushes.begin(id);
        }
        let done = part.at + cost.covered;
        job.next = (done < job.bytes).then_some(done);
        let begun = Begun::Part(job.id, job.under_way);
        let is_last = job.next.is_none();
        self.line.spend(cost.spent);
        if is_last {
            self.line.pop();
        }
        Ok(begun)
    }

    /// A part has ended: of which operation, what is under way of that, and whether it is over.
    fn part_ended(
        &mut self,
        part: &Part,
        result: Result<(), i32>,
    ) -> Option<(OperationId, u32, bool)> {
        let mut result = result;
        if let Some(bounce) = part.bounce {
            if let (Ok(()), Some(job)) = (result, self.jobs.get(part.job)) {
                result = self.unbounce(job, part, bounce);
            }
            self.disk.bounce.give_back(bounce);
        }
        let job = self.jobs.get_mut(part.job)?;
        job.under_way -= 1;
        let (id, seat) = (job.id, job.id.seat.index);
        if let Err(errno) = result {
            job.failed = job.failed.or(Some(errno));
            self.line.remove(seat, part.job);
        }
        let job = self.jobs.get(part.job)?;
        Some((id, job.under_way, job.is_over()))
    }

    /// Copies what was read to where it goes. Nothing is copied of a read that failed: the buffer held
    /// somebody else's bytes before.
    fn unbounce(&self, job: &Job, part: &Part, bounce: BounceId) -> Result<(), i32> {
        if job.kind != OpKind::Read {
            return Ok(());
        }
        let bytes = part.moved as usize;
        let buffer = self.disk.bounce.buffer(bounce, bytes).ok_or(libc::EIO)?;
        let piece = job.pieces.at(part.at).ok_or(libc::EIO)?;
        let into = piece.offset as usize;
        buffer.memory.copy_to(buffer.at, &job.window, into, bytes).map_err(|_| libc::EFAULT)
    }
}

impl Areas {
    /// Begins the next flush for all that wait, in the memory of the last one's: which they are, and what
    /// the device says where it begins none.
    fn begin_flush(&mut self, last: Vec<ObjectId>) -> (Vec<ObjectId>, Option<i32>) {
        let mut waiting = self.flushes.take_waiting(last);
        // Those that were cut meanwhile are over.
        waiting.retain(|id| self.jobs.get(*id).is_some());
        let first = waiting.first().and_then(|id| self.jobs.get(*id).map(|job| (*id, job.area)));
        let Some((job, area)) = first else { return (waiting, None) };
        let part = Part { job, area, end: 0, at: 0, moved: 0, bounce: None };
        let errno = match self.disk.failure() {
            Some(errno) => Some(errno),
            None => self.disk.begin(part, Request::Flush).err().map(|_| libc::EIO),
        };
        for id in &waiting {
            let Some(job) = self.jobs.get_mut(*id) else { continue };
            match errno {
                None => (job.next, job.under_way) = (None, 1),
                Some(errno) => job.cut(errno),
            }
        }
        (waiting, errno)
    }
}

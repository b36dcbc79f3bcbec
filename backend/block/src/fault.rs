//! A device whose writes are torn, lost or go astray, as a script or a seed says.
//!
//! A decorator of any other device. What it does to an operation is chosen when that is begun: first
//! by the script (the operation with this number has this fault), then by the odds of each fault. All
//! that it did can be read afterwards, so that a failure says what it takes to see it again.
//!
//! [`Fault::Lost`], [`Fault::Torn`], [`Fault::Misdirected`] and [`Fault::Flipped`] are lies: the device
//! says that all went well. Only checksums find them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_base::mapping::SharedMapping;

use crate::{BeginError, BlockError, Buffer, Completion, Device, Geometry, Request};

mod plan;

pub use plan::{Fault, Faults, Odds};

/// A device with faults.
#[derive(Debug)]
pub struct FaultDevice<D> {
    inner: D,
    faults: Faults,
    /// Not begun underneath yet.
    late: Vec<Late>,
    /// What its completion becomes.
    changed: Vec<(u64, Change)>,
    /// Ready to be taken, from this time on.
    ready: Vec<(Instant, Completion)>,
    inner_under_way: usize,
}

/// An operation that waits until `left` more were begun, or until nothing else is under way.
#[derive(Debug)]
struct Late {
    left: usize,
    token: u64,
    request: Request,
}

#[derive(Clone, Debug)]
enum Change {
    Result(Result<(), BlockError>),
    Slow(Duration),
    Flipped(Buffer, usize),
}

impl<D: Device> FaultDevice<D> {
    /// The device `inner` with these faults; a clone of them changes them later on.
    pub fn new(inner: D, faults: Faults) -> FaultDevice<D> {
        let (late, changed, ready) = (Vec::new(), Vec::new(), Vec::new());
        FaultDevice { inner, faults, late, changed, ready, inner_under_way: 0 }
    }

    /// The device underneath.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Gives the device underneath back; what is under way is forgotten.
    pub fn into_inner(self) -> D {
        self.inner
    }

    fn under_way(&self) -> usize {
        self.inner_under_way + self.late.len() + self.ready.len()
    }

    fn pass(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        self.inner.begin(token, request)?;
        self.inner_under_way += 1;
        Ok(())
    }

    fn complete(&mut self, token: u64, result: Result<(), BlockError>) {
        self.ready.push((Instant::now(), Completion { token, result }));
    }

    /// Begins an operation with a fault. One that does not fit the operation changes nothing of it.
    fn begin_with(&mut self, fault: Fault, token: u64, request: Request) -> Result<(), BeginError> {
        let sector = self.geometry().sector_bytes as usize;
        match (fault, request) {
            (Fault::QueueFull, _) => return Err(BeginError::Full { depth: self.depth() }),
            (Fault::Error { errno }, _) => self.complete(token, Err(BlockError::Device { errno })),
            (Fault::DoneError { errno }, request) => {
                self.change(token, Change::Result(Err(BlockError::Device { errno })));
                return self.pass(token, request);
            }
            (Fault::Lost, request) if request.changes() || matches!(request, Request::Flush) => {
                self.complete(token, Ok(()));
            }
            (Fault::Torn { sectors }, Request::Write { offset, from, durable }) => {
                let bytes = from.bytes.min(sectors as usize * sector);
                return self.begin_torn(token, offset, from.part(0, bytes), durable, Ok(()));
            }
            (Fault::Short { sectors }, Request::Write { offset, from, durable }) => {
                let bytes = from.bytes.min(sectors as usize * sector);
                let short = Err(BlockError::Short { moved: bytes as u64 });
                return self.begin_torn(token, offset, from.part(0, bytes), durable, short);
            }
            (Fault::Misdirected { sectors }, Request::Write { offset, from, durable }) => {
                let offset = self.astray(offset, from.bytes as u64, sectors);
                return self.pass(token, Request::Write { offset, from, durable });
            }
            (Fault::Flipped { bit }, Request::Read { offset, into }) => {
                self.change(token, Change::Flipped(into.clone(), bit));
                return self.pass(token, Request::Read { offset, into });
            }
            (Fault::Slow { more }, request) => {
                self.change(token, Change::Slow(more));
                return self.pass(token, request);
            }
            (Fault::Late { by }, request) => self.late.push(Late { left: by, token, request }),
            (_, request) => return self.pass(token, request),
        }
        Ok(())
    }

    fn begin_torn(
        &mut self,
        token: u64,
        offset: u64,
        from: Buffer,
        durable: bool,
        result: Result<(), BlockError>,
    ) -> Result<(), BeginError> {
        if from.bytes == 0 {
            self.complete(token, result);
            return Ok(());
        }
        self.change(token, Change::Result(result));
        self.pass(token, Request::Write { offset, from, durable })
    }

    fn change(&mut self, token: u64, change: Change) {
        self.changed.push((token, change));
    }

    /// Where a write goes that misses its place by some sectors, around the device's end.
    fn astray(&self, offset: u64, bytes: u64, sectors: u64) -> u64 {
        let geometry = self.geometry();
        let sector = u64::from(geometry.sector_bytes);
        let places = (geometry.bytes - bytes) / sector + 1;
        (offset / sector).wrapping_add(sectors) % places * sector
    }

    /// Begins what has waited long enough, and everything where nothing else is under way.
    fn begin_late(&mut self) {
        let is_alone = self.inner_under_way == 0;
        let late = std::mem::take(&mut self.late);
        let (due, waiting) = late.into_iter().partition(|late| is_alone || late.left == 0);
        self.late = waiting;
        let due: Vec<Late> = due;
        for Late { token, request, .. } in due {
            // Underneath there may be less room than was said.
            if self.pass(token, request).is_err() {
                self.complete(token, Err(BlockError::Device { errno: plan::EIO }));
            }
        }
    }

    fn changed_completion(&mut self, completion: Completion) {
        let token = completion.token;
        let place = self.changed.iter().position(|(its, _)| *its == token);
        let change = place.map(|place| self.changed.swap_remove(place).1);
        let now = Instant::now();
        let (at, result) = match change {
            Some(Change::Result(result)) => (now, completion.result.and(result)),
            Some(Change::Slow(more)) => (now + more, completion.result),
            Some(Change::Flipped(into, bit)) => {
                flip(&into, bit);
                (now, completion.result)
            }
            None => (now, completion.result),
        };
        self.ready.push((at, Completion { token, result }));
    }
}

impl<D: Device> Device for FaultDevice<D> {
    fn forget(&mut self, memory: &Arc<SharedMapping>) {
        self.inner.forget(memory);
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        self.geometry().check(&request)?;
        if self.under_way() >= self.depth() {
            return Err(BeginError::Full { depth: self.depth() });
        }
        self.late.iter_mut().for_each(|late| late.left = late.left.saturating_sub(1));
        let begun = match self.faults.next(&request) {
            Some(fault) => self.begin_with(fault, token, request),
            None => self.pass(token, request),
        };
        if begun.is_err() {
            self.changed.retain(|(its, _)| *its != token);
        }
        begun
    }

    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        let mut taken = Vec::new();
        self.begin_late();
        let soonest = self.ready.iter().map(|(at, _)| *at).min();
        let until_soonest = soonest.map(|at| at.saturating_duration_since(Instant::now()));
        let wait = wait.map(|wait| until_soonest.map_or(wait, |soonest| wait.min(soonest)));
        if let (Some(wait), 0) = (wait, self.inner_under_way) {
            std::thread::sleep(wait.min(until_soonest.unwrap_or_default()));
        }
        self.inner.reap(wait, &mut taken)?;
        self.inner_under_way -= taken.len().min(self.inner_under_way);
        taken.into_iter().for_each(|completion| self.changed_completion(completion));
        let now = Instant::now();
        self.ready.retain(|(at, completion)| {
            let is_due = *at <= now;
            if is_due {
                completions.push(*completion);
            }
            !is_due
        });
        Ok(())
    }
}

/// Changes one bit of what was read.
fn flip(into: &Buffer, bit: usize) {
    let bit = bit % (into.bytes * 8);
    let mut byte = [0];
    let at = into.at + bit / 8;
    // It was checked when the read was begun.
    if into.memory.copy_out(at, &mut byte).is_ok() {
        byte[0] ^= 1 << (bit % 8);
        let _ = into.memory.copy_in(at, &byte);
    }
}

#[cfg(test)]
mod tests;

//! A part of a device as a device of its own, from 0 on, wherever its bytes lie there.
//!
//! ```text
//! begin -> parts, one for each extent -> those that the device has room for -> all done: completed
//! ```
//!
//! Who has the device may reach all of it: this keeps a program that is trusted with a device from
//! mistakes, and nobody from malice.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_base::mapping::SharedMapping;

use crate::{BeginError, BlockError, Completion, Device, Extents, Geometry, Request};

/// An area of a device.
#[derive(Debug)]
pub struct AreaDevice<D> {
    inner: D,
    extents: Extents,
    geometry: Geometry,
    /// What was begun, by place; the device knows the place.
    operations: Vec<Option<Operation>>,
    free: Vec<usize>,
    /// Parts that the device has not been given yet, and the places of their operations.
    waiting: VecDeque<(usize, Request)>,
    /// Parts that it has.
    handed_on: usize,
}

#[derive(Debug)]
struct Operation {
    token: u64,
    parts: usize,
    result: Result<(), BlockError>,
}

impl<D: Device> AreaDevice<D> {
    /// The bytes of `inner` that lie in these places.
    ///
    /// # Errors
    /// They are none, do not lie on the device, or are no whole sectors.
    pub fn new(inner: D, extents: Extents) -> Result<AreaDevice<D>, BeginError> {
        let whole = inner.geometry();
        for run in extents.runs() {
            whole.check(&Request::Discard { offset: run.offset, bytes: run.bytes })?;
        }
        if extents.bytes() == 0 {
            return Err(BeginError::OutOfRange { offset: 0, bytes: 0, limit: whole.bytes });
        }
        let depth = inner.depth();
        Ok(AreaDevice {
            geometry: Geometry { bytes: extents.bytes(), ..whole },
            inner,
            extents,
            operations: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            waiting: VecDeque::new(),
            handed_on: 0,
        })
    }

    /// The device underneath.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn under_way(&self) -> usize {
        self.operations.len() - self.free.len()
    }

    /// Gives the device what it has room for; whether that was anything.
    fn hand_on(&mut self, completions: &mut Vec<Completion>) -> bool {
        let before = self.handed_on;
        while self.handed_on < self.inner.depth() {
            let Some((place, part)) = self.waiting.pop_front() else { break };
            match self.inner.begin(place as u64, part.clone()) {
                Ok(()) => self.handed_on += 1,
                Err(BeginError::Full { .. }) => {
                    self.waiting.push_front((place, part));
                    break;
                }
                // Ranges were checked, and nobody else has the device: it does not do this at all.
                Err(_) => self.part_done(place, Err(UNSUPPORTED), completions),
            }
        }
        self.handed_on > before
    }

    fn collect(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        let mut taken = Vec::new();
        self.inner.reap(wait, &mut taken)?;
        for Completion { token, result } in taken {
            self.handed_on -= 1;
            self.part_done(token as usize, result, completions);
        }
        Ok(())
    }

    fn part_done(
        &mut self,
        place: usize,
        result: Result<(), BlockError>,
        completions: &mut Vec<Completion>,
    ) {
        let Some(found) = self.operations.get_mut(place) else { return };
        let Some(operation) = found.as_mut() else { return };
        operation.parts -= 1;
        operation.result = operation.result.and(result);
        if operation.parts == 0 {
            let Operation { token, result, .. } = *operation;
            *found = None;
            self.free.push(place);
            completions.push(Completion { token, result });
        }
    }
}

impl<D: Device> Device for AreaDevice<D> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn depth(&self) -> usize {
        self.operations.len()
    }

    fn begin(&mut self, token: u64, request: Request) -> Result<(), BeginError> {
        self.geometry.check(&request)?;
        let place = self.free.pop().ok_or(BeginError::Full { depth: self.operations.len() })?;
        let parts = parts(&self.extents, &request);
        self.operations[place] = Some(Operation { token, parts: parts.len(), result: Ok(()) });
        self.waiting.extend(parts.into_iter().map(|part| (place, part)));
        Ok(())
    }

    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        let (until, before) = (wait.map(|wait| Instant::now() + wait), completions.len());
        self.hand_on(completions);
        self.collect(wait, completions)?;
        loop {
            // What was handed on just now begins, whether it is waited for or not.
            let has_more = self.hand_on(completions);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let goes_on = completions.len() == before && self.under_way() > 0;
            let left = left.filter(|left| goes_on && !left.is_zero());
            if left.is_none() && !has_more {
                return Ok(());
            }
            self.collect(left, completions)?;
        }
    }

    fn event(&mut self) -> Option<Arc<OwnedFd>> {
        self.inner.event()
    }

    fn forget(&mut self, memory: &Arc<SharedMapping>) {
        self.inner.forget(memory);
    }
}

/// EOPNOTSUPP.
const UNSUPPORTED: BlockError = BlockError::Device { errno: 95 };

/// What of a request lies in each extent. Its range was checked.
fn parts(extents: &Extents, request: &Request) -> Vec<Request> {
    let Some((offset, bytes)) = request.range() else { return vec![request.clone()] };
    let (mut done, mut parts) = (0, Vec::new());
    while done < bytes {
        let Some(run) = extents.run(offset + done, bytes - done) else { break };
        let offset = run.offset;
        let (at, len) = (done as usize, run.bytes as usize);
        parts.push(match request {
            Request::Read { into, .. } => Request::Read { offset, into: into.part(at, len) },
            Request::Write { from, durable, .. } => {
                Request::Write { offset, from: from.part(at, len), durable: *durable }
            }
            Request::Discard { .. } => Request::Discard { offset, bytes: run.bytes },
            Request::Zero { .. } => Request::Zero { offset, bytes: run.bytes },
            Request::Flush => Request::Flush,
        });
        done += run.bytes;
    }
    parts
}

#[cfg(test)]
mod tests;

//! A device that records what it is asked, so that every crash of it can be tried.
//!
//! ```text
//! RecordingDevice --begin, reap--> events: begun, completed, marked   (in the order they happened)
//! Recording       --crash_states-> for each cut: the devices that a crash there may leave
//! ```
//!
//! The one who tests drives a [`RecordingDevice`] through what is to be tested, and says with
//! [`Recorder::mark`] what it has promised to somebody by then. Afterwards it opens each
//! [`CrashState`] and looks whether all that was promised is there, and nothing that was not asked.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use heliostat_base::mapping::SharedMapping;

use crate::{BeginError, BlockError, Completion, Device, Geometry, Image, Request};

mod crash;
mod sectors;

pub use crash::{CrashState, CrashStates};

/// What a recorded operation does to the device.
#[derive(Clone, Debug)]
enum Effect {
    /// These bytes come to lie there.
    Bytes { offset: u64, bytes: Arc<[u8]>, durable: bool },
    /// Zeroes come to lie there.
    Zeroes { offset: u64, bytes: u64 },
    /// What has completed before it was begun is durable.
    Flush,
    /// It changes nothing.
    Nothing,
}

#[derive(Clone, Debug)]
enum Event {
    /// An operation, which has the number of how many were begun before.
    Begun(Effect),
    /// One has completed; whether well.
    Completed { number: usize, well: bool },
    /// Whoever tests had promised this by now.
    Marked(u64),
}

/// What a device was asked, and what completed, in order.
#[derive(Clone, Debug)]
pub struct Recording {
    geometry: Geometry,
    start: Image,
    events: Vec<Event>,
}

/// The recording of a device that somebody else drives. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Mutex<Recording>>);

/// A device that records.
#[derive(Debug)]
pub struct RecordingDevice<D> {
    inner: D,
    recorder: Recorder,
    begun: usize,
    /// Under way: token, and number of the operation.
    under_way: Vec<(u64, usize)>,
}

impl<D: Device> RecordingDevice<D> {
    /// The device `inner`, whose bytes are `start` now.
    pub fn new(inner: D, start: Image) -> RecordingDevice<D> {
        let recording = Recording { geometry: inner.geometry(), start, events: Vec::new() };
        let recorder = Recorder(Arc::new(Mutex::new(recording)));
        RecordingDevice { inner, recorder, begun: 0, under_way: Vec::new() }
    }

    /// What it has recorded, and will.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// The device underneath.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl Recorder {
    /// Says what has been promised by now, as a number of the test's own.
    pub fn mark(&self, promise: u64) {
        self.whole().events.push(Event::Marked(promise));
    }

    /// What was recorded so far.
    pub fn recording(&self) -> Recording {
        self.whole().clone()
    }

    /// No thread panics while it holds this; one that did leaves whole events all the same.
    fn whole(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recording {
    /// Operations that were begun.
    pub fn operations(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Begun(_))).count()
    }

    /// The devices that a crash may leave, cut after cut: all of them where a cut has at most `limit`,
    /// else the most telling ones and a choice of the seed's, `limit` together.
    pub fn crash_states(&self, limit: usize, seed: u64) -> CrashStates<'_> {
        CrashStates::new(self, limit, seed)
    }
}

impl<D: Device> Device for RecordingDevice<D> {
    fn event(&mut self) -> Option<Arc<OwnedFd>> {
        self.inner.event()
    }

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
        let effect = Effect::of(&request)?;
        self.inner.begin(token, request)?;
        self.recorder.whole().events.push(Event::Begun(effect));
        self.under_way.push((token, self.begun));
        self.begun += 1;
        Ok(())
    }

    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        let before = completions.len();
        self.inner.reap(wait, completions)?;
        let mut recording = self.recorder.whole();
        for completion in &completions[before..] {
            let place = self.under_way.iter().position(|(token, _)| *token == completion.token);
            let Some(place) = place else { continue };
            let (_, number) = self.under_way.swap_remove(place);
            recording.events.push(Event::Completed { number, well: completion.result.is_ok() });
        }
        Ok(())
    }
}

impl Effect {
    fn of(request: &Request) -> Result<Effect, BeginError> {
        Ok(match request {
            Request::Read { .. } => Effect::Nothing,
            Request::Flush => Effect::Flush,
            Request::Write { offset, from, durable } => {
                let bytes = from.copy_out()?.into();
                Effect::Bytes { offset: *offset, bytes, durable: *durable }
            }
            // What a discard leaves where that is open is nobody's business until it is written.
            Request::Discard { offset, bytes } | Request::Zero { offset, bytes } => {
                Effect::Zeroes { offset: *offset, bytes: *bytes }
            }
        })
    }
}

#[cfg(test)]
mod tests;

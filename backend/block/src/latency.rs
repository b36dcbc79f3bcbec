//! A device that takes longer, as one behind a slower cable or with a slower flush would.
//!
//! For measurements: what a service costs on a device of 15, 100 or 1000 us. A completion is held
//! until its time. The thread sleeps until shortly before and looks at the clock for the rest, since
//! a sleep ends some tens of microseconds late; others may have the core then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_base::mapping::SharedMapping;

use crate::{BeginError, BlockError, Completion, Device, Geometry, Request};

/// What is left of a wait when the thread begins to look at the clock.
const SPIN: Duration = Duration::from_micros(50);

/// How much longer operations take, by their kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extra {
    /// Reads.
    pub read: Duration,
    /// Writes that are not durable, discards and zeroings.
    pub write: Duration,
    /// Durable writes.
    pub durable_write: Duration,
    /// Flushes.
    pub flush: Duration,
}

impl Extra {
    /// What makes bytes durable takes this much longer.
    pub fn durability(more: Duration) -> Extra {
        Extra { durable_write: more, flush: more, ..Extra::default() }
    }

    fn of(&self, request: &Request) -> Duration {
        match request {
            Request::Read { .. } => self.read,
            Request::Write { durable: true, .. } => self.durable_write,
            Request::Flush => self.flush,
            _ => self.write,
        }
    }
}

/// A device whose operations take longer.
#[derive(Debug)]
pub struct LatencyDevice<D> {
    inner: D,
    extra: Extra,
    /// Under way underneath, with what is added when they complete.
    begun: Vec<(u64, Duration)>,
    /// Done, and complete at this time.
    held: Vec<(Instant, Completion)>,
}

impl<D: Device> LatencyDevice<D> {
    /// The device `inner`, and so much more.
    pub fn new(inner: D, extra: Extra) -> LatencyDevice<D> {
        LatencyDevice { inner, extra, begun: Vec::new(), held: Vec::new() }
    }

    /// The device underneath.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn take_from_inner(&mut self, wait: Option<Duration>) -> Result<(), BlockError> {
        if self.begun.is_empty() {
            return Ok(());
        }
        let mut taken = Vec::new();
        self.inner.reap(wait, &mut taken)?;
        let now = Instant::now();
        for completion in taken {
            let place = self.begun.iter().position(|(token, _)| *token == completion.token);
            let more = place.map(|place| self.begun.swap_remove(place).1);
            self.held.push((now + more.unwrap_or_default(), completion));
        }
        Ok(())
    }

    fn soonest(&self) -> Option<Instant> {
        self.held.iter().map(|(at, _)| *at).min()
    }

    /// Moves what is due; whether that was anything.
    fn give(&mut self, completions: &mut Vec<Completion>) -> bool {
        let (now, before) = (Instant::now(), completions.len());
        self.held.retain(|(at, completion)| {
            let is_due = *at <= now;
            if is_due {
                completions.push(*completion);
            }
            !is_due
        });
        completions.len() > before
    }
}

impl<D: Device> Device for LatencyDevice<D> {
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
        if self.begun.len() + self.held.len() >= self.depth() {
            return Err(BeginError::Full { depth: self.depth() });
        }
        let more = self.extra.of(&request);
        self.inner.begin(token, request)?;
        self.begun.push((token, more));
        Ok(())
    }

    fn reap(
        &mut self,
        wait: Option<Duration>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), BlockError> {
        let until = wait.map(|wait| Instant::now() + wait);
        // Nothing is due before the next completion of the device underneath, which may have a short
        // way for who waits.
        self.take_from_inner(wait.filter(|_| self.held.is_empty()))?;
        while !self.give(completions) {
            let (now, Some(until)) = (Instant::now(), until) else { break };
            let is_idle = self.begun.is_empty() && self.held.is_empty();
            if is_idle || now >= until {
                break;
            }
            let next = self.soonest().map_or(until, |at| at.min(until));
            let sleep = next.saturating_duration_since(now).saturating_sub(SPIN);
            if !self.begun.is_empty() {
                self.take_from_inner((!sleep.is_zero()).then_some(sleep))?;
            } else if !sleep.is_zero() {
                std::thread::sleep(sleep);
            } else {
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, MemoryDevice};

    fn complete(device: &mut impl Device, count: usize) -> Vec<u64> {
        let mut taken = Vec::new();
        while taken.len() < count {
            device.reap(Some(Duration::from_secs(1)), &mut taken).unwrap();
        }
        taken.iter().map(|it| it.token).collect()
    }

    #[test]
    fn what_makes_durable_takes_longer_and_plain_writes_do_not_wait_for_it() {
        let more = Duration::from_millis(20);
        let mut device = LatencyDevice::new(MemoryDevice::new(4096), Extra::durability(more));
        let write =
            |durable| Request::Write { offset: 0, from: Buffer::new(512).unwrap(), durable };
        let begun = Instant::now();
        device.begin(1, Request::Flush).unwrap();
        device.begin(2, write(true)).unwrap();
        device.begin(3, write(false)).unwrap();
        let order = complete(&mut device, 3);
        assert_eq!(order[0], 3);
        assert!(begun.elapsed() >= more);
    }

    #[test]
    fn a_wait_that_is_shorter_ends_with_nothing_and_the_rest_comes_later() {
        // Far more than a loaded machine keeps this thread from running.
        let more = Duration::from_millis(500);
        let mut device = LatencyDevice::new(MemoryDevice::new(4096), Extra::durability(more));
        device.begin(1, Request::Flush).unwrap();
        let mut taken = Vec::new();
        device.reap(None, &mut taken).unwrap();
        device.reap(Some(Duration::from_millis(1)), &mut taken).unwrap();
        assert_eq!(taken, []);
        assert_eq!(complete(&mut device, 1), [1]);
        device.reap(Some(Duration::from_secs(60)), &mut taken).unwrap();
        assert_eq!(taken, [], "nothing is under way, so nothing is waited for");
    }

    #[test]
    fn what_is_held_counts_as_under_way() {
        let extra = Extra::durability(Duration::from_millis(1));
        let mut device = LatencyDevice::new(MemoryDevice::new(4096).with_depth(1), extra);
        device.begin(1, Request::Flush).unwrap();
        device.reap(None, &mut Vec::new()).unwrap();
        assert_eq!(device.begin(2, Request::Flush), Err(BeginError::Full { depth: 1 }));
    }
}

//! What all sessions of a server loop share: its requests to the kernel, its counters, its part of the service.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use heliostat_abi::name::ObjectId;
use heliostat_backend_uring::{By, Requests};
use tracing::warn;

use super::awaited::Awaited;
use super::counts::Counts;
use super::message::{Event, Events};
use super::parts::Parts;

/// Requests that go to the kernel in one call.
const ENTRIES: u32 = 256;
/// Requests under way: each session's bell, the inbox, and what the device has.
const UNDER_WAY_MAX: u32 = 2048;
/// Bytes that the device may have to do at once, of all busy sessions of all loops together.
const DEVICE_BYTES_MAX: u64 = 32 << 20;

/// An operation of a session on a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperationId {
    /// The session's place in the loop.
    pub seat: ObjectId,
    /// The operation among the session's.
    pub operation: ObjectId,
}

/// What the kernel's answer to a request is for.
#[derive(Clone, Copy)]
pub enum Token<R> {
    /// An operation.
    Operation(OperationId),
    /// The service, beside any operation.
    Service(R),
    /// A parked session's bell.
    Bell(ObjectId),
    /// The inbox: somebody has sent an order.
    Inbox,
}

/// The shared parts.
pub struct Engine<S: Parts> {
    /// Requests to the kernel.
    pub requests: Requests<Token<S::Request>>,
    /// The service's part on this loop.
    pub service: S,
    /// This loop's number.
    pub number: usize,
    /// What was done.
    pub counts: Arc<Counts>,
    /// Requests for operations and for the service that the kernel has.
    pub flying: usize,
    /// Orders that the service expects soon: each sweep looks for them.
    pub awaited: Awaited,
    /// About what time it is.
    pub now_ns: u64,
    /// How often orders were looked for until there were none. What the control plane said before it answered a session has
    /// come once this has gone on since an operation of that session was first seen.
    pub looks_for_orders: u64,
    device: Arc<DeviceShares>,
    events: Events<S>,
}

impl<S: Parts> Engine<S> {
    /// The parts of the loop with this number; for the thread that calls this.
    pub fn create(
        number: usize,
        service: S,
        counts: Arc<Counts>,
        device: Arc<DeviceShares>,
        events: Events<S>,
        by: By,
    ) -> std::io::Result<Engine<S>> {
        let requests = Requests::create(by, ENTRIES, UNDER_WAY_MAX)?;
        let (flying, awaited, now_ns, looks_for_orders) = (0, Awaited::default(), 0, 0);
        Ok(Engine {
            requests,
            service,
            number,
            counts,
            flying,
            awaited,
            now_ns,
            looks_for_orders,
            device,
            events,
        })
    }

    /// Tells the control plane something.
    pub fn tell(&self, event: S::Event) {
        self.events.send(Event::Service(event));
    }

    /// Tells the control plane that a session broke the protocol.
    pub fn tell_broken(&self, session: ObjectId, how: &'static str) {
        self.events.send(Event::Broken(session, how));
    }

    /// Gives the kernel what was prepared.
    pub(super) fn submit(&mut self) {
        if let Err(error) = self.requests.submit() {
            // EBUSY and EAGAIN pass when completions are taken, which the next sweep does.
            warn!(%error, "the io_uring takes nothing now");
        }
    }

    /// The bytes that a session may have at the device, with so many busy ones on this loop.
    pub fn device_share(&self, busy: u64) -> u64 {
        self.device.share(self.number, busy)
    }
}

/// How many sessions of each loop are busy: by that the device's bytes are divided.
#[derive(Default)]
pub struct DeviceShares {
    busy: Vec<AtomicU64>,
}

impl DeviceShares {
    /// For so many loops.
    pub fn new(loops: usize) -> DeviceShares {
        DeviceShares { busy: (0..loops).map(|_| AtomicU64::new(0)).collect() }
    }

    /// A loop has so many busy sessions: the bytes that each of all may have at the device.
    pub fn share(&self, number: usize, busy: u64) -> u64 {
        if let Some(own) = self.busy.get(number).filter(|own| own.load(Relaxed) != busy) {
            own.store(busy, Relaxed);
        }
        let all: u64 = self.busy.iter().map(|busy| busy.load(Relaxed)).sum();
        DEVICE_BYTES_MAX / all.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_sessions_of_all_loops_share_the_device() {
        let device = DeviceShares::new(3);
        assert_eq!(device.share(0, 1), DEVICE_BYTES_MAX);
        assert_eq!(device.share(1, 3), DEVICE_BYTES_MAX / 4);
        assert_eq!(device.share(0, 0), DEVICE_BYTES_MAX / 3);
        assert_eq!(device.share(1, 0), DEVICE_BYTES_MAX);
    }
}

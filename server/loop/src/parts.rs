//! What a service has on a loop, by type: objects, what it keeps for a session, and its messages.

use heliostat_abi::file::delegated::{OpKind, Way, OBJECTS_MAX};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Meter;

/// The types of a service. What it does with them is [`super::Service`].
pub trait Parts: Sized + 'static {
    /// Something that a session has open.
    type Object: Object;
    /// What it keeps for one session.
    type PerSession: PerSession;
    /// Names a request to the kernel that belongs to no operation.
    type Request: Copy;
    /// What the control plane, or another loop, tells it.
    type Order: Send + 'static;
    /// What it tells the control plane.
    type Event: Send + 'static;

    /// Whether writes of one object are made in the order in which they were submitted, one after the
    /// other. Where nobody is promised that, none waits for another one.
    const KEEPS_ORDER: bool = true;

    /// How many objects a session may have open.
    const OBJECTS: usize = OBJECTS_MAX;

    /// An operation was cancelled, or its time is over. It has ended, or ends once nothing works on it
    /// any more ([`Entry::flying`](super::Entry)).
    fn cut(&mut self, _session: ObjectId, _operation: ObjectId) {}

    /// Returns when the service next has something to do because time went by.
    fn next_ns(&self) -> Option<u64> {
        None
    }
}

/// Something that a session has open, as far as every loop has to know it.
pub trait Object {
    /// Returns how much may be done with it, besides what its session may.
    fn meter(&self) -> Option<&Meter> {
        None
    }

    /// Counts a transfer of it that has ended well.
    fn count(&self, _way: Way, _bytes: u64) {}

    /// Says whether the kernel's answer to a transfer means that it has to be made another way. Then
    /// the operation gets another turn.
    fn falls_back(&mut self, _way: Way, _result: i32) -> bool {
        false
    }

    /// Says whether reads of it go to the device itself, which likes to have several at once.
    fn reads_device(&self) -> bool {
        false
    }
}

/// What a service keeps for one session, as far as every loop has to know it.
pub trait PerSession: Default {
    /// An operation of the session has ended, for whatever reason.
    fn ended(&mut self, _kind: OpKind, _operation: ObjectId) {}

    /// Returns how much may be done with what an operation is about, besides what its session may.
    /// Without an operation it is a read that may be answered at once.
    fn meters(&self, _object: ObjectId, _operation: Option<ObjectId>) -> [Option<&Meter>; 2] {
        [None, None]
    }

    /// Returns the errno by which the session is told that an operation was cut short, for services
    /// whose operations may have had an effect by then. `errno` is ECANCELED or ETIMEDOUT.
    fn cut_short(&self, _operation: ObjectId, errno: i32) -> i32 {
        errno
    }

    /// Returns when the service next has something to do for the session because time went by.
    fn next_ns(&self) -> Option<u64> {
        None
    }
}

impl PerSession for () {}

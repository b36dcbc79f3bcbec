//! What a service brings to a server loop: its objects, its messages, and its operations.

use heliostat_abi::delegated::{Kind, OneRead, Way};
use heliostat_abi::name::ObjectId;
use heliostat_service_grant::Meter;

use super::engine::Engine;
use super::server::Server;
use super::session::Session;
use super::turn::Turn;

/// What became of an operation in this turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It has ended, or waits for something that will bring it back.
    Over,
    /// It has used up the turn and goes on in the next.
    GoesOn,
    /// It cannot begin now; the session waits for one of its own to complete.
    Blocked,
}

/// The part of a service that runs on one server loop.
///
/// Every method runs on the loop's thread and must not wait: what takes longer is a request to the
/// kernel, or an event to the control plane, whose answer comes back as an order.
pub trait Service: Sized + 'static {
    /// Something that a session has open.
    type Object;
    /// What it keeps for one session.
    type PerSession: Default;
    /// Names a request to the kernel that belongs to no operation.
    type Request: Copy;
    /// What the control plane, or another loop, tells it.
    type Order: Send + 'static;
    /// What it tells the control plane.
    type Event: Send + 'static;

    /// Begins an operation or goes on with it. The operation stands in the session's table.
    fn serve(turn: &mut Turn<'_, Self>) -> Step;

    /// Answers a read of one piece that needs nothing but a copy: its bytes. `left` is what the
    /// session may still spend. `None` leaves everything as it was, and the read becomes an
    /// operation.
    fn read_at_once(
        engine: &mut Engine<Self>,
        session: &mut Session<Self>,
        read: &OneRead,
        left: &mut i64,
    ) -> Option<u64>;

    /// Whether the kernel's answer to a transfer of an object means that it has to be made another
    /// way. Then the operation gets another turn.
    fn falls_back(object: &mut Self::Object, way: Way, result: i32) -> bool;

    /// Whether reads of an object go to the device itself, which likes to have several at once.
    fn reads_device(object: &Self::Object) -> bool;

    /// How much may be done with an object, besides what its session may.
    fn meter(object: &Self::Object) -> Option<&Meter>;

    /// Counts a transfer of an object that has ended well.
    fn count(object: &Self::Object, way: Way, bytes: u64);

    /// A session has ended that had this object open.
    fn close(engine: &mut Engine<Self>, session: ObjectId, object: Self::Object);

    /// An operation of a session has ended, whatever for.
    fn ended(_its: &mut Self::PerSession, _kind: Kind, _operation: ObjectId) {}

    /// When the service next has something to do for a session because time went by.
    fn next_ns(_its: &Self::PerSession) -> Option<u64> {
        None
    }

    /// The clock was looked at: what has to be done because time went by.
    fn clock(_server: &mut Server<Self>) {}

    /// A round over everything is over.
    fn swept(_server: &mut Server<Self>) {}

    /// Carries out an order to the service.
    fn carry_out(server: &mut Server<Self>, order: Self::Order);

    /// The kernel has answered a request of the service's own.
    fn completed(server: &mut Server<Self>, request: Self::Request, result: i32);
}

//! What a service does on a server loop: how its operations begin and go on, and what it is told.

use heliostat_abi::file::delegated::{OneRead, Operation};
use heliostat_abi::name::ObjectId;

use super::engine::Engine;
use super::parts::Parts;
use super::session::Session;
use super::sessions::Sessions;
use super::turn::{Step, Turn};

/// The part of a service that runs on one server loop.
///
/// Every method runs on the loop's thread and must not wait: what takes longer is a request to the
/// kernel, or an event to the control plane, whose answer comes back as an order.
pub trait Service: Parts {
    /// Begins an operation or goes on with it. The operation stands in the session's table.
    fn serve(turn: &mut Turn<'_, Self>) -> Step;

    /// Answers a read of one piece that needs nothing but a copy: its bytes. `left` is what the
    /// session may still spend. `None` leaves everything as it was, and the read becomes an
    /// operation.
    fn read_at_once(
        _engine: &mut Engine<Self>,
        _session: &mut Session<Self>,
        _read: &OneRead,
        _left: &mut i64,
    ) -> Option<u64> {
        None
    }

    /// Returns how many bytes an operation counts for where rates hold: those of its pieces, unless it is
    /// about others. Asked before it begins, perhaps several times.
    fn bytes(_session: &mut Session<Self>, _id: ObjectId, operation: &Operation) -> u64 {
        operation.pieces.bytes()
    }

    /// A session has ended that had this object open.
    fn close(engine: &mut Engine<Self>, session: ObjectId, object: Self::Object);

    /// A session has ended; `seat` was its place. Its operations end without a word to it.
    fn left(_engine: &mut Engine<Self>, _seat: ObjectId, _session: &mut Session<Self>) {}

    /// The clock was looked at: what has to be done because time went by.
    fn clock(_sessions: &mut Sessions<Self>) {}

    /// A round begins: takes what devices of the service's own have done; whether that was anything.
    fn collect(_sessions: &mut Sessions<Self>) -> bool {
        false
    }

    /// The loop is about to sleep: has the kernel watch what is to end the sleep. False where the loop
    /// must not sleep, since there is something to do.
    fn lie_down(_sessions: &mut Sessions<Self>) -> bool {
        true
    }

    /// A round over everything is over.
    fn swept(_sessions: &mut Sessions<Self>) {}

    /// Carries out an order to the service.
    fn carry_out(sessions: &mut Sessions<Self>, order: Self::Order);

    /// The kernel has answered a request of the service's own.
    fn completed(sessions: &mut Sessions<Self>, request: Self::Request, result: i32);
}

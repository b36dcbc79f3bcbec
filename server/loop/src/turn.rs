//! One operation's turn, as a service sees it: the loop, the session, the operation, what is left.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use heliostat_abi::file::delegated::Operation;
use heliostat_backend_uring::{Flight, NotPrepared};

use super::engine::{Engine, OperationId, Token};
use super::operations::Entry;
use super::parts::Parts;
use super::session::Session;

/// What became of an operation in this turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It has ended, or waits for something that will bring it back.
    Over,
    /// It has used up the turn and goes on in the next.
    GoesOn,
    /// It cannot begin now, since there is no room for its request: it is tried again in the next
    /// sweep, before the session's others.
    Blocked,
}

/// An operation that is served now.
pub struct Turn<'a, S: Parts> {
    /// What all sessions of the loop share.
    pub engine: &'a mut Engine<S>,
    /// Whose operation it is.
    pub session: &'a mut Session<S>,
    /// Which operation.
    pub id: OperationId,
    /// Bytes that the session may still spend in this turn.
    pub left: &'a mut i64,
}

impl<S: Parts> Turn<'_, S> {
    /// The operation, while it has not ended.
    pub fn entry(&self) -> Option<&Entry> {
        self.session.operations.get(self.id.operation)
    }

    /// The operation, to change.
    pub fn entry_mut(&mut self) -> Option<&mut Entry> {
        self.session.operations.get_mut(self.id.operation)
    }

    /// The object that an operation is for.
    pub fn object(&self, operation: &Operation) -> Option<&S::Object> {
        self.session.objects.get(operation.object)
    }

    /// Ends the operation with a result.
    pub fn end(&mut self, result: i64) -> Step {
        self.session.end(self.engine, self.id.operation, result);
        Step::Over
    }

    /// Ends the operation with an errno.
    pub fn fail(&mut self, errno: i32) -> Step {
        self.end(-i64::from(errno))
    }

    /// The kernel has a request for the operation, of so many of its session's bytes at the device.
    pub fn begun(&mut self, flight: Flight, bytes: u64) {
        if let Some(entry) = self.session.operations.get_mut(self.id.operation) {
            entry.flying += 1;
        }
        self.engine.flying += 1;
        self.session.flying_bytes += bytes;
        self.session.flights.insert(self.id.operation, flight);
    }

    /// No request could be prepared: the operation waits for room, or it can never be.
    pub fn not_begun(&mut self, error: &NotPrepared) -> Step {
        match error {
            NotPrepared::Full => Step::Blocked,
            NotPrepared::Range(_) => self.fail(libc::EFAULT),
        }
    }

    /// Has the kernel make a file's bytes durable.
    pub fn fsync(&mut self, file: &Arc<OwnedFd>) -> Step {
        let begun = self.engine.requests.fsync(Token::Operation(self.id), file);
        self.of_whole(begun)
    }

    /// Has the kernel make a file so many bytes long.
    pub fn truncate(&mut self, file: &Arc<OwnedFd>, bytes: u64) -> Step {
        let begun = self.engine.requests.truncate(Token::Operation(self.id), file, bytes);
        self.of_whole(begun)
    }

    /// A request for a whole file, which takes none of the session's bytes at the device.
    fn of_whole(&mut self, begun: Result<Flight, NotPrepared>) -> Step {
        match begun {
            Ok(flight) => {
                self.begun(flight, 0);
                Step::Over
            }
            Err(error) => self.not_begun(&error),
        }
    }
}

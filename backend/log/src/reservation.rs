//! An append in three steps, and what an append has become.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::core::Core;
use crate::error::LogError;
use crate::format::{entry_bytes, EntryKind, PayloadChecksum, Position, ENTRY_BYTES};
use crate::notify::Notice;
use crate::space::Room;

/// Room for one entry, which is filled piece by piece. While it is open, later entries are not
/// acknowledged: fill it and commit it soon. One that is dropped becomes a filler, which readers
/// do not see.
#[must_use]
pub struct Reservation {
    core: Arc<Core>,
    position: Position,
    room: Option<Room>,
    length: u64,
    filled: u64,
    checksum: PayloadChecksum,
}

impl Reservation {
    pub(crate) fn new(core: Arc<Core>, length: u64) -> Result<Reservation, LogError> {
        let room = core.reserve(length)?;
        let (position, checksum) = (room.position, PayloadChecksum::default());
        Ok(Reservation { core, position, room: Some(room), length, filled: 0, checksum })
    }

    /// Where the entry will begin.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Bytes of the payload that are still to come.
    pub fn left(&self) -> u64 {
        self.length - self.filled
    }

    /// Puts the next bytes of the payload.
    ///
    /// # Errors
    /// More than were reserved; none of them is put.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        let found = self.filled + bytes.len() as u64;
        let too_long = LogError::TooLong { found, limit: self.length };
        let Some(room) = &self.room else {
            return Err(LogError::Closed);
        };
        if found > self.length {
            return Err(too_long);
        }
        let at = room.position.at + ENTRY_BYTES + self.filled;
        self.core.memory.put(at, bytes).map_err(|_| too_long)?;
        self.checksum = self.checksum.and(bytes);
        self.filled = found;
        Ok(())
    }

    /// Makes the payload an entry, and lets it be written. Does not wait.
    ///
    /// # Errors
    /// Bytes of the payload are missing: the room becomes a filler.
    pub fn commit(mut self) -> Result<Appended, LogError> {
        let (found, wanted) = (self.filled, self.length);
        if found < wanted {
            return Err(LogError::Unfilled { found, wanted });
        }
        let Some(room) = self.room.take() else {
            return Err(LogError::Closed);
        };
        let batch = self.core.seal(&room, EntryKind::Payload, wanted as u32, self.checksum);
        Ok(Appended::new(self.core.clone(), room.position, wanted, batch))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            self.core.abandon(&room, self.length);
        }
    }
}

/// An entry that was appended, and may be on its way to the device. Dropping it changes nothing.
pub struct Appended {
    core: Arc<Core>,
    position: Position,
    end: u64,
    batch: u64,
    /// Where it was polled as a future: who it is.
    number: Option<u64>,
}

impl Appended {
    pub(crate) fn new(core: Arc<Core>, position: Position, payload: u64, batch: u64) -> Appended {
        Appended { core, position, end: position.at + entry_bytes(payload), batch, number: None }
    }

    /// Where the entry begins.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Where it ends: it is durable when the log's acknowledged end has come so far.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether it is durable.
    pub fn is_durable(&self) -> bool {
        self.core.durable() >= self.end
    }

    /// Waits until it is durable, and drives the device if nobody does.
    ///
    /// # Errors
    /// The log has failed: whether the entry is there, the next opening finds out.
    pub fn wait(&self) -> Result<Position, LogError> {
        self.core.wait_for(self.end, self.batch).map(|()| self.position)
    }

    /// Has a function called when it is durable, or when it is certain that nobody will know. It is
    /// called by whoever drives, by [`crate::Log::poll`], or at once: it takes no lock that is held by
    /// somebody who appends, waits or polls.
    pub fn then(self, call: impl FnOnce(Result<Position, LogError>) + Send + 'static) {
        let position = self.position;
        let call = Box::new(move |outcome: Result<(), LogError>| call(outcome.map(|()| position)));
        self.core.notices.add(self.end, self.core.notices.number(), Notice::Call(call));
        self.core.tell_late(self.end);
    }
}

impl std::fmt::Debug for Appended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Appended").field("position", &self.position).finish_non_exhaustive()
    }
}

/// Ready when the entry is durable. Somebody has to drive: a [`crate::DriverThread`], others that
/// wait, or [`crate::Log::poll`].
impl Future for Appended {
    type Output = Result<Position, LogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let notices = &self.core.notices;
        let number = self.number.unwrap_or_else(|| notices.number());
        notices.add(self.end, number, Notice::Wake(context.waker().clone()));
        self.number = Some(number);
        let answer = match (self.is_durable(), self.core.check()) {
            (true, _) => Ok(self.position),
            (false, Err(error)) => Err(error),
            (false, Ok(())) => return Poll::Pending,
        };
        Poll::Ready(answer)
    }
}

impl Drop for Appended {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.core.notices.remove(self.end, number);
        }
    }
}

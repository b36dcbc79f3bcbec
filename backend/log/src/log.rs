//! A log, as programs use it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_backend_block::Device;
use heliostat_base::event::Event;
use heliostat_base::mapping::{OutOfRange, SharedMapping};

use crate::area::Area;
use crate::core::Core;
use crate::error::LogError;
use crate::format::{
    entry_bytes, EntryKind, PayloadChecksum, Position, ENTRY_ALIGNMENT, ENTRY_BYTES,
};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::reader::Reader;
use crate::recovery;
use crate::reservation::{Appended, Reservation};
use crate::waiting::Slot;

/// Bytes that are copied at once from memory that others may change.
const COPY_BYTES: usize = 4096;

/// A log in an area of a device. Clones are handles of the same one, for any thread.
#[derive(Clone)]
pub struct Log {
    pub(crate) core: Arc<Core>,
}

impl Log {
    /// Makes a log in an area that has none.
    ///
    /// # Errors
    /// There is one, the area does not fit, or the device fails.
    pub fn create(device: Box<dyn Device>, area: Area, options: Options) -> Result<Log, LogError> {
        Self::around(recovery::create(device, area, &options)?, options, Mutant::None)
    }

    /// Opens the log of an area after whatever happened. Reads what was appended since the last
    /// checkpoint, and cuts off what was not acknowledged and is not whole.
    ///
    /// # Errors
    /// There is no log; an acknowledged entry is damaged behind the last checkpoint; the device fails.
    /// Nothing was changed.
    pub fn open(device: Box<dyn Device>, area: Area, options: Options) -> Result<Log, LogError> {
        Self::open_as(device, area, options, Mutant::None)
    }

    pub(crate) fn open_as(
        device: Box<dyn Device>,
        area: Area,
        options: Options,
        mutant: Mutant,
    ) -> Result<Log, LogError> {
        Self::around(recovery::open(device, area, mutant)?, options, mutant)
    }

    /// Makes an area one that has no log; gives the device back.
    ///
    /// # Errors
    /// The device fails.
    pub fn erase(device: Box<dyn Device>, area: Area) -> Result<Box<dyn Device>, LogError> {
        recovery::erase(device, area)
    }

    fn around(opened: recovery::Opened, options: Options, mutant: Mutant) -> Result<Log, LogError> {
        Ok(Log { core: Arc::new(Core::new(opened, options, mutant)?) })
    }

    /// Appends an entry and returns its position at once. It waits only while the window is full, or
    /// while the device still counts on bytes that were trimmed.
    ///
    /// # Errors
    /// The area is full, the payload too long, or the log has failed or was closed: nothing was
    /// appended.
    pub fn append(&self, payload: &[u8]) -> Result<Appended, LogError> {
        let (position, batch) = self.put(payload)?;
        Ok(Appended::new(self.core.clone(), position, payload.len() as u64, batch))
    }

    /// Appends an entry and waits until it is durable.
    ///
    /// # Errors
    /// As for `append`; where the log fails meanwhile, the next opening finds out whether the
    /// entry is there.
    pub fn append_sync(&self, payload: &[u8]) -> Result<Position, LogError> {
        let (position, batch) = self.put(payload)?;
        self.core.wait_for(position.at + entry_bytes(payload.len() as u64), batch)?;
        Ok(position)
    }

    fn put(&self, payload: &[u8]) -> Result<(Position, u64), LogError> {
        let checksum = PayloadChecksum::of(payload);
        let room = self.core.reserve(payload.len() as u64)?;
        // The room lies in the ring: `reserve` gave it.
        let _ = self.core.memory.put(room.position.at + ENTRY_BYTES, payload);
        let batch = self.core.seal(&room, EntryKind::Payload, payload.len() as u32, checksum);
        Ok((room.position, batch))
    }

    /// Appends bytes of memory that others may change meanwhile. They are copied once, and what was
    /// copied is what counts.
    ///
    /// # Errors
    /// As for `append`, or the bytes do not lie in the mapping.
    pub fn append_shared(
        &self,
        from: &SharedMapping,
        offset: usize,
        bytes: usize,
    ) -> Result<Appended, LogError> {
        OutOfRange::check(offset, bytes, from.len()).map_err(|error| LogError::TooLong {
            found: bytes as u64,
            limit: error.limit as u64,
        })?;
        let mut reservation = self.reserve(bytes)?;
        let mut copy = [0; COPY_BYTES];
        for at in (0..bytes).step_by(COPY_BYTES) {
            let copy = &mut copy[..COPY_BYTES.min(bytes - at)];
            // The range was checked above.
            let _ = from.copy_out(offset + at, copy);
            reservation.put(copy)?;
        }
        reservation.commit()
    }

    /// Reserves room for an entry of so many bytes, which its holder fills and commits. A thread
    /// that holds one must not append by itself: it may wait for room that its own reservation
    /// holds.
    ///
    /// # Errors
    /// As for `append`.
    pub fn reserve(&self, bytes: usize) -> Result<Reservation, LogError> {
        Reservation::new(self.core.clone(), bytes as u64)
    }

    /// Where the first entry begins that is still wanted.
    pub fn begin(&self) -> Position {
        self.core.space().begin
    }

    /// Where the next acknowledged entry will begin.
    pub fn end(&self) -> Position {
        self.core.space().durable
    }

    /// Longest payload.
    pub fn longest(&self) -> u64 {
        self.core.longest
    }

    /// Bytes for entries in the area.
    pub fn capacity(&self) -> u64 {
        self.core.space().layout.data_bytes
    }

    /// Reads the acknowledged entries from a position on, which an append or an entry has told.
    ///
    /// # Errors
    /// It was trimmed, or is not acknowledged.
    pub fn read_from(&self, position: Position) -> Result<Reader, LogError> {
        self.check_range(position)?;
        Ok(Reader::new(self.core.clone(), position))
    }

    /// Reads all acknowledged entries.
    pub fn read(&self) -> Reader {
        Reader::new(self.core.clone(), self.begin())
    }

    /// Gives up the entries before a position. Returns at once; the header on the device says so
    /// later, at the latest when the room is needed. After a crash some of them may be there again.
    ///
    /// # Errors
    /// The position was trimmed before, is not acknowledged, or is no entry's; or a queue uses the log,
    /// whose entries go when they are acknowledged.
    pub fn trim(&self, position: Position) -> Result<(), LogError> {
        if self.core.is_queue() {
            return Err(LogError::IsQueue);
        }
        let end = self.check_range(position)?;
        if position != end {
            let entry = Reader::new(self.core.clone(), position).read();
            entry.map_err(|error| match error {
                LogError::Damaged { .. } => LogError::NotAnEntry { wanted: position },
                error => error,
            })?;
        }
        self.core.trim(position);
        Ok(())
    }

    /// Writes what is so now into the header on the device, and waits until that is durable: what
    /// was trimmed stays trimmed, and recovery begins here.
    ///
    /// # Errors
    /// The log has failed.
    pub fn checkpoint(&self) -> Result<(), LogError> {
        let wish = self.core.want_header();
        let done = || self.core.is_header_written(wish).then_some(());
        self.core.wait_until(Slot::Any, None, done).map(|_| ())
    }

    /// Waits until everything that was committed before is durable.
    ///
    /// # Errors
    /// The log has failed.
    pub fn sync(&self) -> Result<(), LogError> {
        let end = self.core.space().sealed.at;
        // Not in the next batch's place: what is under way already is in one before it, and the next
        // one may never be.
        let done = || (self.core.durable() >= end).then_some(());
        self.core.wait_until(Slot::Any, None, done).map(|_| ())
    }

    /// Whether the entry at a position is durable, which an append of this opening has told.
    pub fn is_durable(&self, position: Position) -> bool {
        self.core.durable() > position.at
    }

    /// Waits until the entry at a position is durable, at most so long; whether it is. Drives the
    /// device if nobody does.
    ///
    /// # Errors
    /// The log has failed; or the position is none that an append has told.
    pub fn wait_durable(
        &self,
        position: Position,
        timeout: Option<Duration>,
    ) -> Result<bool, LogError> {
        let end = self.core.space().tail;
        if position.at >= end.at {
            return Err(LogError::Beyond { wanted: position, end });
        }
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let done = || self.is_durable(position).then_some(());
        Ok(self.core.wait_until(Slot::Any, until, done)?.is_some())
    }

    /// Says whether the log can still go on.
    ///
    /// # Errors
    /// It has failed, and with what.
    pub fn check(&self) -> Result<(), LogError> {
        self.core.check()
    }

    /// Drives the device as far as that goes without waiting, for programs with a loop of their own.
    pub fn poll(&self) {
        self.core.poll();
    }

    /// A descriptor that becomes readable when entries were acknowledged, or the log has failed. All
    /// callers get the same event; it is for one of them to drain.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn event(&self) -> Result<Event, LogError> {
        self.core.notices.event()
    }

    /// Lets nobody append any more, waits for what is under way, and writes a checkpoint.
    ///
    /// # Errors
    /// The log has failed.
    pub fn close(&self) -> Result<(), LogError> {
        self.core.space().is_closed = true;
        self.sync()?;
        self.checkpoint()
    }

    /// The device, once the log was closed and this is its only handle.
    pub fn into_device(self) -> Option<Box<dyn Device>> {
        let core = Arc::into_inner(self.core)?;
        Some(core.into_driver().into_channel().into_device())
    }

    /// Checks that a position lies in the log; returns the acknowledged end.
    fn check_range(&self, wanted: Position) -> Result<Position, LogError> {
        let (begin, end) = {
            let space = self.core.space();
            (space.begin, space.durable)
        };
        let (at, sequence) = (wanted.at, wanted.sequence);
        if at < begin.at {
            return Err(LogError::Trimmed { wanted, begin });
        }
        if at > end.at {
            return Err(LogError::Beyond { wanted, end });
        }
        let is_order = (begin.sequence..=end.sequence).contains(&sequence)
            && (at == end.at) == (sequence == end.sequence);
        match at % ENTRY_ALIGNMENT == 0 && is_order {
            true => Ok(end),
            false => Err(LogError::NotAnEntry { wanted }),
        }
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (begin, end) = (self.begin(), self.end());
        f.debug_struct("Log").field("begin", &begin).field("end", &end).finish_non_exhaustive()
    }
}

//! What all handles of one log share, and how they wait for it.

use std::sync::PoisonError;
use std::time::Instant;

use heliostat_base::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};

use crate::driver::Driver;
use crate::error::LogError;
use crate::format::{
    entry_bytes, EntryHeader, EntryKind, Marks, PayloadChecksum, Position, Seed, ENTRY_BYTES,
};
use crate::memory::Memory;
use crate::mutant::Mutant;
use crate::notify::Notices;
use crate::options::Options;
use crate::recovery::Opened;
use crate::space::{NoRoom, Room, Space};
use crate::waiting::{Slot, Waiting};

/// One log.
pub(crate) struct Core {
    pub(crate) seed: Seed,
    pub(crate) generation: u32,
    pub(crate) longest: u64,
    pub(crate) mutant: Mutant,
    pub(crate) memory: Memory,
    pub(crate) waiting: Waiting,
    pub(crate) notices: Notices,
    space: Mutex<Space>,
    driver: Mutex<Driver>,
    failure: Mutex<Option<LogError>>,
    has_failed: AtomicBool,
    /// Copies of what `space` says, for looks without its lock.
    sealed: AtomicU64,
    durable: AtomicU64,
    /// Batches that have ended.
    completed: AtomicU64,
    /// Counts wishes for a header block, and those that came true.
    headers_wanted: AtomicU64,
    headers_written: AtomicU64,
}

impl Core {
    pub(crate) fn new(opened: Opened, options: Options, mutant: Mutant) -> Result<Core, LogError> {
        let (header, memory) = (opened.header, opened.memory);
        let layout = opened.channel.layout();
        let end = header.end.at;
        Ok(Core {
            seed: header.seed(),
            generation: header.generation,
            longest: header.longest.into(),
            mutant,
            memory,
            waiting: Waiting::new(),
            notices: Notices::default(),
            space: Mutex::new(Space::new(layout, &header)),
            driver: Mutex::new(Driver::new(opened.channel, header, options)?),
            failure: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            sealed: AtomicU64::new(end),
            durable: AtomicU64::new(end),
            completed: AtomicU64::new(0),
            headers_wanted: AtomicU64::new(0),
            headers_written: AtomicU64::new(0),
        })
    }

    /// The numbers. No code panics while it holds them.
    pub(crate) fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the log has stopped, if it has.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let failure = *self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        Err(failure.unwrap_or(LogError::Closed))
    }

    /// Stops the log: what is not acknowledged by now never is.
    pub(crate) fn fail(&self, error: LogError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.has_failed.store(true, Ordering::Release);
        self.waiting.wake_all();
        self.notices.fail(error);
    }

    /// Whether a driver would find something to do, or to wait for.
    pub(crate) fn has_work(&self) -> bool {
        let is_written = self.sealed.load(Ordering::Acquire) == self.durable();
        let wanted = self.headers_wanted.load(Ordering::Acquire);
        let is_told = wanted == self.headers_written.load(Ordering::Acquire);
        !(is_written && is_told) && !self.has_failed.load(Ordering::Acquire)
    }

    /// Up to where everything is acknowledged.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Gives out room for an entry; waits while there is none, and driving would make some.
    pub(crate) fn reserve(&self, payload: u64) -> Result<Room, LogError> {
        if payload > self.longest {
            return Err(LogError::TooLong { found: payload, limit: self.longest });
        }
        let reuses = self.mutant == Mutant::ReusesBeforeHeader;
        let try_once = || match self.space().reserve(payload, reuses) {
            Ok(room) => Some(Ok(room)),
            Err(NoRoom::Never(error)) => Some(Err(error)),
            Err(NoRoom::AfterHeader) => {
                self.want_header_once();
                None
            }
            Err(NoRoom::Later) => None,
        };
        self.check()?;
        match try_once() {
            Some(answer) => answer,
            None => self.wait_until(Slot::Any, None, try_once)?.unwrap_or(Err(LogError::Closed)),
        }
    }

    /// Writes the header of an entry whose payload lies in memory, and lets it be written. Returns
    /// the batch that it goes into, if no entry before it is open.
    pub(crate) fn seal(
        &self,
        room: &Room,
        kind: EntryKind,
        length: u32,
        payload: PayloadChecksum,
    ) -> u64 {
        let position = room.position;
        let unsettled = position.at.saturating_sub(self.durable()) as u32;
        let generation = self.generation;
        let header = EntryHeader { kind, length, payload, position, generation, unsettled };
        // The room lies in the ring: `reserve` gave it.
        let _ = self.memory.put(position.at, &header.encode(self.seed));
        let batch = {
            let mut space = self.space();
            if space.seal(room) {
                self.sealed.store(space.sealed.at, Ordering::Release);
            }
            space.next_batch
        };
        self.waiting.pass_on(|| self.has_work());
        batch
    }

    /// Makes room that nobody will fill an entry without meaning.
    pub(crate) fn abandon(&self, room: &Room, payload: u64) {
        let checksum = self.zeroes(room.position.at, payload);
        self.seal(room, EntryKind::Filler, payload as u32, checksum);
    }

    /// Fills the rest of the last sector, so that the next batch need not wait for this one.
    pub(crate) fn fill_sector(&self, space: &mut Space) {
        let Some((room, bytes)) = space.reserve_filler() else {
            return;
        };
        let position = room.position;
        let length = bytes - ENTRY_BYTES;
        debug_assert_eq!(entry_bytes(length), bytes);
        let header = EntryHeader {
            kind: EntryKind::Filler,
            length: length as u32,
            payload: self.zeroes(position.at, length),
            position,
            generation: self.generation,
            unsettled: position.at.saturating_sub(self.durable()) as u32,
        };
        let _ = self.memory.put(position.at, &header.encode(self.seed));
        space.seal(&room);
        self.sealed.store(space.sealed.at, Ordering::Release);
    }

    fn zeroes(&self, at: u64, payload: u64) -> PayloadChecksum {
        const ZEROES: [u8; 512] = [0; 512];
        let _ = self.memory.zero(at + ENTRY_BYTES, payload);
        let whole = (0..payload / 512).fold(PayloadChecksum::default(), |sum, _| sum.and(&ZEROES));
        whole.and(&ZEROES[..(payload % 512) as usize])
    }

    /// Moves the begin. The header says so later; room is used again only then.
    pub(crate) fn advance(&self, begin: Position, marks: Marks) {
        let mut space = self.space();
        if begin >= space.begin {
            (space.begin, space.marks) = (begin, marks);
        }
    }

    /// Asks for a header block that says what is so now; returns the number of the wish.
    pub(crate) fn want_header(&self) -> u64 {
        self.headers_wanted.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn want_header_once(&self) {
        let written = self.headers_written.load(Ordering::Acquire);
        let next = written + 1;
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        // Where one is wanted already, it is begun after this and says what is so by then, or is
        // under way, and the caller asks again when it is done.
        let _ = self.headers_wanted.compare_exchange(written, next, success, failure);
    }

    /// Wishes for header blocks so far.
    pub(crate) fn headers_wanted(&self) -> u64 {
        self.headers_wanted.load(Ordering::Acquire)
    }

    /// Whether a wish for a header block has come true.
    pub(crate) fn is_header_written(&self, wish: u64) -> bool {
        self.headers_written.load(Ordering::Acquire) >= wish
    }

    /// Tells that a header block is durable which covers so many wishes.
    pub(crate) fn header_written(&self, wishes: u64) {
        self.headers_written.store(wishes, Ordering::Release);
        self.waiting.wake(Slot::Any);
    }

    /// Tells that batches have ended, and everything before a position is durable.
    pub(crate) fn acknowledge(&self, durable: Position, batches: std::ops::Range<u64>) {
        self.space().durable = durable;
        self.durable.store(durable.at, Ordering::Release);
        self.completed.store(batches.end, Ordering::Release);
        batches.for_each(|batch| self.waiting.wake(Slot::Batch(batch)));
        self.waiting.wake(Slot::Any);
        self.notices.tell(durable.at);
    }

    /// Waits until everything before a position is acknowledged, and drives if nobody does.
    ///
    /// # Errors
    /// The log has failed before.
    pub(crate) fn wait_for(&self, end: u64, batch: u64) -> Result<(), LogError> {
        let done = || (self.durable() >= end).then_some(());
        if done().is_some() {
            return Ok(());
        }
        self.wait_until(Slot::Batch(batch), None, done).map(|_| ())
    }

    /// Waits until `done` has an answer, and drives if nobody does; None when the time is over.
    ///
    /// # Errors
    /// The log has failed before.
    pub(crate) fn wait_until<R>(
        &self,
        first: Slot,
        until: Option<Instant>,
        mut done: impl FnMut() -> Option<R>,
    ) -> Result<Option<R>, LogError> {
        let has_ended = |batch| self.completed.load(Ordering::Acquire) > batch;
        let mut look = || self.look(&mut done);
        let answer = self.waiting.wait(
            first,
            until,
            &mut look,
            &|| self.has_work(),
            &has_ended,
            &mut |look| self.drive(look),
        );
        answer.transpose()
    }

    /// The answer, if there is one; a log that has failed has none.
    fn look<R>(&self, done: &mut impl FnMut() -> Option<R>) -> Option<Result<R, LogError>> {
        match done() {
            Some(answer) => Some(Ok(answer)),
            None => self.check().err().map(Err),
        }
    }

    /// Drives until there is an answer, nothing is left to do, or others want the role or are to be
    /// told something. The caller has the role, and it is given back.
    fn drive<R>(&self, look: &mut dyn FnMut() -> Option<R>) -> Option<R> {
        self.with_role(|driver| {
            let mut found = None;
            while found.is_none() && self.has_work() {
                driver.step(self, true);
                found = look();
                if self.waiting.is_wanted() || self.notices.has_ready() {
                    break;
                }
            }
            found
        })
    }

    /// Tells those who want to know of a position that is acknowledged already, or never will be.
    pub(crate) fn tell_late(&self, at: u64) {
        heliostat_base::sync::full_fence();
        if let Err(error) = self.check() {
            self.notices.fail(error);
        } else if self.durable() >= at {
            self.notices.tell(self.durable());
        }
        self.notices.deliver();
    }

    /// Does what can be done without waiting.
    pub(crate) fn poll(&self) {
        if self.waiting.try_take_role() {
            self.with_role(|driver| driver.step(self, false));
        }
    }

    /// Waits for the role, and does something with the device.
    pub(crate) fn with_driver<R>(&self, what: impl FnOnce(&mut Driver) -> R) -> R {
        self.waiting.take_role();
        self.with_role(what)
    }

    /// Does something as the one who has the role, and gives it back. Callbacks run after that:
    /// they may use the log.
    fn with_role<R>(&self, what: impl FnOnce(&mut Driver) -> R) -> R {
        let answer = what(&mut self.driver.lock().unwrap_or_else(PoisonError::into_inner));
        self.waiting.release_role();
        self.waiting.pass_on(|| self.has_work());
        self.notices.deliver();
        answer
    }

    /// The driver, of a log that nobody else has a handle of.
    pub(crate) fn into_driver(self) -> Driver {
        self.driver.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

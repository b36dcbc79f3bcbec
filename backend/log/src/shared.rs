//! What the driver and everybody else share of one log: numbers, memory, who waits.

use std::sync::PoisonError;

use heliostat_base::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};

use crate::area::Layout;
use crate::error::LogError;
use crate::format::{
    entry_bytes, EntryHeader, EntryKind, Header, Marks, PayloadChecksum, Position, Seed,
    ENTRY_BYTES,
};
use crate::memory::Memory;
use crate::mutant::Mutant;
use crate::notify::Notices;
use crate::space::{Room, Space};
use crate::waiting::{Slot, Waiting};

/// All of one log but its device.
pub(crate) struct Shared {
    pub(crate) seed: Seed,
    pub(crate) generation: u32,
    pub(crate) longest: u64,
    pub(crate) mutant: Mutant,
    pub(crate) memory: Memory,
    pub(crate) waiting: Waiting,
    pub(crate) notices: Notices,
    space: Mutex<Space>,
    failure: Mutex<Option<LogError>>,
    has_failed: AtomicBool,
    is_queue: AtomicBool,
    /// Copies of what `space` says, for looks without its lock.
    sealed: AtomicU64,
    durable: AtomicU64,
    /// Batches that have ended.
    completed: AtomicU64,
    /// Counts wishes for a header block, and those that came true.
    headers_wanted: AtomicU64,
    headers_written: AtomicU64,
}

impl Shared {
    pub(crate) fn new(header: &Header, memory: Memory, layout: Layout, mutant: Mutant) -> Shared {
        Shared {
            seed: header.seed(),
            generation: header.generation,
            longest: header.longest.into(),
            mutant,
            memory,
            waiting: Waiting::new(),
            notices: Notices::default(),
            space: Mutex::new(Space::new(layout, header)),
            failure: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            is_queue: AtomicBool::new(false),
            sealed: AtomicU64::new(header.end.at),
            durable: AtomicU64::new(header.end.at),
            completed: AtomicU64::new(0),
            headers_wanted: AtomicU64::new(0),
            headers_written: AtomicU64::new(0),
        }
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

    /// From here on its consumers alone move the begin.
    pub(crate) fn become_queue(&self) {
        self.is_queue.store(true, Ordering::Release);
    }

    /// Whether a queue uses it.
    pub(crate) fn is_queue(&self) -> bool {
        self.is_queue.load(Ordering::Acquire)
    }

    /// Whether a driver would find something to do, or to wait for.
    pub(crate) fn has_work(&self) -> bool {
        let is_written = self.sealed.load(Ordering::Acquire) == self.durable();
        let wanted = self.headers_wanted.load(Ordering::Acquire);
        let is_told = wanted == self.headers_written.load(Ordering::Acquire);
        let is_done = is_written && is_told;
        !(is_done || self.has_failed.load(Ordering::Acquire))
    }

    /// Up to where everything is acknowledged.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
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

    /// Moves the begin of a log; what a queue's consumers have acknowledged behind it stays so.
    pub(crate) fn trim(&self, begin: Position) {
        let mut space = self.space();
        if begin >= space.begin {
            let entries = begin.sequence.saturating_sub(space.begin.sequence);
            (space.marks, space.begin) = (space.marks.after(entries), begin);
        }
    }

    /// Asks for a header block that says what is so now; returns the number of the wish.
    pub(crate) fn want_header(&self) -> u64 {
        self.headers_wanted.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Asks for a header block, if nobody has asked since the last one.
    pub(crate) fn want_header_once(&self) {
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

    /// Whether a batch has ended.
    pub(crate) fn has_ended(&self, batch: u64) -> bool {
        self.completed.load(Ordering::Acquire) > batch
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
}

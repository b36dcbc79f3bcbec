//! One thread's end of a joint session: what it submits, and what has completed of that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::{
    Completion, Facts, OneRead, OpKind, Operation, Piece, Pieces, FACTS_BYTES, OPERATION_BYTES_MAX,
};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::OutOfRange;

use super::super::files::result_of;
use super::super::{DelegatedError, File, Transfer, TAG_MAX};
use super::arrivals::{self, Arrival, Silence};
use super::member::Member;

/// How long a thread that has no room waits before it tries again: somebody of its process has to take
/// a completion, or another process's turn to end.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// One thread's end. What is under way when it is dropped goes on, and nobody hears of it.
pub struct Submitter {
    member: Arc<Member>,
    id: ObjectId,
    /// The tag of what is under way in each slot.
    slots: Vec<Option<u64>>,
    free: Vec<u16>,
    under_way: usize,
    /// Completions that a convenience found while it waited for its own.
    kept: VecDeque<Completion>,
    tags: u64,
}

impl Submitter {
    pub(super) fn new(member: Arc<Member>) -> Result<Submitter, DelegatedError> {
        let entered = member.arrivals.enter();
        let full = |error: heliostat_abi::table::TableFull| error.limit as u64;
        let id = entered.map_err(|error| DelegatedError::Refused(Code::Full, full(error)))?;
        let (slots, free) = (Vec::new(), Vec::new());
        let (under_way, kept, tags) = (0, VecDeque::new(), 0);
        Ok(Submitter { member, id, slots, free, under_way, kept, tags })
    }

    /// Operations of this thread that have not completed, or whose completion was not taken.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Submits operations in order and rings once; answers how many there was room for. That may be
    /// none for a tenth of a second although nothing is under way, while another process that was
    /// stopped has the turn.
    ///
    /// # Errors
    /// `Stale` when a file is of another session, `Tag` when a tag is too large (both before anything
    /// is submitted), `Gone` when the session has ended or this is a forked child of the member.
    pub fn submit(&mut self, transfers: &[Transfer]) -> Result<usize, DelegatedError> {
        let epoch = self.member.identity.epoch;
        if transfers.iter().any(|it| it.kind.has_file() && it.file.epoch != epoch) {
            return Err(DelegatedError::Stale);
        }
        if transfers.iter().any(|transfer| transfer.tag > TAG_MAX) {
            return Err(DelegatedError::Tag);
        }
        self.check()?;
        let room = self.member.arrivals.take_room(transfers.len().min(self.room()));
        let mut given = 0;
        while given < room && self.push(&transfers[given].operation())? {
            given += 1;
        }
        self.member.arrivals.give_room(room - given);
        if given > 0 {
            self.member.ring();
        }
        Ok(given)
    }

    /// Takes a completion that is there.
    ///
    /// # Errors
    /// `Corrupt` when the server broke the protocol, `Gone` when the session has ended.
    pub fn reap(&mut self) -> Result<Option<Completion>, DelegatedError> {
        if let Some(kept) = self.kept.pop_front() {
            return Ok(Some(kept));
        }
        loop {
            let taken = self.member.arrivals.take(self.id).map_err(|end| self.lose(end))?;
            let Some(arrival) = taken else { return Ok(None) };
            match self.settle(arrival) {
                Some(found) if found.tag <= TAG_MAX => return Ok(Some(found)),
                // What a convenience that gave up has left behind is nobody's.
                _ => {}
            }
        }
    }

    /// Waits for a completion of this thread's, `limit` at most.
    ///
    /// # Errors
    /// `TimedOut`; `Idle` when nothing is under way; `Gone` when the session has ended: what was under
    /// way may have been done or not.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<Completion, DelegatedError> {
        if let Some(kept) = self.kept.pop_front() {
            return Ok(kept);
        }
        loop {
            let found = self.wait_new(limit)?;
            if found.tag <= TAG_MAX {
                return Ok(found);
            }
        }
    }

    /// Asks for the end of this thread's operation with this tag. Answers whether it was under way.
    ///
    /// # Errors
    /// As `wait`.
    pub fn cancel(&mut self, tag: u64) -> Result<bool, DelegatedError> {
        let Some(slot) = self.slots.iter().position(|its| *its == Some(tag)) else {
            return Ok(false);
        };
        let argument = arrivals::tag(self.member.number, self.id, slot as u16);
        let (kind, file, pieces) = (OpKind::Cancel, None, Pieces::default());
        let completion = self.perform(kind, file, (0, argument), pieces)?;
        Ok(completion.result == 0)
    }

    /// Has the server open the file `name` (an absolute path), which goes through `scratch`, a place
    /// in the window that no other thread uses; see `Delegated::open`. The file is every member's.
    ///
    /// # Errors
    /// `File` with what open(2) would say for the session's opener, or EACCES where a rule denies it.
    pub fn open(
        &mut self,
        name: &str,
        access: u64,
        scratch: Piece,
    ) -> Result<File, DelegatedError> {
        let fits = OutOfRange::check(0, name.len(), scratch.bytes as usize);
        fits.map_err(DelegatedError::Window)?;
        let place = Piece { bytes: name.len() as u32, ..scratch };
        let copied = self.member.window.copy_in(scratch.offset as usize, name.as_bytes());
        copied.map_err(DelegatedError::Window)?;
        let pieces = Pieces::new(&[place]).unwrap_or_default();
        let opened = self.perform(OpKind::Open, None, (0, access), pieces)?;
        let object = ObjectId { index: result_of(opened)? as u32, generation: opened.generation };
        Ok(File { object, epoch: self.member.identity.epoch })
    }

    /// Reads at `offset` into a place in the window and waits; answers how many bytes there were,
    /// fewer only at the file's end.
    ///
    /// # Errors
    /// `File` with what pread(2) would say; those of `wait`.
    pub fn read_at(
        &mut self,
        file: File,
        offset: u64,
        into: Piece,
    ) -> Result<usize, DelegatedError> {
        self.carry_out(OpKind::Read, file, (offset, 0), &[into])
    }

    /// Writes a place in the window at `offset` and waits.
    ///
    /// # Errors
    /// `File` with what pwrite(2) would say; those of `wait`.
    pub fn write_at(
        &mut self,
        file: File,
        offset: u64,
        from: Piece,
    ) -> Result<usize, DelegatedError> {
        self.carry_out(OpKind::Write, file, (offset, 0), &[from])
    }

    /// What is known of the file; `scratch` has 64 bytes or more.
    ///
    /// # Errors
    /// `File` with what fstat(2) would say; those of `wait`.
    pub fn facts(&mut self, file: File, scratch: Piece) -> Result<Facts, DelegatedError> {
        self.carry_out(OpKind::Stat, file, (0, 0), &[scratch])?;
        let mut bytes = [0; FACTS_BYTES];
        let copied = self.member.window.copy_out(scratch.offset as usize, &mut bytes);
        copied.map_err(DelegatedError::Window)?;
        Ok(Facts::decode(&bytes))
    }

    /// No member needs the file any more.
    ///
    /// # Errors
    /// `File` with EBADF when it was closed already; those of `wait`.
    pub fn close(&mut self, file: File) -> Result<(), DelegatedError> {
        self.carry_out(OpKind::Close, file, (0, 0), &[]).map(drop)
    }

    /// Has any operation on a file done and waits: its result.
    ///
    /// # Errors
    /// `File` with its errno; those of `wait`.
    pub fn carry_out(
        &mut self,
        kind: OpKind,
        file: File,
        (offset, argument): (u64, u64),
        pieces: &[Piece],
    ) -> Result<usize, DelegatedError> {
        let pieces = Pieces::new(pieces).unwrap_or_default();
        result_of(self.perform(kind, Some(file), (offset, argument), pieces)?)
    }

    fn perform(
        &mut self,
        kind: OpKind,
        file: Option<File>,
        (offset, argument): (u64, u64),
        pieces: Pieces,
    ) -> Result<Completion, DelegatedError> {
        self.check()?;
        if file.is_some_and(|file| file.epoch != self.member.identity.epoch) {
            return Err(DelegatedError::Stale);
        }
        let object = file.map_or(ObjectId::default(), |file| file.object);
        self.tags = self.tags.wrapping_add(1);
        let tag = self.tags | !TAG_MAX;
        let asked = Operation { kind, object, offset, tag, timeout_us: 0, argument, pieces };
        while !self.give(&asked)? {
            match self.wait_arrival(Some(TRY_AGAIN)) {
                Ok(other) => self.keep(other),
                Err(DelegatedError::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
        loop {
            let found = self.wait_new(None)?;
            if found.tag == tag {
                return Ok(found);
            }
            self.keep(found);
        }
    }

    /// Keeps a completion for `wait`; what a convenience that gave up has left behind is nobody's.
    fn keep(&mut self, found: Completion) {
        if found.tag <= TAG_MAX {
            self.kept.push_back(found);
        }
    }

    /// Operations that this thread may have under way besides.
    fn room(&self) -> usize {
        self.member.depth().saturating_sub(self.under_way)
    }

    /// Gives the server one operation and rings; false when there is no room.
    fn give(&mut self, operation: &Operation) -> Result<bool, DelegatedError> {
        if self.member.arrivals.take_room(1.min(self.room())) == 0 {
            return Ok(false);
        }
        let is_given = self.push(operation)?;
        match is_given {
            true => self.member.ring(),
            false => self.member.arrivals.give_room(1),
        }
        Ok(is_given)
    }

    /// Puts an operation into the ring under a tag of its own; false when there is no room.
    fn push(&mut self, operation: &Operation) -> Result<bool, DelegatedError> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // There are no more than a session's operations.
            (self.slots.len() - 1) as u16
        });
        let tag = arrivals::tag(self.member.number, self.id, slot);
        let asked = Operation { tag, ..*operation };
        let is_pushed = match OneRead::of(&asked) {
            Some(read) => self.member.push(&read.encode()),
            None => {
                let mut record = [0; OPERATION_BYTES_MAX];
                let length = asked.encode(&mut record);
                self.member.push(record.get(..length).unwrap_or(&[]))
            }
        };
        match is_pushed {
            Ok(true) => {
                self.slots[usize::from(slot)] = Some(operation.tag);
                self.under_way += 1;
            }
            _ => self.free.push(slot),
        }
        is_pushed
    }

    fn wait_new(&mut self, limit: Option<Duration>) -> Result<Completion, DelegatedError> {
        if self.under_way == 0 {
            return Err(DelegatedError::Idle);
        }
        self.wait_arrival(limit)
    }

    fn wait_arrival(&mut self, limit: Option<Duration>) -> Result<Completion, DelegatedError> {
        loop {
            let lives = || self.member.is_kept();
            let waited = self.member.arrivals.wait(self.id, limit, &lives);
            let arrival = waited.map_err(|silence| self.lose(silence))?;
            if let Some(found) = self.settle(arrival) {
                return Ok(found);
            }
        }
    }

    /// Gives a completion its operation's tag back; `None` when it is of no operation.
    fn settle(&mut self, arrival: Arrival) -> Option<Completion> {
        let tag = self.slots.get_mut(usize::from(arrival.slot))?.take()?;
        self.free.push(arrival.slot);
        self.under_way -= 1;
        Some(Completion { tag, ..arrival.completion })
    }

    /// Whether this process may submit, and the session goes on.
    fn check(&self) -> Result<(), DelegatedError> {
        let lost = self.under_way;
        let is_kept = self.member.is_own() && self.member.is_kept();
        if is_kept {
            Ok(())
        } else {
            Err(DelegatedError::Gone { lost })
        }
    }

    fn lose(&self, silence: Silence) -> DelegatedError {
        match silence {
            Silence::TimedOut => DelegatedError::TimedOut,
            Silence::Gone => DelegatedError::Gone { lost: self.under_way },
            Silence::Corrupt => DelegatedError::Corrupt,
        }
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        self.member.arrivals.leave(self.id);
    }
}

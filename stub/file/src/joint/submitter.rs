//! One thread's end of a joint session: what it submits, and what has completed of that.

use std::sync::Arc;
use std::time::Duration;

use heliostat_abi::code::Code;
use heliostat_abi::file::delegated::{Completion, Facts, OpKind, Operation, Piece, Pieces};
use heliostat_abi::name::ObjectId;
use heliostat_stub_link::push_encoded;

use super::super::files::result_of;
use super::super::kept::{is_callers, KeptCompletions};
use super::super::record;
use super::super::{window, DelegatedError, File, Transfer};
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
    kept: KeptCompletions,
}

impl Submitter {
    pub(super) fn new(member: Arc<Member>) -> Result<Submitter, DelegatedError> {
        let entered = member.arrivals.enter();
        let full = |error: heliostat_abi::table::TableFull| error.limit as u64;
        let id = entered.map_err(|error| DelegatedError::Refused(Code::Full, full(error)))?;
        let (slots, free, kept) = (Vec::new(), Vec::new(), KeptCompletions::default());
        Ok(Submitter { member, id, slots, free, under_way: 0, kept })
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
        record::check(transfers, self.member.identity.epoch)?;
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
    /// `Corrupt` when the server broke the protocol, `Gone` as for `wait`.
    pub fn reap(&mut self) -> Result<Option<Completion>, DelegatedError> {
        if let Some(kept) = self.kept.take() {
            return Ok(Some(kept));
        }
        self.check_own()?;
        loop {
            let taken = self.member.arrivals.take(self.id).map_err(|end| self.lose(end))?;
            let Some(arrival) = taken else { return Ok(None) };
            match self.settle(arrival) {
                Some(found) if is_callers(&found) => return Ok(Some(found)),
                _ => {}
            }
        }
    }

    /// Waits for a completion of this thread's, `limit` at most.
    ///
    /// # Errors
    /// `TimedOut`; `Idle` when nothing is under way; `Gone` when the session has ended, and what was
    /// under way may have been done or not, or in a forked child: it is the member's.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<Completion, DelegatedError> {
        if let Some(kept) = self.kept.take() {
            return Ok(kept);
        }
        loop {
            let found = self.wait_new(limit)?;
            if is_callers(&found) {
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
        let kind = OpKind::Cancel;
        let completion = self.ask(kind, ObjectId::default(), argument, Pieces::default())?;
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
        let places = window::put_names(&self.member.window, [name], scratch)?;
        let pieces = Pieces::new(&places).unwrap_or_default();
        let opened = self.ask(OpKind::Open, ObjectId::default(), access, pieces)?;
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
        self.one(OpKind::Read, file, offset, &[into])
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
        self.one(OpKind::Write, file, offset, &[from])
    }

    /// What is known of the file; `scratch` has 64 bytes or more.
    ///
    /// # Errors
    /// `File` with what fstat(2) would say; those of `wait`.
    pub fn facts(&mut self, file: File, scratch: Piece) -> Result<Facts, DelegatedError> {
        self.one(OpKind::Stat, file, 0, &[scratch])?;
        window::facts(&self.member.window, scratch)
    }

    /// No member needs the file any more.
    ///
    /// # Errors
    /// `File` with EBADF when it was closed already; those of `wait`.
    pub fn close(&mut self, file: File) -> Result<(), DelegatedError> {
        self.one(OpKind::Close, file, 0, &[]).map(drop)
    }

    /// Has an operation on a file done and waits: its result.
    fn one(
        &mut self,
        kind: OpKind,
        file: File,
        offset: u64,
        pieces: &[Piece],
    ) -> Result<usize, DelegatedError> {
        if file.epoch != self.member.identity.epoch {
            return Err(DelegatedError::Stale);
        }
        let (object, tag, timeout_us, argument) = (file.object, 0, 0, 0);
        let pieces = Pieces::new(pieces).unwrap_or_default();
        let asked = Operation { kind, object, offset, tag, timeout_us, argument, pieces };
        result_of(self.perform(asked)?)
    }

    fn ask(
        &mut self,
        kind: OpKind,
        object: ObjectId,
        argument: u64,
        pieces: Pieces,
    ) -> Result<Completion, DelegatedError> {
        let asked = Operation { kind, object, offset: 0, tag: 0, timeout_us: 0, argument, pieces };
        self.perform(asked)
    }

    fn perform(&mut self, asked: Operation) -> Result<Completion, DelegatedError> {
        self.check()?;
        let tag = self.kept.next_tag();
        let asked = Operation { tag, ..asked };
        while !self.give(&asked)? {
            match self.wait_arrival(Some(TRY_AGAIN)) {
                Ok(other) => self.kept.keep(other),
                Err(DelegatedError::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
        loop {
            let found = self.wait_new(None)?;
            if found.tag == tag {
                return Ok(found);
            }
            self.kept.keep(found);
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
        let is_pushed = push_encoded(&asked, |record| self.member.push(record));
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
        self.check_own()?;
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
        self.check_own()?;
        match self.member.is_kept() {
            true => Ok(()),
            false => Err(self.lose(Silence::Gone)),
        }
    }

    /// In a forked child the ring and what comes in it are the member's, and so is the lock before it,
    /// which a thread that is not there may hold.
    fn check_own(&self) -> Result<(), DelegatedError> {
        match self.member.is_own() {
            true => Ok(()),
            false => Err(self.lose(Silence::Gone)),
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
        // As in `check_own`.
        if self.member.is_own() {
            self.member.arrivals.leave(self.id);
        }
    }
}

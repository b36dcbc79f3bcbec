//! Begins operations: each takes its way, and none makes the loop wait.

use heliostat_abi::delegated::{Facts, Kind, Operation, Piece, Way, DEPTH_MAX, DIRECT_GRAIN};
use heliostat_backend_uring::{Manner, NotPrepared, Range};
use heliostat_service_file::delegated::{
    choose, BlockKey, Choice, Found, Question, BLOCK_BYTES, COST_MIN, QUANTUM,
};
use rustix::fs::fstat;

use super::engine::{is_full, Aim, Engine, Who};
use super::file::Opened;
use super::message::{News, Wish};
use super::session::Session;

/// What a request to the kernel costs of a turn. Its bytes count against the session's share of the
/// device instead: charged here, they would leave one request for each submission, and each wakes the
/// device by itself.
const FLIGHT_COST: i64 = QUANTUM / 16;

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

impl Session {
    /// Begins an operation or goes on with it; `left` is what the turn may still cost.
    pub fn serve(&mut self, engine: &mut Engine, who: Who, left: &mut i64) -> Step {
        let Some(entry) = self.operations.get(who.operation) else { return Step::Over };
        if let Some(errno) = entry.verdict {
            return self.fail(engine, who, errno);
        }
        match entry.operation.kind {
            Kind::Read | Kind::Write | Kind::Append => self.transfer(engine, who, left),
            Kind::Fsync => self.fsync(engine, who, left),
            Kind::Open => self.open(engine, who, &{ entry.operation }, left),
            Kind::Stat => self.stat(engine, who, &{ entry.operation }, left),
            Kind::Close => self.close(engine, who, &{ entry.operation }, left),
            // Ended when it was taken.
            Kind::Cancel => self.fail(engine, who, libc::EINVAL),
        }
    }

    fn fail(&mut self, engine: &mut Engine, who: Who, errno: i32) -> Step {
        self.end(engine, who.operation, -i64::from(errno));
        Step::Over
    }

    fn transfer(&mut self, engine: &mut Engine, who: Who, left: &mut i64) -> Step {
        let Some(entry) = self.operations.get(who.operation) else { return Step::Over };
        let is_read = entry.operation.kind == Kind::Read;
        if let Some(step) = is_read.then(|| self.hit(engine, who, left)).flatten() {
            return step;
        }
        let Some(entry) = self.operations.get(who.operation) else { return Step::Over };
        let Some(opened) = self.objects.get(entry.operation.object) else {
            return self.fail(engine, who, libc::EBADF);
        };
        let object = entry.operation.object;
        let may = if is_read { opened.file.can_read } else { opened.file.can_write };
        if !may {
            return self.fail(engine, who, libc::EBADF);
        }
        let choice = match entry.way {
            Way::Cached | Way::Filled => Choice::Cached,
            // Sent back from the cache: what it has copied does not count.
            Way::Kernel => Choice::Kernel,
            _ => choose(question(engine, opened, &entry.operation)),
        };
        match choice {
            Choice::Cached => self.cached(engine, who, left),
            Choice::Direct => self.fly(engine, who, Way::Direct, left),
            Choice::Kernel => {
                if is_read {
                    self.ask_lease(engine, object);
                }
                self.fly(engine, who, Way::Kernel, left)
            }
            Choice::Misaligned => self.fail(engine, who, libc::EINVAL),
        }
    }

    /// Gives a transfer to the kernel.
    pub fn fly(&mut self, engine: &mut Engine, who: Who, way: Way, left: &mut i64) -> Step {
        let Some(entry) = self.operations.get_mut(who.operation) else { return Step::Over };
        let Some(opened) = self.objects.get(entry.operation.object) else {
            return self.fail(engine, who, libc::EBADF);
        };
        let direct = opened.file.direct.as_ref().filter(|_| way == Way::Direct);
        let file = direct.unwrap_or(&opened.file.buffered);
        let Operation { kind, offset, pieces, .. } = &entry.operation;
        let (kind, offset, bytes) = (*kind, *offset, pieces.bytes());
        let (one, many);
        let ranges = match pieces.as_slice() {
            [piece] => {
                one = [range(piece)];
                &one[..]
            }
            all => {
                many = all.iter().map(range).collect::<Vec<_>>();
                &many[..]
            }
        };
        let (aim, memory) = (Aim::Transfer(who), (&self.window, ranges));
        let manner = if direct.is_some() { Manner::Direct } else { Manner::Plain };
        let begun = match kind {
            Kind::Read => engine.uring.read(aim, file, offset, memory, manner),
            Kind::Append => engine.uring.write(aim, file, 0, memory, Manner::Append),
            _ => engine.uring.write(aim, file, offset, memory, Manner::Plain),
        };
        match begun {
            Ok(flight) => {
                (entry.way, entry.done) = (way, 0);
                entry.flying += 1;
                engine.flying += 1;
                self.flying_bytes += bytes;
                self.flights.insert(who.operation, flight);
                *left -= FLIGHT_COST;
                Step::Over
            }
            Err(error) => self.not_begun(engine, who, &error),
        }
    }

    fn not_begun(&mut self, engine: &mut Engine, who: Who, error: &NotPrepared) -> Step {
        if is_full(error) {
            return Step::Blocked;
        }
        self.fail(engine, who, libc::EFAULT)
    }

    fn fsync(&mut self, engine: &mut Engine, who: Who, left: &mut i64) -> Step {
        let Some(entry) = self.operations.get_mut(who.operation) else { return Step::Over };
        let Some(opened) = self.objects.get(entry.operation.object) else {
            return self.fail(engine, who, libc::EBADF);
        };
        *left -= COST_MIN;
        match engine.uring.fsync(Aim::Transfer(who), &opened.file.buffered) {
            Ok(flight) => {
                entry.flying += 1;
                engine.flying += 1;
                self.flights.insert(who.operation, flight);
                Step::Over
            }
            Err(error) => self.not_begun(engine, who, &error),
        }
    }

    /// Copies the name once and asks the control plane; the answer comes as an order.
    fn open(&mut self, engine: &mut Engine, who: Who, asked: &Operation, left: &mut i64) -> Step {
        *left -= COST_MIN;
        if self.wishes >= DEPTH_MAX {
            return self.fail(engine, who, libc::EAGAIN);
        }
        let Some(piece) = asked.pieces.at(0) else { return self.fail(engine, who, libc::EINVAL) };
        let mut name = vec![0; piece.bytes as usize];
        if self.window.copy_out(piece.offset as usize, &mut name).is_err() {
            return self.fail(engine, who, libc::EFAULT);
        }
        self.wishes += 1;
        let (session, operation, access) = (self.id, who.operation, asked.argument);
        let serial = self.serial;
        engine.tell(News::Wanted(Wish { session, serial, operation, name, access }));
        Step::Over
    }

    /// Asks the file's own kernel: only files of local file systems are ever opened here.
    fn stat(&mut self, engine: &mut Engine, who: Who, asked: &Operation, left: &mut i64) -> Step {
        *left -= COST_MIN;
        let Some(opened) = self.objects.get(asked.object) else {
            return self.fail(engine, who, libc::EBADF);
        };
        let status = match fstat(&opened.file.buffered) {
            Ok(status) => status,
            Err(errno) => return self.fail(engine, who, errno.raw_os_error()),
        };
        let facts = Facts {
            size: status.st_size as u64,
            inode: status.st_ino,
            device: status.st_dev,
            modified: (status.st_mtime, status.st_mtime_nsec as u32),
            mode: status.st_mode,
            uid: status.st_uid,
            gid: status.st_gid,
        };
        let place = asked.pieces.at(0).map_or(0, |piece| piece.offset as usize);
        match self.window.copy_in(place, &facts.encode()) {
            Ok(()) => self.end(engine, who.operation, 0),
            Err(_) => self.end(engine, who.operation, -i64::from(libc::EFAULT)),
        }
        Step::Over
    }

    fn close(&mut self, engine: &mut Engine, who: Who, asked: &Operation, left: &mut i64) -> Step {
        *left -= COST_MIN;
        match self.objects.remove(asked.object) {
            Some(opened) => {
                engine.tell(News::Closed(self.id, opened.file));
                self.end(engine, who.operation, 0);
            }
            None => self.end(engine, who.operation, -i64::from(libc::EBADF)),
        }
        Step::Over
    }
}

fn range(piece: &Piece) -> Range {
    Range { offset: piece.offset as usize, len: piece.bytes as usize }
}

/// What the rule about ways has to know.
fn question(engine: &Engine, opened: &Opened, operation: &Operation) -> Question {
    let vouched = opened.vouched();
    let block = operation.offset / BLOCK_BYTES;
    let key = BlockKey { file: opened.number, block };
    let is_aligned = |at: u64, bytes: u32| (at | u64::from(bytes)) % DIRECT_GRAIN == 0;
    let mut pieces = operation.pieces.as_slice().iter();
    Question {
        is_read: operation.kind == Kind::Read,
        is_append: operation.kind == Kind::Append,
        offset: operation.offset,
        bytes: operation.pieces.bytes(),
        is_aligned: pieces.all(|piece| is_aligned(piece.offset, piece.bytes)),
        wants_direct: opened.file.wants_direct,
        has_direct: opened.file.direct.is_some(),
        is_leased: vouched.is_some(),
        is_hit: vouched.is_some() && matches!(engine.cache.peek(key), Found::Ready { .. }),
    }
}

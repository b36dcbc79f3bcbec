//! The log as a sink: what was appended to a file becomes an entry, and is durable when that is.
//!
//! The program's writes are the kernel's, into the page cache; at fdatasync(2) what has come since is
//! read from there and appended to the log, which a crash of the machine leaves behind
//! (`heliostat_backend_durable`). The first flush of a file is the file's own, and makes its name
//! durable. Under the lock of `state`.
//!
//! What is not the common path: `forget` ends all of it before a call that would make what the log has
//! wrong (a file cut, renamed, removed, written in its middle, handed to others): files are flushed,
//! and the log is empty, durably.

use std::os::fd::AsRawFd;
use std::time::{SystemTime, UNIX_EPOCH};

use heliostat_abi::code::Unlogged;
use heliostat_backend_durable::entry::{Head, ENTRY_BYTES_MAX, HEAD_BYTES};
use heliostat_backend_log::{Log, Position};
use heliostat_base::call;
use heliostat_base::clock;
use heliostat_base::sys::Errno;

use super::kept::{is_read_or_append, Kept, KeptFiles};
use super::own;
use super::place::{self, InUse};
use super::worth::{self, Firsts};
use super::writing::Writes;
use crate::thread;

/// Read from the page cache at once.
const COPY_BYTES: usize = 8 << 10;
/// A checkpoint is begun when the log is full to one half, and must have ended by three quarters.
const BEGIN_AT: (u64, u64) = (1, 2);
const FULL_AT: (u64, u64) = (3, 4);
/// Between two times that a log is asked for which was lost.
const ASKED_AGAIN_NS: u64 = 100_000_000;

/// The log of this process, and the files that it is kept for.
pub struct LogSink {
    place: Place,
    pub kept: KeptFiles,
    /// Writes under way, of these and of other files.
    pub writes: Writes,
    /// Whether it is worth to be begun anew.
    firsts: Firsts,
    /// Behind the last entry, and behind the last one that the device was told of.
    tail: u64,
    pushed: u64,
    /// A file's own flush has failed. A flush tried again would be told that all is well, while its bytes
    /// are nowhere but here: the log is not emptied any more, and recovery writes them.
    is_last_copy: bool,
}

enum Place {
    Unasked,
    /// Who served it has ended; it is asked for again from then on.
    Lost(u64),
    None(Unlogged),
    Open(Box<InUse>),
}

/// What an append has come to.
pub enum Appended {
    /// It is durable when the log is up to here.
    Until(u64),
    /// Nothing has come since the last one.
    Nothing,
}

impl LogSink {
    pub const fn new() -> Self {
        Self {
            place: Place::Unasked,
            kept: KeptFiles::new(),
            writes: Writes::new(),
            firsts: Firsts::new(),
            tail: 0,
            pushed: 0,
            is_last_copy: false,
        }
    }

    /// Appends what has come to a file since its last flush. An error makes it a flush of the file,
    /// and counts on that.
    pub fn append(&mut self, fd: i32, path: &[u8]) -> Result<Appended, Unlogged> {
        if !place::is_set() {
            return Err(Unlogged::None);
        }
        if thread::is_in_handler() {
            return Err(Unlogged::InHandler); // what it has interrupted may hold the allocator's locks
        }
        self.open()?;
        let (birth, bytes) = call::birth(fd).ok_or(Unlogged::Unreadable)?;
        // What is written meanwhile is for the next flush.
        let settled = self.writes.settled((birth.device, birth.inode), bytes);
        let Some(kept) = self.kept.of(birth) else {
            worth::judge_log((birth.device, birth.inode))?;
            self.firsts.judge()?;
            self.kept.add(fd, birth, settled, path)?;
            self.firsts.count(true);
            return Err(Unlogged::First);
        };
        if fd != kept.fd && !is_read_or_append(kept.fd) {
            // From here on it is watched by the other's number only.
            worth::note_overwritten((birth.device, birth.inode));
            return Err(Unlogged::NotAppended);
        }
        kept.fd = fd;
        if bytes < kept.logged {
            return Err(Unlogged::Shortened);
        }
        let (from, count) = (kept.logged, bytes - kept.logged);
        if count == 0 {
            return Ok(Appended::Nothing);
        }
        self.firsts.count(false);
        // From here on this flush covers them, in the one way or the other.
        kept.logged = settled;
        let Place::Open(used) = &self.place else { return Err(Unlogged::LogMissing) };
        let end = write_entry(used, self.tail, kept, (from, count))?;
        kept.has_entries = true;
        self.tail = end;
        Ok(Appended::Until(end))
    }

    fn open(&mut self) -> Result<(), Unlogged> {
        match &self.place {
            Place::Open(_) => return Ok(()),
            Place::None(why) => return Err(*why),
            Place::Lost(again_at) if clock::monotonic_ns() < *again_at => {
                return Err(Unlogged::LogFailed);
            }
            Place::Unasked | Place::Lost(_) => {}
        }
        let was_lost = matches!(self.place, Place::Lost(_));
        let found = place::open();
        if let Ok(used) = &found {
            (self.tail, self.pushed) = (used.log.end().at, used.log.end().at);
            used.own.iter().flatten().for_each(|fd| _ = own::claim(*fd));
        }
        let why = found.as_ref().err().copied();
        self.place = match found {
            Ok(used) => Place::Open(Box::new(used)),
            Err(_) if was_lost => Place::lost(),
            Err(why) => Place::None(why),
        };
        why.map_or(Ok(()), |why| Err(if was_lost { Unlogged::LogFailed } else { why }))
    }

    /// Whether it tells what is durable.
    pub fn is_open(&self) -> bool {
        matches!(self.place, Place::Open(_))
    }

    fn log(&self) -> Option<&Log> {
        match &self.place {
            Place::Open(used) => Some(&used.log),
            _ => None,
        }
    }

    /// A handle for who waits for it outside of the lock.
    pub fn handle(&self) -> Option<Log> {
        self.log().cloned()
    }

    /// Hands what is appended to the device. Where nothing tells when that is done it counts as left:
    /// who waits sees it through.
    pub fn push(&mut self) {
        if self.descriptor().is_some() {
            self.pushed = self.tail;
        }
        if let Some(log) = self.log() {
            log.poll();
        }
    }

    /// Somebody else hands it on.
    pub fn note_pushed(&mut self) {
        self.pushed = self.tail;
    }

    /// Up to where it is durable; goes on with what is under way.
    pub fn progress(&mut self) -> Result<u64, Errno> {
        let Place::Open(used) = &self.place else { return Ok(0) };
        let log = &used.log;
        if log.end().at < self.pushed {
            log.poll();
            if used.ring.is_some() {
                self.pushed = self.tail;
            }
        }
        log.check().map(|()| log.end().at).map_err(|_| Errno(libc::EIO))
    }

    /// Entries that the device was not told of.
    pub fn is_unpushed(&self) -> bool {
        self.pushed < self.tail
    }

    /// Readable when the device has done something.
    pub fn descriptor(&self) -> Option<i32> {
        match &self.place {
            Place::Open(used) => used.ring,
            _ => None,
        }
    }

    /// Where to trim to once the files are flushed, when it is time for that.
    pub fn checkpoint_due(&self) -> Option<Position> {
        let log = self.log()?;
        is_beyond(log, self.tail, BEGIN_AT).then(|| log.end())
    }

    /// The flush of a file that it has entries of has failed: it stays as it is.
    pub fn keep(&mut self) {
        self.is_last_copy = true;
    }

    /// The files are on their device as far as the log was written by then.
    pub fn trim(&mut self, to: Position) {
        if let Some(log) = self.log() {
            // It may be trimmed further by now: `forget`.
            let _ = log.trim(to);
        }
    }

    /// Flushes the files, empties the log durably, and keeps none. The first file that failed is told.
    pub fn forget(&mut self) -> Result<(), ((u64, u64), Errno)> {
        let outcome = match self.handle() {
            Some(log) if self.tail > log.begin().at => self.empty(&log),
            _ => Ok(()),
        };
        self.kept.clear();
        outcome
    }

    fn empty(&mut self, log: &Log) -> Result<(), ((u64, u64), Errno)> {
        let synced = log.sync();
        if self.is_last_copy {
            // What it has not is nowhere.
            let births = self.kept.iter().filter(|it| it.has_entries).map(|it| it.birth);
            let first = births.map(|it| (it.device, it.inode)).next();
            self.give_up(Unlogged::LogFailed);
            return synced.map_err(|_| (first.unwrap_or_default(), Errno(libc::EIO)));
        }
        let flushed = flush_all(self.kept.iter().filter(|kept| kept.has_entries));
        if flushed.is_err() {
            self.keep();
            self.give_up(Unlogged::LogFailed);
            return flushed;
        }
        let emptied = synced.and_then(|()| log.trim(log.end())).and_then(|()| log.checkpoint());
        if emptied.is_err() {
            self.give_up(Unlogged::LogFailed);
        }
        self.pushed = self.tail;
        Ok(())
    }

    /// The log is of no use any more; what it has is flushed as files. The first that failed is told.
    pub fn leave(&mut self) -> Result<(), ((u64, u64), Errno)> {
        let flushed = flush_all(self.kept.iter());
        self.give_up(Unlogged::LogFailed);
        self.kept.clear();
        flushed
    }

    /// Its descriptors stay open: what is under way may still be written. Where nobody can write it any more
    /// it is asked for again: what it has has to be taken out of it.
    fn give_up(&mut self, why: Unlogged) {
        if matches!(&self.place, Place::Open(used) if used.is_lost()) {
            self.close();
            self.place = Place::lost();
            return;
        }
        std::mem::forget(std::mem::replace(&mut self.place, Place::None(why)));
    }

    /// Closes the log, which is empty; the next flush opens it again.
    pub fn close(&mut self) {
        if let Place::Open(used) = std::mem::replace(&mut self.place, Place::Unasked) {
            used.own.iter().flatten().for_each(|fd| own::release(*fd));
        }
    }

    /// It is the parent's.
    pub fn forget_in_forked_child(&mut self) {
        self.kept.forget_in_forked_child();
        if let Place::Open(used) =
            std::mem::replace(&mut self.place, Place::None(Unlogged::LogInUse))
        {
            used.own.iter().flatten().for_each(|fd| _ = call::close(*fd));
            std::mem::forget(used);
        }
        self.writes = Writes::new();
        (self.tail, self.pushed) = (0, 0);
    }
}

impl Place {
    fn lost() -> Self {
        Self::Lost(clock::monotonic_ns() + ASKED_AGAIN_NS)
    }
}

fn is_beyond(log: &Log, end: u64, part: (u64, u64)) -> bool {
    end.saturating_sub(log.begin().at) > log.capacity() / part.1 * part.0
}

fn write_entry(
    used: &InUse,
    tail: u64,
    kept: &Kept,
    (from, count): (u64, u64),
) -> Result<u64, Unlogged> {
    let log = &used.log;
    let bytes = (HEAD_BYTES + kept.path.len()) as u64 + count;
    if bytes > log.longest().min(ENTRY_BYTES_MAX) {
        return Err(Unlogged::Long);
    }
    if is_beyond(log, tail + bytes, FULL_AT) {
        return Err(Unlogged::Full);
    }
    let mut room = log.reserve(bytes as usize).map_err(|_| Unlogged::Full)?;
    let (boot, when) = (used.boot.id, seconds_now());
    let head = Head { boot, file: kept.birth, offset: from, when, path: &kept.path };
    let put = room.put(&head.encode()).and_then(|()| room.put(&kept.path));
    put.map_err(|_| Unlogged::LogFailed)?;
    let mut copy = [0; COPY_BYTES];
    let mut at = from;
    while at < from + count {
        let wanted = COPY_BYTES.min((from + count - at) as usize);
        let read = call::pread(kept.reader.as_raw_fd(), &mut copy[..wanted], at);
        let read = read.ok().filter(|read| *read > 0).ok_or(Unlogged::Shortened)?;
        room.put(&copy[..read]).map_err(|_| Unlogged::LogFailed)?;
        at += read as u64;
    }
    let appended = room.commit().map_err(|_| Unlogged::LogFailed)?;
    Ok(appended.end())
}

/// Since 1970.
fn seconds_now() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32)
}

fn flush_all<'a>(files: impl Iterator<Item = &'a Kept>) -> Result<(), ((u64, u64), Errno)> {
    for kept in files {
        let identity = (kept.birth.device, kept.birth.inode);
        loop {
            match call::flush(kept.reader.as_raw_fd(), false) {
                Err(Errno(libc::EINTR)) => {}
                Err(errno) => return Err((identity, errno)),
                Ok(_) => break,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;

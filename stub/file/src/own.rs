//! Reads that the program makes by itself: an io_uring of its own, for files that were opened for the
//! device, where the control plane has no limit to keep (`Reply::Delegated`, `lends`).
//!
//! The server has opened the file first, so rules hold; what is opened here is opened with no more
//! rights than the program has anyway. The ring is the shorter way because a virtual machine's device
//! interrupts once for all that it has done: a loop in between is a second wake-up, in which the
//! device has nothing to do (docs/delegated.md, The device).
//!
//! Only what is read whole ends here. Everything else is the server's to answer: the file's end, what
//! a device refuses, what does not lie in the window.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{
    OneRead, OpKind, Operation, DEPTH_MAX, DIRECT_GRAIN, OBJECTS_MAX, TRANSFER_BYTES_MAX,
};
use heliostat_abi::name::ObjectId;
use heliostat_backend_uring::{Manner, Range, Uring};
use heliostat_base::call::identity;
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::SharedMapping;
use heliostat_base::process::pid;
use heliostat_base::sys::Errno;

use super::DelegatedError;

/// Reads that are submitted at a time. Each by itself costs a call each; all at once leaves the device
/// idle until the last is prepared, which costs a tenth of the reads and more while it is fast.
const AT_A_TIME: u32 = 4;
/// How long the end of a session waits for the device: longer than any that works takes.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A file as the program has it open.
struct LentFile {
    generation: u32,
    fd: Arc<std::os::fd::OwnedFd>,
}

/// A read that the kernel has.
struct Flight {
    read: OneRead,
    /// Of which session its file was: the next has other files by the same numbers.
    session: u64,
}

/// A read that has ended.
pub(super) struct Ended {
    pub(super) read: OneRead,
    /// Bytes, or minus an errno.
    pub(super) result: i32,
    /// Its file is still open by the number that the read names.
    pub(super) is_current: bool,
}

/// The program's own ring and files. Without any, all is the server's.
#[derive(Default)]
pub(super) struct OwnReads {
    ring: Option<Uring<Flight>>,
    /// Who has it: a child of fork has the same memory for it.
    pid: i32,
    /// By the index that the server has for them.
    files: Vec<Option<LentFile>>,
    /// Counts sessions.
    session: u64,
    /// Reads that were not submitted.
    unsubmitted: u32,
    /// A cancellation was asked for.
    has_cancelled: bool,
    /// The kernel has refused a ring (a sandbox, `kernel.io_uring_disabled`): it is not asked again.
    is_refused: bool,
    /// The program wants the server to read.
    is_off: bool,
}

impl OwnReads {
    /// Whether files that are opened from now on are read here.
    pub(super) fn switch(&mut self, is_on: bool) {
        self.is_off = !is_on;
    }

    /// Whether a file that has just been opened for the device may be read here.
    pub(super) fn is_wanted(&mut self) -> bool {
        if self.ring.is_none() && !self.is_refused && !self.is_off {
            self.ring = Uring::create_for_transfers(DEPTH_MAX as u32, DEPTH_MAX as u32).ok();
            self.is_refused = self.ring.is_none();
            self.pid = pid();
        }
        self.ring.is_some() && !self.is_off
    }

    /// A file of the server's is read by this descriptor from now on, if it is the same file.
    pub(super) fn lend(&mut self, object: ObjectId, fd: OwnedFd, file: Option<(u64, u64)>) {
        let index = object.index as usize;
        if file.is_none() || identity(fd.as_raw_fd()) != file || index >= OBJECTS_MAX {
            return;
        }
        self.files.resize_with(self.files.len().max(index + 1), || None);
        self.files[index] =
            Some(LentFile { generation: object.generation, fd: Arc::new(fd.into()) });
    }

    /// Whether a file is read here.
    pub(super) fn has(&self, object: ObjectId) -> bool {
        self.find(object).is_some()
    }

    /// Whether any file is read here.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        !self.files.is_empty()
    }

    /// Reads that have not ended, or have and were not taken.
    pub(super) fn under_way(&self) -> usize {
        self.ring.as_ref().map_or(0, Uring::under_way)
    }

    /// The session has ended: its numbers will be other files.
    pub(super) fn forget_all(&mut self) {
        self.files.clear();
        self.session += 1;
    }

    /// Takes an operation over if it is a read for here; the server's otherwise.
    #[inline]
    pub(super) fn take_over(&mut self, operation: &Operation, window: &Arc<SharedMapping>) -> bool {
        if !self.has_any() {
            return false;
        }
        if operation.kind == OpKind::Close {
            self.close(operation.object);
            return false;
        }
        OneRead::of(operation).is_some_and(|read| self.read(&read, window))
    }

    /// The server reads this file from now on.
    pub(super) fn close(&mut self, object: ObjectId) {
        if self.has(object) {
            self.files[object.index as usize] = None;
            while self.files.last().is_some_and(Option::is_none) {
                self.files.pop();
            }
        }
    }

    fn find(&self, object: ObjectId) -> Option<&LentFile> {
        let lent = self.files.get(object.index as usize)?.as_ref();
        lent.filter(|lent| lent.generation == object.generation)
    }

    fn read(&mut self, read: &OneRead, window: &Arc<SharedMapping>) -> bool {
        let bytes = u64::from(read.piece.bytes);
        let is_even = (read.offset | read.piece.offset | bytes) % DIRECT_GRAIN == 0;
        // No file goes further (off_t).
        let is_far = read.offset > i64::MAX as u64 - bytes;
        if !is_even || bytes == 0 || bytes > TRANSFER_BYTES_MAX || is_far {
            return false;
        }
        let Some(lent) = self.find(read.object) else { return false };
        let fd = lent.fd.clone();
        let Some(ring) = self.ring.as_mut() else { return false };
        let into = [Range { offset: read.piece.offset as usize, len: bytes as usize }];
        let flight = Flight { read: *read, session: self.session };
        if ring.read(flight, &fd, read.offset, (window, &into), Manner::Direct).is_err() {
            return false;
        }
        self.unsubmitted += 1;
        if self.unsubmitted >= AT_A_TIME {
            self.submit();
        }
        true
    }

    /// Gives the kernel what was taken over.
    pub(super) fn submit(&mut self) {
        if self.unsubmitted > 0 {
            self.unsubmitted = 0;
            // What it does not take now (EAGAIN, EBUSY) is given again by the next `reap`.
            let _ = self.ring.as_mut().map(Uring::submit);
        }
    }

    /// A read that has ended.
    #[inline]
    pub(super) fn reap(&mut self) -> Option<Ended> {
        let ring = self.ring.as_mut()?;
        if self.unsubmitted == 0 {
            // Nothing, unless the kernel has left some of it.
            let _ = ring.submit();
        }
        let (Flight { read, session }, result) = ring.reap()?;
        let is_current = session == self.session && self.has(read.object);
        Some(Ended { read, result, is_current })
    }

    /// Whether a read that has ended so has an answer for the program: all its bytes, or the end that
    /// was asked for.
    pub(super) fn is_answer(&self, ended: &Ended) -> bool {
        let is_cancelled = self.has_cancelled && ended.result == -libc::ECANCELED;
        ended.result as u32 == ended.read.piece.bytes || is_cancelled
    }

    /// Asks for the end of a read with this tag; false when there is none.
    pub(super) fn cancel(&mut self, tag: u64) -> bool {
        let Some(ring) = self.ring.as_mut() else { return false };
        let found = ring.cancel_one(|flight| flight.read.tag == tag);
        self.has_cancelled |= found;
        let _ = ring.submit();
        found
    }

    /// Sleeps until a read has ended, `limit` at most.
    pub(super) fn sleep(&mut self, limit: Option<Duration>) -> Result<(), DelegatedError> {
        let Some(ring) = self.ring.as_mut() else { return Ok(()) };
        self.unsubmitted = 0;
        let slept = ring.sleep(limit);
        slept
            .map_err(|error| DelegatedError::File(Errno(error.raw_os_error().unwrap_or(libc::EIO))))
    }
}

impl Drop for OwnReads {
    /// The device writes into the window, which would else stay for ever.
    fn drop(&mut self) {
        if self.ring.is_some() && self.pid != pid() {
            return std::mem::forget(self.ring.take());
        }
        let until = Instant::now() + END_WITHIN;
        while self.under_way() > 0 && Instant::now() < until {
            if self.reap().is_none() && self.sleep(Some(Duration::from_millis(50))).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_abi::file::delegated::Piece;
    use heliostat_base::call::reopen_direct;

    const OBJECT: ObjectId = ObjectId { index: 3, generation: 7 };

    fn file(name: &str) -> Option<(std::fs::File, OwnedFd)> {
        let name = format!("heliostat-own-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, [7; 4096]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let again = reopen_direct(file.as_raw_fd()).ok();
        again.map(|again| (file, again))
    }

    #[test]
    fn a_name_that_means_another_file_by_now_is_not_read_here() {
        let (Some((one, _)), Some((_, other))) = (file("one"), file("other")) else { return };
        let mut own = OwnReads::default();
        own.lend(OBJECT, other, identity(one.as_raw_fd()));
        assert!(!own.has_any());
        own.lend(OBJECT, reopen_direct(one.as_raw_fd()).unwrap(), None);
        assert!(!own.has_any(), "it is not known which file it is");
        own.lend(OBJECT, reopen_direct(one.as_raw_fd()).unwrap(), identity(one.as_raw_fd()));
        assert!(own.has(OBJECT));
    }

    #[test]
    fn only_the_file_that_has_the_number_now_is_read() {
        let Some((one, fd)) = file("number") else { return };
        let mut own = OwnReads::default();
        own.lend(OBJECT, fd, identity(one.as_raw_fd()));
        assert!(!own.has(ObjectId { generation: 8, ..OBJECT }));
        assert!(!own.has(ObjectId { index: 2, ..OBJECT }));
        own.close(ObjectId { generation: 8, ..OBJECT });
        assert!(own.has(OBJECT));
        own.close(OBJECT);
        assert!(!own.has_any());
        let beyond = ObjectId { index: OBJECTS_MAX as u32, ..OBJECT };
        own.lend(beyond, reopen_direct(one.as_raw_fd()).unwrap(), identity(one.as_raw_fd()));
        assert!(!own.has_any());
    }

    #[test]
    fn a_read_of_the_last_session_is_not_one_of_this_sessions_file() {
        let Some((one, fd)) = file("session") else { return };
        let mut own = OwnReads::default();
        if !own.is_wanted() {
            return;
        }
        let window = Arc::new(SharedMapping::create(c"window", 4096).unwrap().1);
        let piece = Piece { offset: 0, bytes: 4096 };
        for is_current in [true, false] {
            let again = reopen_direct(one.as_raw_fd()).unwrap();
            own.lend(OBJECT, again, identity(one.as_raw_fd()));
            assert!(own.read(&OneRead { object: OBJECT, offset: 0, tag: 5, piece }, &window));
            own.sleep(Some(Duration::from_secs(20))).unwrap();
            if !is_current {
                own.forget_all();
                own.lend(OBJECT, fd.duplicate().unwrap(), identity(one.as_raw_fd()));
            }
            let ended = own.reap().unwrap();
            assert_eq!((ended.read.tag, ended.result), (5, 4096));
            assert_eq!(ended.is_current, is_current);
        }
    }

    #[test]
    fn who_wants_none_gets_no_ring() {
        let mut own = OwnReads::default();
        own.switch(false);
        assert!(!own.is_wanted() && own.ring.is_none());
        own.switch(true);
        assert_eq!(own.is_wanted(), own.ring.is_some());
    }
}

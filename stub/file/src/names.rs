//! Names, directories, lengths and locks of a delegated session: each waits for its own end.
//!
//! Names are absolute paths and travel through `scratch`, a place in the window that nothing else
//! uses meanwhile; what is too small for them is refused before anything is asked. The server
//! resolves and judges them as Open's (docs/delegated.md). A change that failed with `File` was not
//! made; one that failed with `Gone` may have been made or not.
//!
//! A file is replaced in one step, by whoever has the lock of its directory:
//!
//! ```no_run
//! # use heliostat_stub_file::*;
//! # fn replace(session: &mut Delegated) -> Result<(), DelegatedError> {
//! let scratch = Piece { offset: 0, bytes: 8192 };
//! let text = Piece { offset: 8192, bytes: 4096 };
//! let directory = session.open("/srv/data", READ | DIRECTORY, scratch)?;
//! session.lock(directory, LockKind::Alone, LockWait::Forever)?;
//! let draft = session.open("/srv/data/new", WRITE | CREATE | TRUNCATE | mode(0o644), scratch)?;
//! session.append(draft, text)?;
//! session.fsync(draft)?;
//! session.rename("/srv/data/new", "/srv/data/current", true, scratch)?;
//! session.fsync(directory)?;
//! session.unlock(directory)
//! # }
//! ```

use std::time::Duration;

use heliostat_abi::file::delegated::{
    DirectoryEntries, OpKind, Operation, Piece, Pieces, ALONE, NOREPLACE, NOW, SHARED, UNLOCK,
};
use heliostat_abi::name::ObjectId;
use heliostat_base::mapping::OutOfRange;

use super::files::result_of;
use super::{own_names, window, Delegated, DelegatedError, File};

/// What a lock keeps others from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// From being alone: others may have the same.
    Shared,
    /// From any lock.
    Alone,
}

/// How long a lock is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockWait {
    /// EAGAIN at once when somebody has it.
    No,
    /// ETIMEDOUT after so long; in steps of a microsecond, an hour at most.
    UpTo(Duration),
    /// Until it is there.
    Forever,
}

/// What an operation on a file is given beside it.
struct Operands {
    offset: u64,
    argument: u64,
    timeout_us: u32,
}

const NONE: Operands = Operands { offset: 0, argument: 0, timeout_us: 0 };

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryItem {
    /// Its name: any bytes but zero and `/`.
    pub name: Vec<u8>,
    /// Its number on the device.
    pub inode: u64,
    /// What it is (DT_REG, DT_DIR, DT_LNK, ...); 0 where the file system does not say.
    pub kind: u8,
    /// Where the entries after it begin.
    pub cookie: u64,
}

/// Longest timeout that `LockWait::UpTo` becomes.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(3600);

impl Delegated {
    /// Makes a directory with these permissions, of which the program's umask takes its bits away.
    ///
    /// # Errors
    /// `File` with what mkdir(2) would say, EACCES where a rule denies it; `Window`; those of `wait`.
    pub fn mkdir(&mut self, name: &str, mode: u32, scratch: Piece) -> Result<(), DelegatedError> {
        self.change(OpKind::Mkdir, &[name], u64::from(mode), scratch)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As `mkdir`, with what rmdir(2) would say.
    pub fn rmdir(&mut self, name: &str, scratch: Piece) -> Result<(), DelegatedError> {
        self.change(OpKind::Rmdir, &[name], 0, scratch)
    }

    /// Removes a name. Who has the file open reads and writes it on.
    ///
    /// # Errors
    /// As `mkdir`, with what unlink(2) would say.
    pub fn unlink(&mut self, name: &str, scratch: Piece) -> Result<(), DelegatedError> {
        self.change(OpKind::Unlink, &[name], 0, scratch)
    }

    /// Gives what is called `from` the name `to`, in one step; `replaces` says whether that may be
    /// another's, which loses it then.
    ///
    /// # Errors
    /// As `mkdir`, with what renameat2(2) would say: EEXIST where nothing may be replaced.
    pub fn rename(
        &mut self,
        from: &str,
        to: &str,
        replaces: bool,
        scratch: Piece,
    ) -> Result<(), DelegatedError> {
        let argument = if replaces { 0 } else { NOREPLACE };
        self.change(OpKind::Rename, &[from, to], argument, scratch)
    }

    /// Makes a symbolic link to `target`, which is not looked at.
    ///
    /// # Errors
    /// As `mkdir`, with what symlink(2) would say.
    pub fn symlink(
        &mut self,
        target: &str,
        name: &str,
        scratch: Piece,
    ) -> Result<(), DelegatedError> {
        self.change(OpKind::Symlink, &[target, name], 0, scratch)
    }

    /// Where a symbolic link leads. `scratch` holds the name and behind it the answer, of which it
    /// brings as much as there is room for.
    ///
    /// # Errors
    /// As `mkdir`, with what readlink(2) would say.
    pub fn readlink(&mut self, name: &str, scratch: Piece) -> Result<Vec<u8>, DelegatedError> {
        let end = name.len().saturating_add(1);
        OutOfRange::check(0, end, scratch.bytes as usize).map_err(DelegatedError::Window)?;
        let [first] = window::put_names(&self.window, [name], scratch)?;
        self.connect()?;
        if self.shows_only() {
            let mut target = own_names::readlink(name)?;
            target.truncate(scratch.bytes as usize - name.len());
            return Ok(target);
        }
        let offset = scratch.offset + u64::from(first.bytes);
        let room = Piece { offset, bytes: scratch.bytes - first.bytes };
        let pieces = Pieces::new(&[first, room]).unwrap_or_default();
        let done = self.ask(OpKind::Readlink, ObjectId::default(), 0, pieces)?;
        window::bytes(&self.window, room.offset, result_of(done)?)
    }

    /// Makes a file, which was opened for writing, so many bytes long; new ones are zero. Writes that
    /// were submitted before are made before it.
    ///
    /// # Errors
    /// `File` with what ftruncate(2) would say, EBADF when it was not opened for writing.
    pub fn truncate(&mut self, file: File, bytes: u64) -> Result<(), DelegatedError> {
        self.on_file(OpKind::Truncate, file, Operands { argument: bytes, ..NONE }, &[]).map(|_| ())
    }

    /// Entries of a directory that was opened with `READ | DIRECTORY`, from a cookie on: 0 first, then
    /// that of the last entry. None at its end; `.` and `..` are left out. `scratch` has 280 bytes or
    /// more, of which 64 KiB are used at most.
    ///
    /// # Errors
    /// `File` with what getdents(2) would say, ENOTDIR, EINVAL for a cookie that was never given.
    pub fn readdir(
        &mut self,
        directory: File,
        cookie: u64,
        scratch: Piece,
    ) -> Result<Vec<DirectoryItem>, DelegatedError> {
        let length = self.on_file(
            OpKind::Readdir,
            directory,
            Operands { offset: cookie, ..NONE },
            &[scratch],
        )?;
        let bytes = window::bytes(&self.window, scratch.offset, length)?;
        let items = DirectoryEntries(&bytes).map(|entry| DirectoryItem {
            name: entry.name.to_vec(),
            inode: entry.inode,
            kind: entry.kind,
            cookie: entry.cookie,
        });
        Ok(items.collect())
    }

    /// Locks a whole file against others who lock it, here or by flock(2). The lock belongs to the
    /// opened file and ends when that is closed, or with the session. Who has one already gives it
    /// back first, also when this fails.
    ///
    /// # Errors
    /// `File` with EAGAIN or ETIMEDOUT when it was not to be had, EBADF for a closed file.
    pub fn lock(
        &mut self,
        file: File,
        kind: LockKind,
        wait: LockWait,
    ) -> Result<(), DelegatedError> {
        let kind = if kind == LockKind::Shared { SHARED } else { ALONE };
        let (now, timeout_us) = match wait {
            LockWait::No => (NOW, 0),
            LockWait::UpTo(limit) => (0, limit.min(LOCK_WAIT_MAX).as_micros().max(1) as u32),
            LockWait::Forever => (0, 0),
        };
        let operands = Operands { argument: kind | now, timeout_us, ..NONE };
        self.on_file(OpKind::Lock, file, operands, &[]).map(|_| ())
    }

    /// Gives a lock back; nothing happens when there is none.
    ///
    /// # Errors
    /// `File` with EBADF for a closed file.
    pub fn unlock(&mut self, file: File) -> Result<(), DelegatedError> {
        self.on_file(OpKind::Lock, file, Operands { argument: UNLOCK, ..NONE }, &[]).map(|_| ())
    }

    fn change<const N: usize>(
        &mut self,
        kind: OpKind,
        names: &[&str; N],
        argument: u64,
        scratch: Piece,
    ) -> Result<(), DelegatedError> {
        let places = window::put_names(&self.window, *names, scratch)?;
        self.connect()?;
        if self.shows_only() {
            return own_names::change(kind, names, argument);
        }
        let pieces = Pieces::new(&places).unwrap_or_default();
        result_of(self.ask(kind, ObjectId::default(), argument, pieces)?).map(|_| ())
    }

    fn on_file(
        &mut self,
        kind: OpKind,
        file: File,
        Operands { offset, argument, timeout_us }: Operands,
        pieces: &[Piece],
    ) -> Result<usize, DelegatedError> {
        self.connect()?;
        if self.server.as_ref().is_none_or(|server| server.epoch() != file.epoch) {
            return Err(DelegatedError::Stale);
        }
        let (object, tag) = (file.object, 0);
        let pieces = Pieces::new(pieces).unwrap_or_default();
        let asked = Operation { kind, object, offset, tag, timeout_us, argument, pieces };
        result_of(self.perform(asked)?)
    }
}

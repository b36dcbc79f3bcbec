//! After a crash: what the log has and the files may have lost goes into the files.
//!
//! ```text
//! read the heads --> find the files --> bytes into files, in order; before a file's first "recovery of it begins"
//!                --> flush files and folders --> trim the log
//! ```
//!
//! Of this very run of the machine the kernel has all that the program has written, and it is flushed. What is
//! in the file already, and was written in this run, is written once more first: if the kernel has failed to
//! write it back, and has told that to a program that is gone, its pages are clean, and a flush says that all is
//! well. Of an earlier run, each entry's bytes are written where they differ. An
//! entry that begins behind the file's end was never acknowledged: what comes before it was not
//! durable either. A file that somebody has written to since the machine came up, or so long after an
//! entry that the kernel must have written that back by then, is not touched where it differs, unless it
//! was this that has written, which the file's mark tells: one that its own end has not followed. Nothing is
//! trimmed before all of it has gone well, so it may be cut off at any point and done again.

use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heliostat_backend_log::{Log, LogError, Position};
use heliostat_base::call::Birth;

use crate::boot::Boot;
use crate::entry::{self, Entry, Head, Malformed};
use crate::find::{find, Found};

/// Files that one log has entries of at most.
const FILES_MAX: usize = 4096;
const COMPARED_BYTES: usize = 64 << 10;
/// By then the kernel has written back what was written (its limit is 30 s unless somebody changes it).
const WRITTEN_BACK: Duration = Duration::from_secs(60);

/// What became of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The kernel had all of it; it is flushed.
    Flushed,
    /// So many bytes were written into it.
    Restored {
        /// How many.
        bytes: u64,
    },
    /// It was removed since, in this run of the machine.
    Gone,
    /// It is not there.
    Missing,
    /// Another file has its path.
    Another,
    /// Somebody has written to it since the machine came up, or long after the log.
    Changed,
    /// The kernel refused.
    Failed {
        /// Its errno.
        errno: i32,
    },
}

impl What {
    /// Whether bytes that were acknowledged may be lost, or somebody has to decide.
    pub fn is_refused(self) -> bool {
        !matches!(self, Self::Flushed | Self::Restored { .. } | Self::Gone)
    }
}

/// One file and what became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileOutcome {
    /// Its path.
    pub path: PathBuf,
    /// What became of it.
    pub what: What,
}

/// What recovery has come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Every file that the log had entries of.
    pub files: Vec<FileOutcome>,
}

impl Outcome {
    /// All is in the files, and the log is empty.
    pub fn is_whole(&self) -> bool {
        !self.files.iter().any(|file| file.what.is_refused())
    }
}

/// Why recovery could not go on. Nothing of the log is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoverError {
    /// The log.
    Log(LogError),
    /// An entry that nobody here has written.
    Malformed {
        /// Which.
        position: Position,
        /// Why.
        why: Malformed,
    },
    /// Entries of more files than are kept account of.
    Files {
        /// How many.
        limit: usize,
    },
}

/// A file on its way.
struct Target {
    birth: Birth,
    path: PathBuf,
    is_old: bool,
    file: Option<File>,
    bytes: u64,
    modified: SystemTime,
    since_boot: bool,
    /// Recovery has begun to write it in this run of the machine, and has not ended.
    is_marked: bool,
    what: What,
    /// An entry was met that begins behind its end.
    is_cut: bool,
}

/// Puts what the log has into the files; with `force` also where entries are of this run of the
/// machine, or a file was written since it came up.
///
/// # Errors
/// The log cannot be read or written.
pub fn recover(log: &Log, boot: &Boot, force: bool) -> Result<Outcome, RecoverError> {
    let (mut targets, has_marks) = targets(log, boot, force)?;
    if targets.is_empty() && !has_marks {
        return Ok(Outcome::default());
    }
    targets.iter_mut().for_each(|target| target.look_up(boot));
    each(log, |entry| match entry {
        Entry::Appended(head, bytes) => {
            match targets.iter_mut().find(|target| target.birth == head.file) {
                Some(target) => target.put(&head, bytes, force, |file| mark(log, boot, file)),
                None => Ok(()),
            }
        }
        Entry::Mark(..) => Ok(()),
    })?;
    targets.iter_mut().for_each(Target::flush);
    let files = targets.iter().map(|it| FileOutcome { path: it.path.clone(), what: it.what });
    let outcome = Outcome { files: files.collect() };
    if outcome.is_whole() {
        log.trim(log.end()).and_then(|()| log.checkpoint()).map_err(RecoverError::Log)?;
        return Ok(outcome);
    }
    // Else the next run would take what others have written for its own.
    for target in targets.iter().filter(|target| target.is_marked) {
        mark(log, boot, target.birth)?;
    }
    Ok(outcome)
}

/// Writes down that recovery of a file begins, or ends; false where the log has no room for that.
fn mark(log: &Log, boot: &Boot, file: Birth) -> Result<bool, RecoverError> {
    match log.append_sync(&entry::mark(boot.id, file)) {
        Ok(_) => Ok(true),
        Err(LogError::Full { .. }) => Ok(false),
        Err(error) => Err(RecoverError::Log(error)),
    }
}

/// Which files there are entries of, and whether there are marks.
fn targets(log: &Log, boot: &Boot, force: bool) -> Result<(Vec<Target>, bool), RecoverError> {
    let (mut targets, mut has_marks): (Vec<Target>, bool) = (Vec::new(), false);
    each(log, |entry| {
        let head = match entry {
            Entry::Mark(id, file) => {
                has_marks = true;
                // Marks come behind the entries. The next one of a file tells that its recovery has ended, and
                // that some of it, or of others, was refused.
                let known = targets.iter_mut().find(|it| id == boot.id && it.birth == file);
                known.into_iter().for_each(|target| target.is_marked ^= true);
                return Ok(());
            }
            Entry::Appended(head, _) => head,
        };
        let is_old = force || head.boot != boot.id;
        let path = Path::new(std::ffi::OsStr::from_bytes(head.path));
        if let Some(known) = targets.iter_mut().find(|target| target.birth == head.file) {
            path.clone_into(&mut known.path);
            known.is_old |= is_old;
            return Ok(());
        }
        if targets.len() == FILES_MAX {
            return Err(RecoverError::Files { limit: FILES_MAX });
        }
        targets.push(Target::new(head.file, path, is_old));
        Ok(())
    })?;
    Ok((targets, has_marks))
}

fn each(
    log: &Log,
    mut what: impl FnMut(Entry<'_>) -> Result<(), RecoverError>,
) -> Result<(), RecoverError> {
    let mut reader = log.read().at_most(entry::ENTRY_BYTES_MAX);
    loop {
        let position = reader.position();
        let malformed = |why| RecoverError::Malformed { position, why };
        let found = match reader.read() {
            Ok(None) => return Ok(()),
            Ok(Some(entry)) => entry,
            Err(LogError::TooLong { found, .. }) => {
                return Err(malformed(Malformed::Long { found }))
            }
            Err(error) => return Err(RecoverError::Log(error)),
        };
        what(entry::decode(&found.payload).map_err(malformed)?)?;
    }
}

impl Target {
    fn new(birth: Birth, path: &Path, is_old: bool) -> Target {
        let (file, bytes, modified, since_boot) = (None, 0, UNIX_EPOCH, false);
        let (path, what) = (path.to_owned(), What::Flushed);
        let (is_marked, is_cut) = (false, false);
        Target { birth, path, is_old, file, bytes, modified, since_boot, is_marked, what, is_cut }
    }

    fn look_up(&mut self, boot: &Boot) {
        self.what = match find(&self.path, self.birth, !self.is_old) {
            Found::File(file, path) => match file.metadata() {
                Ok(told) => {
                    self.bytes = told.len();
                    self.modified = told.modified().unwrap_or(UNIX_EPOCH);
                    self.since_boot = self.modified >= boot.began;
                    (self.path, self.file) = (path, Some(file));
                    What::Flushed
                }
                Err(error) => failed(&error),
            },
            Found::Missing if !self.is_old => What::Gone,
            Found::Another if !self.is_old => What::Gone,
            Found::Missing => What::Missing,
            Found::Another => What::Another,
            Found::Failed(errno) => What::Failed { errno },
        };
    }

    /// Writes the bytes of one entry where they differ, and where the kernel may have lost them.
    fn put(
        &mut self,
        head: &Head<'_>,
        bytes: &[u8],
        force: bool,
        mut mark: impl FnMut(Birth) -> Result<bool, RecoverError>,
    ) -> Result<(), RecoverError> {
        let offset = head.offset;
        let Some(file) = self.file.as_ref().filter(|_| !self.what.is_refused() && !self.is_cut)
        else {
            return Ok(());
        };
        let is_new = match is_there(file, offset, bytes) {
            Ok(true) if self.since_boot => false,
            Ok(true) => return Ok(()),
            // Of this run of the machine, and somebody has changed it since.
            Ok(false) if !self.is_old => return Ok(()),
            Ok(false) if offset > self.bytes => {
                self.is_cut = true;
                return Ok(());
            }
            Ok(false) if self.is_anothers(head.when) && !force && !self.is_marked => {
                self.what = What::Changed;
                return Ok(());
            }
            Ok(false) => true,
            Err(error) => {
                self.what = failed(&error);
                return Ok(());
            }
        };
        if is_new && !self.is_marked {
            self.is_marked = mark(self.birth)?;
        }
        match file.write_all_at(bytes, offset) {
            Err(error) => self.what = failed(&error),
            Ok(()) if is_new => self.restored(offset, bytes.len() as u64),
            Ok(()) => {}
        }
        Ok(())
    }

    fn restored(&mut self, offset: u64, more: u64) {
        let before = if let What::Restored { bytes } = self.what { bytes } else { 0 };
        self.what = What::Restored { bytes: before + more };
        self.bytes = self.bytes.max(offset + more);
    }

    /// Whether somebody has written to it after the machine came up, or long after this.
    fn is_anothers(&self, when: u32) -> bool {
        let entry = UNIX_EPOCH + Duration::from_secs(when.into());
        self.since_boot || self.modified > entry + WRITTEN_BACK
    }

    /// Makes it durable, and its name.
    fn flush(&mut self) {
        let Some(file) = self.file.take().filter(|_| !self.what.is_refused()) else { return };
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let flushed = file.sync_all().and_then(|()| File::open(folder)?.sync_all());
        if let Err(error) = flushed {
            self.what = failed(&error);
        }
    }
}

fn failed(error: &std::io::Error) -> What {
    What::Failed { errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

/// Whether a file has these bytes there.
fn is_there(file: &File, offset: u64, bytes: &[u8]) -> std::io::Result<bool> {
    let mut room = [0; COMPARED_BYTES];
    let mut at = offset;
    for part in bytes.chunks(COMPARED_BYTES) {
        let room = &mut room[..part.len()];
        match file.read_exact_at(room, at) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if room != part {
            return Ok(false);
        }
        at += part.len() as u64;
    }
    Ok(true)
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::Malformed { position, why } => {
                write!(f, "the entry at {position} is none of Heliostat's durable files: {why}")
            }
            Self::Files { limit } => write!(f, "the log has entries of more than {limit} files"),
        }
    }
}

impl std::error::Error for RecoverError {}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flushed => f.write_str("nothing was missing"),
            Self::Restored { bytes } => write!(f, "{bytes} bytes were put back"),
            Self::Gone => f.write_str("it was removed since"),
            Self::Missing => f.write_str("it is not there"),
            Self::Another => f.write_str("another file has its name"),
            Self::Changed => f.write_str("somebody has written to it since"),
            Self::Failed { errno } => std::io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

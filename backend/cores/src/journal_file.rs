//! The journal as a file: replaced as one step, and on the device before anything is changed.
//!
//! What it says is done with all rights that its reader has, so it is believed only where nobody else
//! can have written it: a file of the reader's own, under one name, that no one else may write to.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Bytes of a journal: the most threads that it names have 18 MiB, and groups are few.
const BYTES_MAX: u64 = 32 << 20;
/// Permissions of others than the owner to write.
const WRITABLE: u32 = 0o022;

/// Where it lies.
#[derive(Clone, Debug)]
pub struct JournalFile(PathBuf);

impl JournalFile {
    /// At this path.
    pub fn at(path: impl Into<PathBuf>) -> JournalFile {
        JournalFile(path.into())
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its bytes; `None` where there is none.
    ///
    /// # Errors
    /// It cannot be read, or somebody else may have written it.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut options = fs::OpenOptions::new();
        let file = match options.read(true).custom_flags(flags.bits() as i32).open(&self.0) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Facts::of(&file)?.judge(rustix::process::geteuid().as_raw())?;
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
        within(bytes.len() as u64)?;
        Ok(Some(bytes))
    }

    /// Replaces it. What is there afterwards is the old one or the new one, whole.
    ///
    /// # Errors
    /// It is the old one.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        within(bytes.len() as u64)?;
        let new = self.0.with_extension("cores-new");
        // A crash's, or a link that somebody has put there: it is not written through.
        let _ = fs::remove_file(&new);
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, &self.0)?;
        self.sync_folder()
    }

    /// Ends it.
    ///
    /// # Errors
    /// It is still there.
    pub fn remove(&self) -> io::Result<()> {
        let _ = fs::remove_file(self.0.with_extension("cores-new"));
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.sync_folder(),
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.0.parent().filter(|folder| !folder.as_os_str().is_empty());
        fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// What is known of the open file.
#[derive(Clone, Copy)]
struct Facts {
    is_file: bool,
    owner: u32,
    mode: u32,
    names: u64,
    bytes: u64,
}

impl Facts {
    fn of(file: &fs::File) -> io::Result<Facts> {
        let found = file.metadata()?;
        Ok(Facts {
            is_file: found.is_file(),
            owner: found.uid(),
            mode: found.mode(),
            names: found.nlink(),
            bytes: found.len(),
        })
    }

    /// Whether it is a file that only this user has written.
    fn judge(self, user: u32) -> io::Result<()> {
        let is_own = self.owner == user && self.mode & WRITABLE == 0 && self.names == 1;
        match (self.is_file, is_own) {
            (false, _) => Err(Errno::INVAL.into()),
            (true, false) => Err(Errno::ACCESS.into()),
            (true, true) => within(self.bytes),
        }
    }
}

fn within(bytes: u64) -> io::Result<()> {
    if bytes > BYTES_MAX {
        return Err(Errno::FBIG.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt};

    #[test]
    fn a_journal_is_replaced_whole_and_ended_twice() {
        let folder = tempfile::tempdir().unwrap();
        let file = JournalFile::at(folder.path().join("control.sock.cores"));
        assert_eq!(file.read().unwrap(), None);
        file.write(b"one").unwrap();
        file.write(b"another").unwrap();
        assert_eq!(file.read().unwrap(), Some(b"another".to_vec()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_crash_left_half_written_is_not_the_journal() {
        let folder = tempfile::tempdir().unwrap();
        let file = JournalFile::at(folder.path().join("j"));
        file.write(b"whole").unwrap();
        fs::write(folder.path().join("j.cores-new"), b"ha").unwrap();
        assert_eq!(file.read().unwrap(), Some(b"whole".to_vec()));
        file.write(b"next").unwrap();
        assert_eq!(file.read().unwrap(), Some(b"next".to_vec()));
    }
    fn refused(file: &JournalFile) -> Option<i32> {
        file.read().err().map(|error| error.raw_os_error().unwrap())
    }

    #[test]
    fn a_planted_journal_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let file = JournalFile::at(folder.path().join("control.sock.cores"));
        let other = folder.path().join("other");
        file.write(b"whole").unwrap();
        fs::hard_link(file.path(), &other).unwrap();
        assert_eq!(refused(&file), Some(Errno::ACCESS.raw_os_error()), "it has two names");
        fs::remove_file(file.path()).unwrap();
        symlink(&other, file.path()).unwrap();
        assert_eq!(refused(&file), Some(Errno::LOOP.raw_os_error()), "a link");
        fs::rename(&other, file.path()).unwrap();
        assert_eq!(refused(&file), None);
        for mode in [0o620, 0o602] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(refused(&file), Some(Errno::ACCESS.raw_os_error()), "{mode:o}");
        }
        file.write(b"whole").unwrap();
        fs::OpenOptions::new().write(true).open(file.path()).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(refused(&file), Some(Errno::FBIG.raw_os_error()));
        fs::remove_file(file.path()).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            file.path(),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        assert_eq!(refused(&file), Some(Errno::INVAL.raw_os_error()), "a pipe, and nobody waits");
    }

    #[test]
    fn another_user_s_journal_is_not_believed() {
        let facts = Facts { is_file: true, owner: 1000, mode: 0o600, names: 1, bytes: 700 };
        assert!(facts.judge(1000).is_ok());
        assert!(facts.judge(0).is_err() && facts.judge(1001).is_err());
        let folder = tempfile::tempdir().unwrap();
        let file = JournalFile::at(folder.path().join("j"));
        file.write(b"whole").unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(file.path(), Some(65534), None).unwrap();
            assert_eq!(refused(&file), Some(Errno::ACCESS.raw_os_error()));
        }
    }

    #[test]
    fn nothing_is_written_through_a_link_that_is_planted() {
        let folder = tempfile::tempdir().unwrap();
        let file = JournalFile::at(folder.path().join("j"));
        let other = folder.path().join("other");
        fs::write(&other, b"of somebody").unwrap();
        symlink(&other, folder.path().join("j.cores-new")).unwrap();
        file.write(b"whole").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"of somebody");
        assert_eq!(file.read().unwrap(), Some(b"whole".to_vec()));
        assert!(file.write(&vec![0; BYTES_MAX as usize + 1]).is_err(), "none that is not read");
        assert_eq!(file.read().unwrap(), Some(b"whole".to_vec()));
    }
}

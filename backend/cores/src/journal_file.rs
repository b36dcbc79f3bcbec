//! The journal as a file: replaced as one step, and on the device before anything is changed.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
    /// It cannot be read.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(&self.0) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces it. What is there afterwards is the old one or the new one, whole.
    ///
    /// # Errors
    /// It is the old one.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let new = self.0.with_extension("cores-new");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
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

#[cfg(test)]
mod tests {
    use super::*;

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
}

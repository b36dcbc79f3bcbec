//! A file of zeroes, which has its name only when what its maker puts into it is whole.
//!
//! ```text
//! file without a name --zeroes, flushed--> its maker writes into it --publish--> its name, flushed
//! ```
//!
//! So whoever is killed meanwhile leaves nothing. Where a file system has no files without names (some
//! network file systems), the file has a name of its own until then, `.NAME.PID.NUMBER`, with the
//! beginning of a long name, and that is what a crash leaves.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, CWD};
use rustix::io::Errno;

use super::{FileDevice, OpenError, Options, ZEROES_BYTES};

/// Characters of a name that are in the hidden one: with the numbers they are no longer than a name may be.
const NAME_SHOWN: usize = 48;
/// Where a file is found that has no name.
const DESCRIPTORS: &str = "/proc/self/fd";

/// A file that is being made. Dropped before it is published, it was never there.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    /// The name that it has until then, where there have to be names.
    hidden: Option<PathBuf>,
}

impl NewFile {
    /// Makes a file of so many zeroes, written one by one: a first write into what was only reserved
    /// takes a hundred times as long as a second. `mode` is what its rights are, less the umask.
    ///
    /// # Errors
    /// There is something by this name, there is no room, or the kernel refuses. Nothing is left.
    pub fn make(path: &Path, bytes: u64, mode: u32) -> Result<NewFile, OpenError> {
        // Looked at before a gigabyte is written; what counts is that the name is free at the end.
        if rustix::fs::lstat(path).is_ok() {
            return Err(OpenError::call("open(O_EXCL)")(Errno::EXIST));
        }
        let mode = Mode::from_raw_mode(mode);
        let mut made = match nameless(path, mode) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Self::hidden(path, mode)?,
            opened => {
                let file = opened.map_err(OpenError::call("open(O_TMPFILE)"))?;
                NewFile { file: file.into(), path: path.to_owned(), hidden: None }
            }
        };
        fill(&mut made.file, bytes).map_err(|error| OpenError::system("write", &error))?;
        Ok(made)
    }

    /// The same with a name of its own.
    pub(super) fn hidden(path: &Path, mode: Mode) -> Result<NewFile, OpenError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().take(NAME_SHOWN).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let own = format!(".{name}.{}.{}", std::process::id(), now.as_nanos());
        let hidden = folder(path).join(own);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(&hidden, flags, mode);
        let file = file.map_err(OpenError::call("open(O_EXCL)"))?.into();
        Ok(NewFile { file, path: path.to_owned(), hidden: Some(hidden) })
    }

    /// The file as a device, of which nobody else has the lock.
    ///
    /// # Errors
    /// As [`FileDevice::open`].
    pub fn device(&self, options: Options) -> Result<FileDevice, OpenError> {
        match &self.hidden {
            Some(hidden) => FileDevice::open(hidden, options),
            None => FileDevice::open(&self.descriptor(), options),
        }
    }

    /// Gives the file its name, durably.
    ///
    /// # Errors
    /// There is something by this name, or the kernel refuses: then nothing is left, unless it refuses to
    /// remove a name as well.
    pub fn publish(mut self) -> Result<(), OpenError> {
        // Before there is a name: who may make one here need not have the right to open the folder.
        let folder = File::open(folder(&self.path));
        let folder = folder.map_err(|error| OpenError::system("open", &error))?;
        match &self.hidden {
            None => {
                let (own, follow) = (self.descriptor(), AtFlags::SYMLINK_FOLLOW);
                let linked = rustix::fs::linkat(CWD, &own, CWD, &self.path, follow);
                linked.map_err(OpenError::call("linkat"))?;
            }
            Some(hidden) => rename(hidden, &self.path).map_err(OpenError::call("rename"))?,
        }
        self.hidden = None;
        // The name has to last as the bytes do.
        folder.sync_all().map_err(|error| {
            let _ = rustix::fs::unlink(&self.path);
            OpenError::system("fsync", &error)
        })
    }

    fn descriptor(&self) -> PathBuf {
        Path::new(DESCRIPTORS).join(self.file.as_raw_fd().to_string())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(hidden) = self.hidden.take() {
            // It was made just now, and nobody else knows it.
            let _ = rustix::fs::unlink(hidden);
        }
    }
}

fn nameless(path: &Path, mode: Mode) -> Result<std::os::fd::OwnedFd, Errno> {
    // Without it nobody could give the file a name.
    if !Path::new(DESCRIPTORS).exists() {
        return Err(Errno::OPNOTSUPP);
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(folder(path), flags, mode)
}

/// Never over what is there; network file systems know that only of links.
fn rename(from: &Path, to: &Path) -> Result<(), Errno> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::link(from, to)?;
            rustix::fs::unlink(from).inspect_err(|_| _ = rustix::fs::unlink(to))
        }
        renamed => renamed,
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn fill(file: &mut File, bytes: u64) -> std::io::Result<()> {
    let zeroes = vec![0; bytes.min(ZEROES_BYTES as u64) as usize];
    let mut left = bytes;
    while left > 0 {
        let next = left.min(zeroes.len() as u64);
        file.write_all(&zeroes[..next as usize])?;
        left -= next;
    }
    file.sync_all()
}

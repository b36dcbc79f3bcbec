//! A file that is there whole or not at all.
//!
//! Written without a name where the file system can (O_TMPFILE), so that whatever ends this
//! process leaves nothing; else under a hidden name, which goes with the value and on the signals
//! by which people end commands.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use rustix::fs::{linkat, openat, AtFlags, Mode, OFlags, CWD};

/// A file in the making.
pub struct Pending {
    file: File,
    target: PathBuf,
    /// Its name until it is whole, if it needs one.
    hidden: Option<PathBuf>,
    is_interrupted: Arc<AtomicBool>,
}

impl Pending {
    /// Begins a file that will be `target`, in whose folder it is written.
    pub fn create(target: &Path) -> io::Result<Self> {
        // Past a limit on the length of files, writing has to fail, not to kill.
        signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
        if target.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other("it is there already and no ordinary file"));
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        match openat(CWD, folder(target), flags, mode) {
            Ok(fd) => {
                let (file, target) = (File::from(fd), target.to_owned());
                Ok(Self { file, target, hidden: None, is_interrupted: Arc::default() })
            }
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => Self::hidden(target),
            Err(errno) => Err(errno.into()),
        }
    }

    fn hidden(target: &Path) -> io::Result<Self> {
        let is_interrupted = Arc::<AtomicBool>::default();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            signal_hook::flag::register(signal, is_interrupted.clone())?;
        }
        let path = hidden_name(target);
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        Ok(Self { file, target: target.to_owned(), hidden: Some(path), is_interrupted })
    }

    /// Where to write.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether somebody wants this process to end; it has to drop this value then.
    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }

    /// Gives the file its name, once its bytes are on the disk. What had the name is replaced.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        let from = match self.hidden.clone() {
            Some(path) => path,
            None => {
                let path = hidden_name(&self.target);
                let opened = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                linkat(CWD, opened.as_str(), CWD, &path, AtFlags::SYMLINK_FOLLOW)?;
                self.hidden = Some(path.clone());
                path
            }
        };
        std::fs::rename(from, &self.target)?;
        self.hidden = None;
        // The name is on the disk once its folder is.
        File::open(folder(&self.target))?.sync_all()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(path) = &self.hidden {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn hidden_name(target: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    target.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(folder: &Path) -> Vec<OsString> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("heliostat-pending-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let target = folder.join("a");
        for make in [Pending::create, Pending::hidden] {
            let dropped = make(&target).unwrap();
            dropped.file().write_all(b"half").unwrap();
            drop(dropped);
            assert!(names(&folder).is_empty());
            for text in ["old", "new"] {
                let pending = make(&target).unwrap();
                pending.file().write_all(text.as_bytes()).unwrap();
                pending.commit().unwrap();
                assert_eq!(std::fs::read_to_string(&target).unwrap(), text);
            }
            assert_eq!(names(&folder), ["a"]);
            std::fs::remove_file(&target).unwrap();
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

//! Empty directories that lead to the grants, so that programs can look at what leads to them.
//!
//! A private folder of the host holds them: one per ancestor of a grant, an empty file or folder
//! in a grant's own place, and the host's symbolic links that stand before a grant (`/bin`). It
//! is only ever read, and removed at the end.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// How a supervisor's folder begins; its process's number follows.
const PREFIX: &str = "sealed-";

/// The folder; dropping it removes it.
#[derive(Debug)]
pub struct Skeleton {
    place: PathBuf,
    top: OwnedFd,
}

impl Skeleton {
    /// Makes an empty one in `folder`, which is private to this user.
    pub fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        remove_left_behind(folder);
        let place = folder.join(format!("{PREFIX}{}", std::process::id()));
        // Left behind by a killed process that had this number.
        let _ = fs::remove_dir_all(&place);
        fs::create_dir(&place)?;
        let place = place.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(&place, flags, Mode::empty())?;
        let skeleton = Self { place, top };
        skeleton.folder(Path::new("/proc"))?;
        Ok(skeleton)
    }

    /// Where a path of the program has its place in the skeleton.
    fn inside(&self, path: &Path) -> PathBuf {
        self.place.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A directory and what leads to it.
    pub fn folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(self.inside(path))
    }

    /// An empty file and what leads to it.
    pub fn file(&self, path: &Path) -> io::Result<()> {
        self.folder(path.parent().unwrap_or(Path::new("/")))?;
        fs::File::create(self.inside(path)).map(drop)
    }

    /// A symbolic link as the host has it, and what leads to it.
    pub fn link(&self, path: &Path, text: &Path) -> io::Result<()> {
        self.folder(path.parent().unwrap_or(Path::new("/")))?;
        match std::os::unix::fs::symlink(text, self.inside(path)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        }
    }

    /// Removes it from the host. Nothing of it is found any more.
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.place);
    }

    /// Makes the list of /proc: these processes, `others`, and nobody else. What cannot be made
    /// is not listed; a list that is being read changes under its reader, as that of proc(5).
    pub fn list_processes(&self, numbers: &[i32], others: &[&str]) -> io::Result<()> {
        let place = self.inside(Path::new("/proc"));
        let listed = |name: &std::ffi::OsStr| name.to_str()?.parse::<i32>().ok();
        for entry in fs::read_dir(&place)?.flatten() {
            if listed(&entry.file_name()).is_some_and(|number| !numbers.contains(&number)) {
                let _ = fs::remove_dir(entry.path());
            }
        }
        for number in numbers {
            let _ = fs::create_dir(place.join(number.to_string()));
        }
        for name in others.iter().filter(|name| !place.join(name).exists()) {
            fs::File::create(place.join(name))?;
        }
        Ok(())
    }

    /// Its top, the program's `/`.
    pub fn top(&self) -> &OwnedFd {
        &self.top
    }

    /// The program's name of what lies in the skeleton at a path of the host.
    pub fn name_of(&self, host: &Path) -> Option<PathBuf> {
        host.strip_prefix(&self.place).ok().map(|rest| Path::new("/").join(rest))
    }
}

impl Drop for Skeleton {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Folders of supervisors that were killed.
fn remove_left_behind(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if number.is_some_and(|number| !Path::new("/proc").join(number.to_string()).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

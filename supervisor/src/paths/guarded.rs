//! Parts of a grant that are granted for less than the whole, known by what they are.
//!
//! By its name alone such a part would be the wider grant's as soon as it has another one: a hard
//! link, a spelling that the file system takes for the same, a name that somebody outside has given
//! it. So device and inode of each are remembered, and of each folder on the way to one; a walk
//! that comes to one of them goes on under the name that it is granted by. They are held open,
//! so that no other file gets their numbers.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};

use super::{Found, Root, Roots};

use crate::errno::errno;
use crate::proc::own_name;

const STRICT: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Rounds of opening a name that others make and remove meanwhile.
const ROUNDS_MAX: usize = 100;

/// Device and inode.
type Identity = (u64, u64);

/// What is known of one.
#[derive(Debug)]
struct Part {
    /// The name that it is granted by.
    path: PathBuf,
    /// It is granted for reading itself; otherwise it leads to one that is.
    is_root: bool,
    _held: OwnedFd,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Guarded(HashMap<Identity, Part>);

impl Guarded {
    /// The parts of these grants. What is named for writing as well stays writable.
    pub fn of(roots: &[Root]) -> Self {
        let mut all = Self::default();
        // Nothing of the host's lies in folders of the program's own but what is granted itself.
        for root in roots.iter().filter(|root| root.access != Access::ReadWrite) {
            let gives_more = |wider: &&Root| !wider.is_own && wider.access > root.access;
            let wider = roots.iter().filter(gives_more).filter(|wider| wider.holds(&root.path));
            let Some(wider) = wider.min_by_key(|wider| wider.path.as_os_str().len()) else {
                continue;
            };
            all.add(&root.path, true);
            let ways = root.path.ancestors().skip(1).take_while(|way| wider.holds(way));
            ways.for_each(|way| all.add(way, false));
        }
        let writable = |root: &&Root| root.access == Access::ReadWrite && !root.is_own;
        for root in roots.iter().filter(writable) {
            let found = rustix::fs::stat(&root.path).ok().map(|found| identity(&found));
            found.and_then(|found| all.0.remove(&found));
        }
        all
    }

    fn add(&mut self, path: &Path, is_root: bool) {
        let Ok(held) = rustix::fs::open(path, LOOK, Mode::empty()) else { return };
        let Ok(found) = rustix::fs::fstat(&held) else { return };
        let part = Part { path: path.to_owned(), is_root, _held: held };
        let known = self.0.entry(identity(&found)).or_insert(part);
        known.is_root |= is_root;
    }

    /// Whether one of them lies on a file system: a rename or a link from outside may have brought it
    /// below any folder there.
    pub fn are_on_file_system_of(&self, folder: impl AsFd) -> bool {
        let found = if self.is_empty() { None } else { rustix::fs::fstat(folder).ok() };
        found.is_some_and(|found| self.0.keys().any(|(device, _)| *device == found.st_dev))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name by which what has this status is judged, if it is one of them.
    pub fn name_of(&self, status: &Stat) -> Option<&Path> {
        Some(self.0.get(&identity(status))?.path.as_path())
    }

    /// As `has`, for what the kernel found by a name of several parts: each folder above it counts.
    pub fn has_above(&self, fd: &OwnedFd) -> bool {
        let is_part = |at: &Path| {
            let found = rustix::fs::stat(at).ok().map(|found| identity(&found));
            found.and_then(|found| self.0.get(&found)).is_some_and(|part| part.is_root)
        };
        self.has(fd) || super::host_path(fd).is_some_and(|path| path.ancestors().any(is_part))
    }

    /// Whether what is open is granted for reading, by whatever name it was found.
    pub fn has(&self, fd: impl AsFd) -> bool {
        let found = if self.is_empty() { None } else { rustix::fs::fstat(fd).ok() };
        found.is_some_and(|found| self.0.get(&identity(&found)).is_some_and(|part| part.is_root))
    }
}

fn identity(status: &Stat) -> Identity {
    (status.st_dev, status.st_ino)
}

/// Opens the end of a walk so that it may be changed: what is judged is what is opened, not what
/// has its name a moment later.
///
/// # Errors
/// EROFS for what is guarded, and those of openat2(2).
pub fn open(roots: &Roots, found: &Found, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    use rustix::io::Errno as E;
    let (folder, name) = (&found.folder, &found.name);
    let makes = flags.contains(OFlags::CREATE);
    for _ in 0..ROUNDS_MAX {
        match rustix::fs::openat2(folder, name, LOOK, Mode::empty(), STRICT) {
            Err(E::NOENT) if makes => {}
            Err(error) => return Err(errno(error)),
            Ok(fd) => return reopen(roots, &fd, flags),
        }
        let new = flags | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::openat2(folder, name, new, mode, STRICT) {
            Err(E::EXIST) if !flags.contains(OFlags::EXCL) => {}
            other => return other.map_err(errno),
        }
    }
    Err(Errno(libc::EAGAIN))
}

/// Opens what is held by path only as these flags would have it by its name.
fn reopen(roots: &Roots, fd: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let makes = flags.contains(OFlags::CREATE);
    let kind = FileType::from_raw_mode(rustix::fs::fstat(fd).map_err(errno)?.st_mode);
    match kind {
        _ if makes && flags.contains(OFlags::EXCL) => return Err(Errno(libc::EEXIST)),
        FileType::Symlink => return Err(Errno(libc::ELOOP)),
        FileType::Directory if makes => return Err(Errno(libc::EISDIR)),
        _ if roots.guarded().has(fd) => return Err(Errno(libc::EROFS)),
        _ => {}
    }
    let flags = flags.difference(OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW);
    rustix::fs::open(own_name(fd), flags | OFlags::CLOEXEC, Mode::empty()).map_err(errno)
}

//! What the paths of a call lead to, and what is opened there.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::Call;
use crate::acting;
use crate::errno::errno;
use crate::paths::{self, Found, Last, Object, Rules, Start};

impl Call<'_> {
    /// Where relative paths begin. `None` for an absolute one, which needs none.
    pub fn start(&self, descriptor: i32, path: &[u8]) -> Result<Option<Start>, Errno> {
        match path.first() {
            Some(b'/') => Ok(None),
            _ => Start::of(&self.supervisor.roots, self.thread(), descriptor).map(Some),
        }
    }

    /// Walks a path to its last component.
    pub fn find(&self, descriptor: i32, path: &[u8], last: Last) -> Result<Found, Errno> {
        let start = self.start(descriptor, path)?;
        self.find_from(start.as_ref(), path, last)
    }

    /// As `find`, from a start that is known already.
    pub fn find_from(
        &self,
        start: Option<&Start>,
        path: &[u8],
        last: Last,
    ) -> Result<Found, Errno> {
        self.find_by(start, path, last, Rules::default())
    }

    /// As `find_from`, by the rules of openat2(2).
    pub fn find_by(
        &self,
        start: Option<&Start>,
        path: &[u8],
        last: Last,
        rules: Rules,
    ) -> Result<Found, Errno> {
        let walk = paths::Walk::new(&self.supervisor.roots, self.supervisor, self.thread(), last);
        let found = walk.by(rules).to(start, path);
        if matches!(found, Err(Errno(libc::ENOENT))) {
            let begin = start.map_or(Some(Path::new("/")), |start| start.path.as_deref());
            if let Some(begin) = begin {
                let whole = begin.join(OsStr::from_bytes(path));
                self.note_path(&whole, Access::ReadOnly);
            }
        }
        found
    }

    /// The end of a walk whose name is to be made, removed or moved.
    pub fn find_changeable(&self, descriptor: i32, path: &[u8]) -> Result<Found, Errno> {
        let start = self.start(descriptor, path)?;
        let quick = paths::quick_parent(&self.supervisor.roots, start.as_ref(), path);
        let found = match quick {
            Some(found) => found?,
            None => self.find_from(start.as_ref(), path, Last::Name)?,
        };
        if found.writable().is_err() {
            // Names are the folder's.
            let folder = found.path.parent().unwrap_or(&found.path);
            self.note_path(folder, Access::ReadWrite);
        }
        Ok(found)
    }

    /// What a path leads to, opened by path only, and its name if it was walked to.
    pub fn look(
        &self,
        descriptor: i32,
        path: &[u8],
        last: Last,
    ) -> Result<(OwnedFd, Option<Found>), Errno> {
        let start = self.start(descriptor, path)?;
        let flags = match last {
            Last::Follow => OFlags::PATH,
            _ => OFlags::PATH | OFlags::NOFOLLOW,
        };
        if let Some(opened) = self.quick(start.as_ref(), path, flags, Mode::empty()) {
            return opened.map(|fd| (fd, None));
        }
        let found = self.find_from(start.as_ref(), path, last)?;
        self.open_found(&found, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())
            .map(|fd| (fd, Some(found)))
    }

    /// What a path leads to, where that can be told without a walk.
    pub fn quick(
        &self,
        start: Option<&Start>,
        path: &[u8],
        flags: OFlags,
        mode: Mode,
    ) -> Option<Result<OwnedFd, Errno>> {
        let roots = &self.supervisor.roots;
        let opened = paths::quick(roots, start, path, flags, mode);
        if opened.is_none() && !paths::writes(flags) && roots.lacks(path) {
            self.note_path(Path::new(OsStr::from_bytes(path)), Access::ReadOnly);
            return Some(Err(Errno(libc::ENOENT)));
        }
        if matches!(opened, Some(Err(Errno(libc::ENOENT)))) && roots.is_own(path) {
            // Outside there may be something.
            self.note_path(Path::new(OsStr::from_bytes(path)), Access::ReadOnly);
        }
        opened
    }

    /// Opens the end of a walk; a symbolic link that has come there meanwhile is ELOOP.
    pub fn open_found(&self, found: &Found, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        if let Object::Descriptor { process, number } = found.object {
            let descriptor = (process, number);
            return paths::reopen(&self.supervisor.roots, found, descriptor, flags, mode);
        }
        let guards = !self.supervisor.roots.guarded().is_empty();
        if guards && paths::writes(flags) && found.access == Some(Access::ReadWrite) {
            return paths::open_guarded(&self.supervisor.roots, found, flags, mode);
        }
        let safe = match found.object {
            // Its last component may be a link of /proc's own kind.
            Object::Process => ResolveFlags::NO_MAGICLINKS,
            _ => ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH,
        };
        let flags = flags | OFlags::CLOEXEC;
        let open = || rustix::fs::openat2(&found.folder, &found.name, flags, mode, safe);
        let opened = match self.is_in_own_process(found) {
            true => acting::as_supervisor(open),
            false => open(),
        };
        if matches!(opened, Err(rustix::io::Errno::NOENT)) && found.access.is_none() {
            self.note_path(&found.path, Access::ReadOnly);
        }
        opened.map_err(errno)
    }

    /// Whether a walk of a caller that has become another user ended in its own process's folder, which
    /// the kernel gives to root, and shows to the process all the same.
    fn is_in_own_process(&self, found: &Found) -> bool {
        if acting::user().is_none() || found.object != Object::Process {
            return false;
        }
        let below = found.path.strip_prefix("/proc").ok().and_then(Path::to_str);
        let number = below.and_then(|below| below.split('/').next()?.parse::<i32>().ok());
        number.is_some_and(|number| number == self.thread() || number == self.process())
    }

    /// A descriptor of the thread's where the path is empty and the flags say so
    /// (AT_EMPTY_PATH), else what the path leads to.
    pub fn look_or_own(
        &self,
        descriptor: i32,
        path: &[u8],
        flags: i32,
    ) -> Result<(OwnedFd, Option<Found>), Errno> {
        if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            return Start::open(&self.supervisor.roots, self.thread(), descriptor)
                .map(|fd| (fd, None));
        }
        self.look(descriptor, path, Last::unless(flags, libc::AT_SYMLINK_NOFOLLOW))
    }

    /// Whether what a descriptor of the program's stands for, which has a name, may be described
    /// anew. Where parts of a grant are for reading only, its name is walked: it may lead into one.
    ///
    /// # Errors
    /// EROFS, EPERM.
    pub fn describable(&self, start: &Start, name: &Path) -> Result<(), Errno> {
        let roots = &self.supervisor.roots;
        if roots.guarded().is_empty() {
            return roots.describable(name);
        }
        let read_only = Errno(libc::EROFS);
        let walk = paths::Walk::new(roots, self.supervisor, self.thread(), Last::Keep);
        let found = walk.to(None, name.as_os_str().as_bytes()).map_err(|_| read_only)?;
        let there = self.open_found(&found, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty());
        let status = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|one| (one.st_dev, one.st_ino)).ok();
        let is_it = there.is_ok_and(|there| status(&there) == status(&start.fd));
        match is_it && found.writable().is_ok() && !roots.guarded().has(&start.fd) {
            true => roots.describable(&found.path),
            false => Err(read_only),
        }
    }
}

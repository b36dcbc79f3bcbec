//! One call of a sealed thread, and what its arguments mean.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use heliostat_backend_seal::{self as seal, Notice, Reply};
use heliostat_base::sys::{Errno, Sysno};
use heliostat_control::policy::Access;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::behalf;
use crate::paths::{self, errno, Found, Object, Rules, Sandbox, Start, PATH_MAX};
use crate::supervisor::Supervisor;

/// What a family of calls answers.
pub type Answer = Result<Reply, Errno>;

/// The answer of a call that returns nothing but success.
pub const DONE: Answer = Ok(Reply::Value(0));

/// A call that waits for its answer.
pub struct Call<'a> {
    /// What is shared by all calls.
    pub supervisor: &'a Supervisor,
    /// The call as the kernel tells it.
    pub notice: Notice,
    /// Which call it is.
    pub number: Sysno,
}

/// How the last component of a path is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Last {
    /// A symbolic link there is followed.
    Follow,
    /// It is taken as it is, unless a slash comes after it.
    Keep,
    /// It is taken as it is: the calls that make and remove names.
    Name,
}

impl Last {
    /// `Keep` if the flag is among `flags`, else `Follow`.
    pub fn unless(flags: i32, nofollow: i32) -> Self {
        if flags & nofollow != 0 {
            Self::Keep
        } else {
            Self::Follow
        }
    }
}

impl Call<'_> {
    /// Argument `place`.
    pub fn word(&self, place: usize) -> u64 {
        self.notice.args[place]
    }

    /// Argument `place` as the kernel sees an `int`.
    pub fn int(&self, place: usize) -> i32 {
        self.notice.args[place] as i32
    }

    /// The thread that calls.
    pub fn thread(&self) -> i32 {
        self.notice.thread
    }

    /// ESRCH if the call does not wait any more: what was read before a success was the thread's.
    pub fn check(&self) -> Result<(), Errno> {
        match self.supervisor.listener.is_waiting(self.notice.id) {
            true => Ok(()),
            false => Err(Errno(libc::ESRCH)),
        }
    }

    /// The path that argument `place` points to. EFAULT, or ENAMETOOLONG.
    pub fn path(&self, place: usize) -> Result<Vec<u8>, Errno> {
        seal::read_text(self.thread(), self.word(place), PATH_MAX)
    }

    /// As `path`; none at all is an empty one where the flags let it be (AT_EMPTY_PATH).
    pub fn path_or_none(&self, place: usize, flags: i32) -> Result<Vec<u8>, Errno> {
        match self.word(place) == 0 && flags & libc::AT_EMPTY_PATH != 0 {
            true => Ok(Vec::new()),
            false => self.path(place),
        }
    }

    /// `bytes.len()` bytes from the address in argument `place`.
    pub fn read(&self, place: usize, bytes: &mut [u8]) -> Result<(), Errno> {
        seal::read_memory(self.thread(), self.word(place), bytes)
    }

    /// Writes to the address in argument `place`.
    pub fn write(&self, place: usize, bytes: &[u8]) -> Result<(), Errno> {
        self.check()?;
        seal::write_memory(self.thread(), self.word(place), bytes)
    }

    /// Where relative paths begin. `None` for an absolute one, which needs none.
    pub fn start(&self, descriptor: i32, path: &[u8]) -> Result<Option<Start>, Errno> {
        match path.first() {
            Some(b'/') => Ok(None),
            _ => Start::of(&self.supervisor.roots, self.thread(), descriptor).map(Some),
        }
    }

    /// The process that the thread belongs to.
    pub fn process(&self) -> i32 {
        self.supervisor.process_of(self.thread())
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
                self.supervisor.note_path(self, &whole, Access::ReadOnly);
            }
        }
        found
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
            self.supervisor.note_path(self, Path::new(OsStr::from_bytes(path)), Access::ReadOnly);
            return Some(Err(Errno(libc::ENOENT)));
        }
        if matches!(opened, Some(Err(Errno(libc::ENOENT)))) && roots.is_own(path) {
            // Outside there may be something.
            self.supervisor.note_path(self, Path::new(OsStr::from_bytes(path)), Access::ReadOnly);
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
            true => behalf::as_supervisor(open),
            false => open(),
        };
        if matches!(opened, Err(rustix::io::Errno::NOENT)) && found.access.is_none() {
            self.supervisor.note_path(self, &found.path, Access::ReadOnly);
        }
        opened.map_err(errno)
    }

    /// Whether a walk of a caller that has become another user ended in its own process's folder, which
    /// the kernel gives to root, and shows to the process all the same.
    fn is_in_own_process(&self, found: &Found) -> bool {
        if behalf::user().is_none() || found.object != Object::Process {
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

    /// Bits that the process takes from the mode of new files.
    pub fn umask(&self) -> u32 {
        self.supervisor.umask_of(self.thread())
    }

    /// Argument `place` as the mode of a new file.
    pub fn new_mode(&self, place: usize) -> Mode {
        self.new_mode_of(self.word(place) as u32)
    }

    /// A mode as the process's new files get it.
    pub fn new_mode_of(&self, mode: u32) -> Mode {
        Mode::from_raw_mode(mode & 0o7777 & !self.umask())
    }
}

/// A name of this process's own for an open descriptor: what calls by path need.
pub fn own_name(fd: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    Path::new("/proc/self/fd").join(fd.as_raw_fd().to_string())
}

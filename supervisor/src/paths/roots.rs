//! The granted roots, opened once.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use heliostat_base::sys::Errno;
use heliostat_control::policy::{Access, PathGrant};
use rustix::fs::{Mode, OFlags};

use super::guarded::Guarded;
use super::here::Here;
use super::named::{is_of_a_process, own_link, resolve, without_ways_up};
use super::own::{self, View};
use super::proc::is_proc;
use super::skeleton::{self, Skeleton};
use super::visible::VisibleNames;
use crate::errno::errno;

const OPEN: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Why a folder of /proc is not granted: what is in it would be this process's.
const NOT_OF_PROC: &str = "of /proc a program has its own processes' entries and a few of all; \
                           only single files that are no process's can be granted besides";

/// One granted directory or file.
#[derive(Debug)]
pub struct Root {
    /// Its name on the host, without symbolic links.
    pub path: PathBuf,
    /// The directory itself; of a file, the directory that holds it, so that a file that is
    /// replaced by rename(2) stays granted.
    pub folder: Arc<OwnedFd>,
    /// What it is granted for.
    pub access: Access,
    /// Whether it is a directory.
    pub is_folder: bool,
    /// Another grant with other access lies below.
    pub is_mixed: bool,
    /// Another grant lies below, or something else that is judged by itself (/proc below `/`).
    pub has_inner: bool,
    /// It is granted for writing, and what is for reading within such a grant may have come below it.
    pub is_guarded: bool,
    /// Something within may only be looked at, so that a name does not tell whether it may be read.
    pub has_hidden: bool,
    /// It may be opened for what it is granted, and not described anew: a device of the host's that
    /// no policy names.
    opens_only: bool,
    /// A folder of the program's own at a name of the host, which has another there.
    pub is_own: bool,
}

impl Root {
    fn new(path: PathBuf, folder: Arc<OwnedFd>, access: Access, is_folder: bool) -> Self {
        Self {
            path,
            folder,
            access,
            is_folder,
            is_mixed: false,
            has_inner: false,
            is_guarded: false,
            has_hidden: false,
            opens_only: false,
            is_own: false,
        }
    }

    /// Whether a path lies below it.
    pub fn holds(&self, path: &Path) -> bool {
        self.is_folder && !is_same(path, &self.path) && is_within(path, &self.path)
    }

    fn decides(&self, path: &Path) -> bool {
        match self.is_folder {
            true => is_within(path, &self.path),
            false => is_same(path, &self.path),
        }
    }
}

/// The directory to hold for a path, and whether it is the path's own. Files of one directory share it.
fn open_root(roots: &[Root], path: &Path) -> io::Result<(Arc<OwnedFd>, bool)> {
    let is_folder = path.is_dir();
    let opened = if is_folder { path } else { path.parent().unwrap_or(path) };
    let is_beside = |root: &&Root| !root.is_folder && root.path.parent() == Some(opened);
    if let Some(beside) = roots.iter().find(is_beside).filter(|_| !is_folder) {
        return Ok((beside.folder.clone(), false));
    }
    let folder = rustix::fs::open(opened, OPEN | OFlags::DIRECTORY, Mode::empty())?;
    Ok((Arc::new(folder), is_folder))
}

/// All of them, and what leads to them.
#[derive(Debug)]
pub struct Roots {
    /// Longest name first.
    roots: Vec<Root>,
    /// Names that are symbolic links to a granted directory: (name, its place in `roots`' tree).
    aliases: Vec<(PathBuf, Arc<OwnedFd>)>,
    /// What is granted for reading within what is granted for writing.
    guarded: Guarded,
    skeleton: Skeleton,
    /// What of it there is to look at.
    visible: VisibleNames,
    proc: OwnedFd,
    here: Here,
}

impl Roots {
    /// Opens what is granted. What does not exist is left out, and said by `tell`.
    ///
    /// `folder` is private to this user and takes the skeleton, unless there is one in memory.
    pub fn open(
        view: &View<'_>,
        grants: &[PathGrant],
        folder: &Path,
        tell: &mut dyn FnMut(&Path, &io::Error),
    ) -> io::Result<Self> {
        let proc = rustix::fs::open("/proc", OPEN | OFlags::DIRECTORY, Mode::empty())?;
        let resolved = resolve(grants);
        let or_named = |(path, grant): (&'_ io::Result<PathBuf>, &PathGrant)| {
            path.as_ref().map_or_else(|_| grant.path.clone(), PathBuf::clone)
        };
        let places: Vec<_> = resolved.iter().zip(grants).map(or_named).collect();
        let in_memory = skeleton::in_memory(&places);
        let made = in_memory.and_then(|folder| Skeleton::new(&folder).ok());
        let skeleton = made.map_or_else(|| Skeleton::new(folder), Ok)?;
        let (roots, aliases, visible) = (Vec::new(), Vec::new(), VisibleNames::default());
        let guarded = Guarded::default();
        let here = Here::default();
        let mut all = Self { roots, aliases, guarded, skeleton, visible, proc, here };
        all.visible.add(Path::new("/proc"));
        for (grant, path) in grants.iter().zip(resolved) {
            if let Err(error) = all.take(view, grant, path) {
                tell(&grant.path, &error);
            }
        }
        all.take_own(view)?;
        all.order();
        all.drop_aliases();
        all.aliases.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_os_str().len()));
        let place = all.skeleton.place().to_owned();
        all.guard(&place)?;
        Ok(all)
    }

    fn take(
        &mut self,
        view: &View<'_>,
        grant: &PathGrant,
        path: io::Result<PathBuf>,
    ) -> io::Result<()> {
        let name = without_ways_up(&grant.path);
        let is_itself = path.as_ref().is_ok_and(|path| is_same(path, &name));
        if let Some(text) = (!is_itself).then(|| own_link(&name)).flatten() {
            // Leads to something else for each program: /dev/stdin, /dev/fd.
            self.visible.add(&name);
            self.skeleton.link(&name, &text);
            return Ok(());
        }
        let path = path?;
        let (folder, is_folder) = open_root(&self.roots, &path)?;
        if is_proc(&folder) && (is_folder || is_of_a_process(&path)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, NOT_OF_PROC));
        }
        let folder = match grant.access {
            // One and the same for names that begin in the program's folder and at the top.
            Access::ReadWrite => view.as_seen(&path, is_folder, folder),
            _ => folder,
        };
        if path != name {
            self.lead_through(view, &name, &path)?;
        }
        if let Some(known) = self.roots.iter_mut().find(|root| root.path == path) {
            // The later one counts, as on a command line.
            known.access = grant.access;
            return Ok(());
        }
        match is_folder {
            true => self.skeleton.folder(&path),
            false => self.skeleton.file(&path),
        }
        self.visible.add(&path);
        self.roots.push(Root::new(path, folder, grant.access, is_folder));
        Ok(())
    }

    /// Shows the symbolic links on the way from a granted name to what it stands for.
    fn lead_through(&mut self, view: &View<'_>, name: &Path, path: &Path) -> io::Result<()> {
        let mut reached = PathBuf::from("/");
        for part in name.components().filter(|part| matches!(part, Component::Normal(_))) {
            reached.push(part);
            if let Ok(text) = std::fs::read_link(&reached) {
                self.visible.add(&reached);
                self.skeleton.link(&reached, &text);
                if reached == name && path.is_dir() {
                    let folder = view.as_seen(path, true, Arc::new(own::outside(path)?));
                    self.aliases.push((name.to_owned(), folder));
                }
                // What comes after is found by walking the link's text.
                return Ok(());
            }
        }
        Ok(())
    }

    /// The grant that decides about a path without symbolic links.
    pub fn deciding(&self, path: &Path) -> Option<&Root> {
        self.roots.iter().find(|root| root.decides(path))
    }

    /// What is granted for reading within what is granted for writing.
    pub fn guarded(&self) -> &Guarded {
        &self.guarded
    }

    /// Grants these files for opening only. A grant of a folder that holds them gives the rest.
    pub fn open_only(&mut self, files: &[PathBuf]) {
        for root in self.roots.iter_mut().filter(|root| files.contains(&root.path)) {
            root.opens_only = true;
        }
    }

    /// Whether what lies at a path may get other attributes or names.
    ///
    /// # Errors
    /// EROFS where it is not granted for writing, EPERM where only that is.
    pub fn describable(&self, path: &Path) -> Result<(), Errno> {
        let mut deciding = self.roots.iter().filter(|root| root.decides(path)).peekable();
        let refusal = match deciding.peek() {
            Some(root) if root.opens_only => Errno(libc::EPERM),
            _ => Errno(libc::EROFS),
        };
        let root = deciding.find(|root| !root.opens_only);
        root.filter(|root| root.access == Access::ReadWrite).map(drop).ok_or(refusal)
    }

    /// The grant with exactly this name.
    pub fn exactly(&self, path: &Path) -> Option<&Root> {
        self.roots.iter().find(|root| is_same(&root.path, path))
    }

    /// The file that is granted by itself under this name, and its name in its folder.
    pub fn file<'a>(&self, name: &'a [u8]) -> Option<(&Root, &'a [u8])> {
        let is_it = |root: &&Root| !root.is_folder && root.path.as_os_str().as_bytes() == name;
        let root = self.roots.iter().find(is_it)?;
        Some((root, name.rsplit(|byte| *byte == b'/').next()?))
    }

    /// The granted directory that a name begins with, and how many bytes of the name that are.
    /// `None` too for names that go up (`..`) before.
    pub fn leading(&self, name: &[u8]) -> Option<(&OwnedFd, Option<&Root>, usize)> {
        for root in self.roots.iter().filter(|root| root.is_folder) {
            if let Some(length) = prefix(name, &root.path) {
                return Some((&root.folder, Some(root), length));
            }
        }
        let found = self.aliases.iter().find_map(|(path, fd)| Some((fd, prefix(name, path)?)));
        found.map(|(fd, length)| (&**fd, None, length))
    }

    /// The program's `/`.
    pub fn top(&self) -> &OwnedFd {
        self.skeleton.top()
    }

    /// Whether an absolute path leads to nothing for the program, known by its name alone.
    pub fn lacks(&self, path: &[u8]) -> bool {
        self.visible.lacks(path)
    }

    /// Where what was made for the program to look at lies on the host.
    pub fn place(&self) -> &Path {
        self.skeleton.place()
    }

    /// Removes what was made on the host for the program to look at.
    pub fn remove(&self) {
        self.skeleton.remove();
    }

    /// The directory /proc as it is listed: the processes of the sandbox.
    pub fn list_of_proc(&self, sandbox: &dyn super::Sandbox) -> Result<OwnedFd, Errno> {
        let list = || self.skeleton.list_processes(&sandbox.all(), super::proc::COMMON);
        let listed = crate::acting::as_supervisor(list);
        listed.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
        let opened = rustix::fs::openat(self.skeleton.top(), "proc", OPEN, Mode::empty());
        opened.map_err(errno)
    }

    /// Working folders of threads that are held open.
    pub fn here(&self) -> &Here {
        &self.here
    }

    /// The host's /proc.
    pub fn proc(&self) -> &OwnedFd {
        &self.proc
    }

    /// The program's name of a path of the host: the same, but for the skeleton's own. `None` if
    /// it is not visible. What lies in /proc is judged when it is walked to.
    pub fn name_of(&self, host: &Path) -> Option<PathBuf> {
        if let Some(name) = self.skeleton.name_of(host) {
            return Some(name);
        }
        (self.is_visible(host) || host.starts_with("/proc")).then(|| host.to_owned())
    }

    /// The program's name of a folder that was made to lead to grants.
    pub fn name_in_skeleton(&self, host: &Path) -> Option<PathBuf> {
        self.skeleton.name_of(host)
    }

    /// Whether a path without symbolic links exists for the program: granted, on the way to a
    /// grant, or the way to /proc.
    pub fn is_visible(&self, path: &Path) -> bool {
        self.deciding(path).is_some()
            || self.roots.iter().any(|root| is_within(&root.path, path))
            || path == Path::new("/")
    }

    /// All grants, for the kernel's own fence.
    pub fn all(&self) -> &[Root] {
        &self.roots
    }
}

/// Whether `path` is `folder` or below, both whole names. Byte by byte: the standard library takes
/// both apart, at each of the many folders that a call is compared with.
fn is_within(path: &Path, folder: &Path) -> bool {
    prefix(path.as_os_str().as_bytes(), folder).is_some()
}

/// Whether two whole names are the same, as `is_within` compares them.
fn is_same(path: &Path, other: &Path) -> bool {
    path.as_os_str() == other.as_os_str()
}

/// Length of the prefix of `name` that is `path`, if it is one, in whole components. Only plain
/// spellings count: anything else is walked.
fn prefix(name: &[u8], path: &Path) -> Option<usize> {
    let path = path.as_os_str().as_bytes();
    if path == b"/" {
        return Some(1);
    }
    let rest = name.strip_prefix(path)?;
    (rest.is_empty() || rest.starts_with(b"/")).then_some(path.len())
}

#[path = "roots_looked.rs"]
mod looked;
#[path = "roots_nested.rs"]
mod nested;
#[path = "roots_own.rs"]
mod own_places;
#[path = "roots_removed.rs"]
mod removed;

#[cfg(test)]
#[path = "roots_tests.rs"]
mod tests;

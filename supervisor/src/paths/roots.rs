//! The granted roots, opened once.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use heliostat_base::sys::Errno;
use heliostat_control::policy::{Access, PathGrant};
use rustix::fs::{Mode, OFlags};

use super::proc::is_proc;
use super::shown::Shown;
use super::skeleton::{self, Skeleton};
use super::{removed_path, was_named};

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
    pub folder: OwnedFd,
    /// What it is granted for.
    pub access: Access,
    /// Whether it is a directory.
    pub is_folder: bool,
    /// Another grant with other access lies below.
    pub is_mixed: bool,
    /// Another grant lies below, or something else that is judged by itself (/proc below `/`).
    pub has_inner: bool,
}

impl Root {
    fn new(path: PathBuf, folder: OwnedFd, access: Access, is_folder: bool) -> Self {
        Self { path, folder, access, is_folder, is_mixed: false, has_inner: false }
    }
}

/// The directory to hold for a path, and whether it is the path's own.
fn open_root(path: &Path) -> io::Result<(OwnedFd, bool)> {
    let is_folder = path.is_dir();
    let opened = if is_folder { path } else { path.parent().unwrap_or(path) };
    let folder = rustix::fs::open(opened, OPEN | OFlags::DIRECTORY, Mode::empty())?;
    Ok((folder, is_folder))
}

/// All of them, and what leads to them.
#[derive(Debug)]
pub struct Roots {
    /// Longest name first.
    roots: Vec<Root>,
    /// Names that are symbolic links to a granted directory: (name, its place in `roots`' tree).
    aliases: Vec<(PathBuf, OwnedFd)>,
    skeleton: Skeleton,
    /// What of it there is to look at.
    shown: Shown,
    proc: OwnedFd,
}

impl Roots {
    /// Opens what is granted. What does not exist is left out, and said by `tell`.
    ///
    /// `folder` is private to this user and takes the skeleton, unless there is one in memory.
    pub fn open(
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
        let (roots, aliases, shown) = (Vec::new(), Vec::new(), Shown::default());
        let mut all = Self { roots, aliases, skeleton, shown, proc };
        all.shown.add(Path::new("/proc"));
        for (grant, path) in grants.iter().zip(resolved) {
            if let Err(error) = all.take(grant, path) {
                tell(&grant.path, &error);
            }
        }
        all.order();
        all.aliases.sort_by_key(|(path, _)| std::cmp::Reverse(path.as_os_str().len()));
        let place = all.skeleton.place().to_owned();
        all.guard(&place)?;
        Ok(all)
    }

    fn order(&mut self) {
        self.roots.sort_by_key(|root| std::cmp::Reverse(root.path.as_os_str().len()));
        self.mark_mixed();
    }

    /// Keeps what is the supervisor's as it is where it lies in a grant for writing: it is granted
    /// for reading there. Not where everything is granted.
    pub fn guard(&mut self, path: &Path) -> io::Result<()> {
        let path = path.canonicalize()?;
        let is_writable = self
            .deciding(&path)
            .is_some_and(|root| root.access == Access::ReadWrite && root.path.as_os_str() != "/");
        if is_writable {
            let (folder, is_folder) = open_root(&path)?;
            self.roots.push(Root::new(path, folder, Access::ReadOnly, is_folder));
            self.order();
        }
        Ok(())
    }

    fn take(&mut self, grant: &PathGrant, path: io::Result<PathBuf>) -> io::Result<()> {
        let name = without_ways_up(&grant.path);
        if let Some(text) = own_link(&name) {
            // Leads to something else for each program: /dev/stdin, /dev/fd.
            self.shown.add(&name);
            return self.skeleton.link(&name, &text);
        }
        let path = path?;
        let (folder, is_folder) = open_root(&path)?;
        if is_proc(&folder) && (is_folder || is_of_a_process(&path)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, NOT_OF_PROC));
        }
        if path != name {
            self.lead_through(&name, &path)?;
        }
        if let Some(known) = self.roots.iter_mut().find(|root| root.path == path) {
            // The later one counts, as on a command line.
            known.access = grant.access;
            return Ok(());
        }
        match is_folder {
            true => self.skeleton.folder(&path)?,
            false => self.skeleton.file(&path)?,
        }
        self.shown.add(&path);
        self.roots.push(Root::new(path, folder, grant.access, is_folder));
        Ok(())
    }

    /// Shows the symbolic links on the way from a granted name to what it stands for.
    fn lead_through(&mut self, name: &Path, path: &Path) -> io::Result<()> {
        let mut reached = PathBuf::from("/");
        for part in name.components().filter(|part| matches!(part, Component::Normal(_))) {
            reached.push(part);
            if let Ok(text) = std::fs::read_link(&reached) {
                self.shown.add(&reached);
                self.skeleton.link(&reached, &text)?;
                if reached == name && path.is_dir() {
                    let folder = rustix::fs::open(path, OPEN | OFlags::DIRECTORY, Mode::empty())?;
                    self.aliases.push((name.to_owned(), folder));
                }
                // What comes after is found by walking the link's text.
                return Ok(());
            }
        }
        Ok(())
    }

    fn mark_mixed(&mut self) {
        let all: Vec<_> = self.roots.iter().map(|root| (root.path.clone(), root.access)).collect();
        for root in &mut self.roots {
            let is_inner = |path: &Path| {
                path.as_os_str() != root.path.as_os_str() && is_within(path, &root.path)
            };
            let differs =
                |(path, access): &(PathBuf, Access)| *access != root.access && is_inner(path);
            root.is_mixed = all.iter().any(differs);
            let mut others = all.iter().map(|(path, _)| path.as_path());
            root.has_inner = is_inner(Path::new("/proc")) || others.any(is_inner);
        }
    }

    /// The grant that decides about a path without symbolic links.
    pub fn deciding(&self, path: &Path) -> Option<&Root> {
        let decides = |root: &&Root| match root.is_folder {
            true => is_within(path, &root.path),
            false => path == root.path,
        };
        self.roots.iter().find(decides)
    }

    /// The grant with exactly this name.
    pub fn exactly(&self, path: &Path) -> Option<&Root> {
        self.roots.iter().find(|root| root.path == path)
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
        found.map(|(fd, length)| (fd, None, length))
    }

    /// The program's `/`.
    pub fn top(&self) -> &OwnedFd {
        self.skeleton.top()
    }

    /// Whether an absolute path leads to nothing for the program, known by its name alone.
    pub fn lacks(&self, path: &[u8]) -> bool {
        self.shown.lacks(path)
    }

    /// Removes what was made on the host for the program to look at.
    pub fn remove(&self) {
        self.skeleton.remove();
    }

    /// The directory /proc as it is listed: the processes of the sandbox.
    pub fn list_of_proc(&self, sandbox: &dyn super::Sandbox) -> Result<OwnedFd, Errno> {
        let listed = self.skeleton.list_processes(&sandbox.all(), super::proc::COMMON);
        listed.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
        let opened = rustix::fs::openat(self.skeleton.top(), "proc", OPEN, Mode::empty());
        opened.map_err(super::errno)
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

    /// Whether a path without symbolic links exists for the program: granted, on the way to a
    /// grant, or the way to /proc.
    pub fn is_visible(&self, path: &Path) -> bool {
        self.deciding(path).is_some()
            || self.roots.iter().any(|root| root.path.starts_with(path))
            || path == Path::new("/")
    }

    /// Whether a file without a name may be changed: one that was removed from where writing is
    /// granted, or that has no name left and the descriptor is open for writing anyway. A name may
    /// end as that of a removed file does, or be one of several.
    pub fn may_change_removed(&self, fd: &OwnedFd) -> bool {
        let was = removed_path(fd);
        let root = was.as_deref().and_then(|path| self.deciding(path));
        if root.is_some_and(|root| root.access == Access::ReadWrite) {
            return true;
        }
        let has_name = || rustix::fs::fstat(fd).map_or(true, |found| found.st_nlink > 0);
        if was_named(fd) && has_name() {
            return false;
        }
        let flags = rustix::fs::fcntl_getfl(fd).unwrap_or(OFlags::empty());
        flags.intersects(OFlags::WRONLY | OFlags::RDWR)
    }

    /// All grants, for the kernel's own fence.
    pub fn all(&self) -> &[Root] {
        &self.roots
    }
}

/// What each grant leads to. Most are plain names in few folders, each of which is resolved once.
fn resolve(grants: &[PathGrant]) -> Vec<io::Result<PathBuf>> {
    let mut folders = HashMap::new();
    let mut resolved = Vec::with_capacity(grants.len());
    for grant in grants {
        resolved.push(match plain_name(&grant.path) {
            Some((above, name)) => resolve_in(&mut folders, above, name),
            None => grant.path.canonicalize(),
        });
    }
    resolved
}

fn resolve_in<'a>(
    folders: &mut HashMap<&'a Path, PathBuf>,
    above: &'a Path,
    name: &OsStr,
) -> io::Result<PathBuf> {
    let folder = match folders.get(above) {
        Some(known) => known,
        None => folders.entry(above).or_insert(above.canonicalize()?),
    };
    let path = folder.join(name);
    match std::fs::symlink_metadata(&path)?.is_symlink() {
        true => path.canonicalize(),
        false => Ok(path),
    }
}

/// Folder and name of an absolute path without `.`, `..` and empty components.
fn plain_name(path: &Path) -> Option<(&Path, &OsStr)> {
    let text = path.as_os_str().as_bytes();
    let is_odd = |name: &[u8]| matches!(name, b"" | b"." | b"..");
    if text.strip_prefix(b"/")?.split(|byte| *byte == b'/').any(is_odd) {
        return None;
    }
    path.parent().zip(path.file_name())
}

/// Whether `path` is `folder` or below, both whole names. Byte by byte: the standard library takes
/// both apart, at each of the many folders that a call is compared with.
fn is_within(path: &Path, folder: &Path) -> bool {
    prefix(path.as_os_str().as_bytes(), folder).is_some()
}

/// The same name without `..`: what is before the last of them is what it leads to.
fn without_ways_up(path: &Path) -> PathBuf {
    let parts: Vec<_> = path.components().collect();
    let after_last = parts.iter().rposition(|part| *part == Component::ParentDir).map(|at| at + 1);
    let (before, after) = parts.split_at(after_last.unwrap_or(0));
    let before = before.iter().collect::<PathBuf>();
    match before.as_os_str().is_empty() {
        true => path.to_owned(),
        false => before.canonicalize().unwrap_or(before).join(after.iter().collect::<PathBuf>()),
    }
}

/// The text of a link to what each process has of its own: /dev/fd, /etc/mtab.
fn own_link(path: &Path) -> Option<PathBuf> {
    let text = std::fs::read_link(path).ok()?;
    let mut leads_to = PathBuf::from(path.parent()?);
    for part in text.components() {
        match part {
            Component::ParentDir => drop(leads_to.pop()),
            part => leads_to.push(part),
        }
    }
    let own = ["/proc/self", "/proc/thread-self", "/proc/mounts"];
    own.iter().any(|own| leads_to.starts_with(own)).then_some(text)
}

/// Whether a path in /proc is that of a process: these have numbers.
fn is_of_a_process(path: &Path) -> bool {
    let is_number = |part: &OsStr| part.as_bytes().iter().all(u8::is_ascii_digit);
    path.iter().any(is_number)
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

#[cfg(test)]
#[path = "roots_tests.rs"]
mod tests;

//! The long way: component by component, following symbolic links as the program would see them.
//!
//! Each directory on the way is held open, so that nothing that is renamed meanwhile changes
//! where `..` leads (path_resolution(7)). A component is only ever looked up in a directory that
//! is granted or of the skeleton, and never followed by the kernel.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

use super::proc::Caller;
use super::{
    deep_path, host_path, proc, removed_path, Found, Last, Object, Roots, Rules, Sandbox, Start,
    LINKS_MAX,
};

use crate::errno::errno;

const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// One walk.
pub struct Walk<'a> {
    roots: &'a Roots,
    caller: Caller<'a>,
    /// Directories from the top to here, with their names; the top has none.
    stack: Vec<(OsString, OwnedFd)>,
    /// What is still to be walked, and whether slashes follow the last.
    left: VecDeque<OsString>,
    ends_in_slash: bool,
    last: Last,
    links: usize,
    rules: Rules,
}

impl<'a> Walk<'a> {
    /// A walk for a thread of a process.
    pub fn new(roots: &'a Roots, sandbox: &'a dyn Sandbox, thread: i32, last: Last) -> Self {
        let (stack, left) = (Vec::new(), VecDeque::new());
        let (ends_in_slash, links) = (false, 0);
        let rules = Rules::default();
        let caller = Caller { sandbox, thread, process: None };
        Self { roots, caller, stack, left, ends_in_slash, last, links, rules }
    }

    /// The same, with rules of the caller's.
    pub fn by(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Walks `path` to its last component.
    ///
    /// # Errors
    /// Those of path_resolution(7); ENOENT for what is not granted.
    pub fn to(mut self, start: Option<&Start>, path: &[u8]) -> Result<Found, Errno> {
        if path.is_empty() {
            return Err(Errno(libc::ENOENT));
        }
        self.go_to_top()?;
        match start.filter(|_| !path.starts_with(b"/")) {
            Some(Start { path: Some(from), .. }) => self.walk_on(from)?,
            Some(nameless) => self.begin_nameless(nameless)?,
            None => {}
        }
        self.ends_in_slash = path.ends_with(b"/") || path.ends_with(b"/.");
        self.prepend(path);
        while let Some(name) = self.left.pop_front() {
            let is_last = self.left.is_empty();
            let follows = match self.last {
                Last::Follow => true,
                Last::Keep => self.ends_in_slash,
                Last::Name => false,
            };
            if let Some(found) = self.step(name, !is_last, follows)? {
                return Ok(found);
            }
        }
        self.here(Object::Root)
    }

    /// Walks to a directory that has a name.
    fn walk_on(&mut self, to: &Path) -> Result<(), Errno> {
        self.prepend(to.as_os_str().as_bytes());
        while let Some(name) = self.left.pop_front() {
            self.step(name, true, true)?;
        }
        Ok(())
    }

    /// Begins in a directory without a name: one that was removed, and is empty, but has a parent;
    /// or one whose name is longer than any path.
    fn begin_nameless(&mut self, start: &Start) -> Result<(), Errno> {
        if kind(&start.fd)? != FileType::Directory {
            return Err(Errno(libc::ENOTDIR));
        }
        let was = removed_path(&start.fd).or_else(|| deep_path(&start.fd));
        // A name that is not granted may end as that of a removed one does.
        let was =
            was.filter(|path| !start.is_hidden && self.roots.access_of(&start.fd, path).is_some());
        let was = was.ok_or(Errno(libc::ENOENT))?;
        let folder = start.fd.try_clone().map_err(|_| Errno(libc::ENFILE))?;
        // Its name is a whole path: what is joined to it goes on from there.
        self.stack.push((was.into_os_string(), folder));
        Ok(())
    }

    /// One directory up, from one that may be without a name.
    fn step_up(&mut self) -> Result<(), Errno> {
        let Some((name, folder)) = self.stack.pop() else { return Ok(()) };
        if self.stack.is_empty() {
            // Above the top there is the top.
            self.stack.push((name, folder));
        } else if name.as_bytes().starts_with(b"/") {
            let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
            let above = rustix::fs::openat(&folder, "..", flags, Mode::empty()).map_err(errno)?;
            let above = Start::from(self.roots, above);
            let left = std::mem::take(&mut self.left);
            match &above.path {
                Some(path) => self.walk_on(path)?,
                None => self.begin_nameless(&above)?,
            }
            self.left = left;
        }
        Ok(())
    }

    fn go_to_top(&mut self) -> Result<(), Errno> {
        self.stack.clear();
        let root = self.roots.exactly(Path::new("/"));
        let top = root.map_or(self.roots.top(), |root| &root.folder);
        let top = top.try_clone().map_err(|_| Errno(libc::ENFILE))?;
        self.stack.push((OsString::new(), top));
        Ok(())
    }

    /// Puts the components of a path before what is left.
    fn prepend(&mut self, path: &[u8]) {
        let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
        let parts: Vec<_> = parts.filter(|part| *part != b".").collect();
        for part in parts.into_iter().rev() {
            self.left.push_front(OsStr::from_bytes(part).to_owned());
        }
    }

    /// The name of the directory the walk is in.
    fn path(&self) -> PathBuf {
        let mut path = PathBuf::from("/");
        path.extend(self.stack.iter().skip(1).map(|(name, _)| name));
        path
    }

    /// One component. `enters`: more come after it, so it has to be a directory.
    fn step(
        &mut self,
        name: OsString,
        enters: bool,
        follows: bool,
    ) -> Result<Option<Found>, Errno> {
        if name == ".." {
            return self.step_up().map(|()| None);
        }
        let path = self.path().join(&name);
        if let Ok(below) = path.strip_prefix("/proc") {
            return self.step_in_proc(name, &path, below, enters, follows);
        }
        if let Some(root) = self.roots.exactly(&path).filter(|root| root.is_folder) {
            let folder = root.folder.try_clone().map_err(|_| Errno(libc::ENFILE))?;
            self.stack.push((name, folder));
            return Ok(None);
        }
        self.step_into(name, path, enters, follows)
    }

    fn step_into(
        &mut self,
        name: OsString,
        path: PathBuf,
        enters: bool,
        follows: bool,
    ) -> Result<Option<Found>, Errno> {
        let decides = self.roots.deciding(&path);
        let folder = match decides.filter(|root| !root.is_folder) {
            // The skeleton has an empty file there; the real one lies in its own folder.
            Some(root) => root.folder.try_clone().map_err(|_| Errno(libc::ENFILE))?,
            None => self.folder()?,
        };
        let node = match rustix::fs::openat(&folder, &name, LOOK, Mode::empty()) {
            Ok(node) => node,
            // A name that is too long is the call's own matter, as one that is not there.
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NAMETOOLONG) if !enters => {
                return self.end(folder, name, path, Object::Plain).map(Some);
            }
            Err(error) => return Err(errno(error)),
        };
        let status = status(&node)?;
        let own = self.roots.guarded().name_of(&status).filter(|own| *own != path);
        let (name_here, path) = match own {
            // Its name is a whole path, as that of a nameless one.
            Some(own) => (own.as_os_str().to_owned(), own.to_owned()),
            None => (name.clone(), path),
        };
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Symlink if enters || follows => {
                let text = rustix::fs::readlinkat(&node, "", Vec::with_capacity(256));
                self.follow(&text.map_err(errno)?.into_bytes())?;
                Ok(None)
            }
            FileType::Directory if proc::is_mounted(&folder, &node) => Err(Errno(libc::EACCES)),
            FileType::Directory if enters => {
                self.stack.push((name_here, node));
                Ok(None)
            }
            _ if enters => Err(Errno(libc::ENOTDIR)),
            _ => self.end(folder, name, path, Object::Plain).map(Some),
        }
    }

    /// As `step_into` below /proc, where links are the program's own, and few entries exist.
    fn step_in_proc(
        &mut self,
        name: OsString,
        path: &Path,
        below: &Path,
        enters: bool,
        follows: bool,
    ) -> Result<Option<Found>, Errno> {
        let names: Option<Vec<&str>> = below.iter().map(OsStr::to_str).collect();
        let names = names.ok_or(Errno(libc::ENOENT))?;
        if names.is_empty() {
            // Its list is the skeleton's; what is in it is looked up in the real one.
            let proc = match enters {
                true => self.roots.proc().try_clone().map_err(|_| Errno(libc::ENFILE))?,
                false => return self.list_of_proc().map(Some),
            };
            self.stack.push((name, proc));
            return Ok(None);
        }
        if !proc::exists(&self.caller, &names) {
            return Err(Errno(libc::ENOENT));
        }
        let is_own = self.caller.is_own(&names);
        if !is_own {
            proc::check_user(&self.folder()?, &names)?;
        }
        if enters || follows {
            if let Some(stepped) = self.follow_in_proc(&names, &name, enters, is_own)? {
                return Ok(stepped);
            }
        } else if proc::link(&mut self.caller, &names).is_some() {
            return self.end(self.folder()?, name, path.into(), Object::Process).map(Some);
        }
        let folder = self.folder()?;
        let look = || rustix::fs::openat(&folder, &name, LOOK, Mode::empty());
        let node = proc::by_owner(is_own, look).map_err(errno)?;
        // What is open now stays this process's; its number may have been another's before.
        if !proc::exists(&self.caller, &names) {
            return Err(Errno(libc::ENOENT));
        }
        match kind(&node)? {
            FileType::Directory if enters => self.stack.push((name, node)),
            _ if enters => return Err(Errno(libc::ENOTDIR)),
            _ => return self.end(self.folder()?, name, path.into(), Object::Process).map(Some),
        }
        Ok(None)
    }

    /// Follows an entry that is a link for the program; `None` when it is none.
    fn follow_in_proc(
        &mut self,
        names: &[&str],
        name: &OsStr,
        enters: bool,
        is_own: bool,
    ) -> Result<Option<Option<Found>>, Errno> {
        if let Some(text) = proc::link(&mut self.caller, names) {
            self.follow(text.as_bytes())?;
            return Ok(Some(None));
        }
        let descriptor = proc::descriptor(names);
        let is_magic = descriptor.is_some() || proc::is_place(names);
        if is_magic && self.rules.no_magic {
            return Err(Errno(libc::ELOOP));
        }
        if let Some(descriptor) = descriptor {
            return self.step_to_descriptor(descriptor, name.into(), enters, is_own).map(Some);
        }
        if proc::is_place(names) {
            let to = rustix::fs::readlinkat(&self.folder()?, name, Vec::with_capacity(256));
            self.follow(&to.map_err(errno)?.into_bytes())?;
            return Ok(Some(None));
        }
        Ok(None)
    }

    /// /proc itself, as it is listed.
    fn list_of_proc(&self) -> Result<Found, Errno> {
        let folder = self.roots.list_of_proc(self.caller.sandbox)?;
        let (name, path) = (c".".to_owned(), PathBuf::from("/proc"));
        Ok(Found { folder, name, path, access: None, object: Object::Root })
    }

    /// /proc/PID/fd/N: by its name where it has one, else the object itself.
    fn step_to_descriptor(
        &mut self,
        (process, number): (i32, i32),
        name: OsString,
        enters: bool,
        is_own: bool,
    ) -> Result<Option<Found>, Errno> {
        let folder = self.folder()?;
        let fd = proc::by_owner(is_own, || proc::opened(&folder, &name));
        let fd = fd.ok_or(Errno(libc::ENOENT))?;
        let path = host_path(&fd);
        if let Some(name) = path.and_then(|path| self.roots.name_of_open(&fd, &path)) {
            self.follow(name.as_os_str().as_bytes())?;
            return Ok(None);
        }
        if enters {
            return Err(Errno(libc::ENOTDIR));
        }
        let object = Object::Descriptor { process, number };
        let mut found = self.end(self.folder()?, name.clone(), self.path().join(name), object)?;
        let is_removed = removed_path(&fd).is_some();
        let may_change = is_removed && self.roots.may_change_removed(&fd);
        found.access = may_change.then_some(Access::ReadWrite);
        Ok(Some(found))
    }

    fn follow(&mut self, text: &[u8]) -> Result<(), Errno> {
        self.links += 1;
        if self.links > LINKS_MAX || self.rules.no_links {
            return Err(Errno(libc::ELOOP));
        }
        if text.starts_with(b"/") {
            self.go_to_top()?;
        }
        // Slashes after the text of the last link ask for a directory, as those of the path do.
        if self.left.is_empty() && text.ends_with(b"/") {
            self.ends_in_slash = true;
        }
        self.prepend(text);
        Ok(())
    }

    /// The directory the walk is in.
    fn folder(&self) -> Result<OwnedFd, Errno> {
        let (_, here) = self.stack.last().ok_or(Errno(libc::ENOENT))?;
        here.try_clone().map_err(|_| Errno(libc::ENFILE))
    }

    fn access(&self, path: &Path) -> Option<Access> {
        self.roots.deciding(path).map(|root| root.access)
    }

    fn end(
        &self,
        folder: OwnedFd,
        name: OsString,
        path: PathBuf,
        object: Object,
    ) -> Result<Found, Errno> {
        let mut name = name.into_vec();
        if self.ends_in_slash {
            name.push(b'/');
        }
        let name = CString::new(name).map_err(|_| Errno(libc::EINVAL))?;
        let access = self.access(&path);
        Ok(Found { folder, name, path, access, object })
    }

    /// The directory that the walk ended in: a root, `..`, or a link to one of them.
    fn here(&self, object: Object) -> Result<Found, Errno> {
        let path = self.path();
        if path == Path::new("/proc") {
            return self.list_of_proc();
        }
        let access = self.access(&path);
        Ok(Found { folder: self.folder()?, name: c".".to_owned(), path, access, object })
    }
}

fn status(node: &OwnedFd) -> Result<Stat, Errno> {
    rustix::fs::statat(node, "", AtFlags::EMPTY_PATH).map_err(errno)
}

fn kind(node: &OwnedFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(status(node)?.st_mode))
}

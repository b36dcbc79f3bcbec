//! Folders of the program's own among its roots.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heliostat_control::policy::Access;

use super::super::own::{self, View};
use super::{prefix, Root, Roots};

impl Roots {
    /// Adds the folders of the program's own.
    pub(super) fn take_own(&mut self, view: &View<'_>) -> io::Result<()> {
        let Some(top) = view.top else { return self.take_beside(view) };
        for place in view.places.iter().map(Path::new) {
            self.skeleton.folder(place);
            self.push_own(place.to_owned(), own::inside(top, place)?);
        }
        Ok(())
    }

    /// Where nothing can be put at their names: a folder beside the skeleton, and a link that leads
    /// there, if nothing else that is shown lies there. What the kernel itself looks up by such a
    /// name (exec, chdir) it does not find; by the folder's own it does.
    fn take_beside(&mut self, view: &View<'_>) -> io::Result<()> {
        if view.places.is_empty() {
            return Ok(());
        }
        let lies = self.skeleton.own_folder()?;
        let folder = own::outside(&lies)?;
        self.skeleton.folder(&lies);
        self.push_own(lies.clone(), folder);
        for place in view.places.iter().map(Path::new) {
            if self.roots.iter().all(|root| !root.path.starts_with(place)) {
                self.skeleton.link(place, &lies);
                self.visible.add(place);
                self.aliases.push((place.to_owned(), Arc::new(own::outside(&lies)?)));
            }
        }
        Ok(())
    }

    fn push_own(&mut self, path: PathBuf, folder: OwnedFd) {
        self.visible.add(&path);
        let root = Root::new(path, Arc::new(folder), Access::ReadWrite, true);
        self.roots.push(Root { is_own: true, ..root });
    }

    /// Whether a name leads into a folder of the program's own.
    pub fn is_own(&self, name: &[u8]) -> bool {
        self.roots.iter().any(|root| root.is_own && prefix(name, &root.path).is_some())
    }

    /// The folder for temporary files, where it is the program's own.
    pub fn temporary(&self) -> Option<&Path> {
        let own = self.roots.iter().filter(|root| root.is_own).map(|root| root.path.as_path());
        own.max_by_key(|path| *path == Path::new("/tmp"))
    }

    /// As `name_of`, for what is open: at names of the program's own folders lies something else
    /// outside, which it may have been handed.
    pub fn name_of_open(&self, fd: impl AsFd, host: &Path) -> Option<PathBuf> {
        self.name_of(host).filter(|name| self.has(fd, name))
    }

    /// Whether what is open is what has this name for the program, and not outside only.
    fn has(&self, fd: impl AsFd, name: &Path) -> bool {
        let own = self.deciding(name).filter(|root| root.is_own);
        let device = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|found| found.st_dev).ok();
        own.is_none_or(|root| device(root.folder.as_fd()) == device(fd.as_fd()))
    }

    /// What is granted of an open file that has no name any more, or one that is longer than any.
    pub fn access_of(&self, fd: impl AsFd, was: &Path) -> Option<Access> {
        self.deciding(was).filter(|_| self.has(fd, was)).map(|root| root.access)
    }
}

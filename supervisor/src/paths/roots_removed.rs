//! What may be done with files that have no name any more.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use heliostat_control::policy::Access;
use rustix::fs::OFlags;

use super::super::{removed_path, was_named, without_mark};
use super::Roots;

impl Roots {
    /// Whether a file without a name may be changed: one that was removed from where writing is
    /// granted, or that has no name left and the descriptor is open for writing anyway. A name may
    /// end as that of a removed file does, or be one of several.
    pub fn may_change_removed(&self, fd: &OwnedFd) -> bool {
        let was = removed_path(fd);
        let access = was.as_deref().and_then(|path| self.access_of(fd, path));
        let flags = rustix::fs::fcntl_getfl(fd).unwrap_or(OFlags::PATH);
        let may_write = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        if access == Some(Access::ReadWrite) && !self.may_be_guarded(fd, may_write) {
            return true;
        }
        if was_named(fd) && has_name(fd) {
            return false;
        }
        may_write
    }

    /// Whether a file without a name, of a grant for writing, may be one that is granted for
    /// reading in it. One that is found under another name still may have been reached by any;
    /// not one that the program could open for writing.
    fn may_be_guarded(&self, fd: &OwnedFd, may_write: bool) -> bool {
        if self.guarded.is_empty() {
            return false;
        }
        let decides = |path: PathBuf| self.deciding(&without_mark(&path)).map(|root| root.access);
        let was = removed_path(fd).and_then(decides);
        was.is_some_and(|access| access != Access::ReadWrite)
            || self.guarded.has(fd)
            || (has_name(fd) && !may_write)
    }
}

fn has_name(fd: &OwnedFd) -> bool {
    rustix::fs::fstat(fd).map_or(true, |found| found.st_nlink > 0)
}

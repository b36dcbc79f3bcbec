//! Folders of the program's own at names that lead to others outside: `/tmp`, `/dev/shm`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

const OPEN: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

/// Where granted names are looked up.
#[derive(Debug, Default)]
pub struct View<'a> {
    /// The top of the program's file tree, where it is not this process's.
    pub top: Option<&'a OwnedFd>,
    /// Names of folders that are the program's own.
    pub places: &'a [&'static str],
}

impl View<'_> {
    /// The folder of a root, as the program sees it if that is the same one: the kernel moves no name
    /// from one mount to another, and so not from the program's to this process's. What a single
    /// file in a folder of the program's own lies in is another folder there.
    pub fn as_seen(&self, path: &Path, is_folder: bool, folder: Arc<OwnedFd>) -> Arc<OwnedFd> {
        let opened = if is_folder { Some(path) } else { path.parent() };
        let seen = self.top.zip(opened).and_then(|(top, path)| inside(top, path).ok());
        let status = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|it| (it.st_dev, it.st_ino)).ok();
        seen.filter(|seen| status(seen) == status(&folder)).map_or(folder, Arc::new)
    }
}

/// A directory by its whole name, from another top. No part of it is a link.
pub fn inside(top: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let below = path.strip_prefix("/").unwrap_or(path);
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    Ok(rustix::fs::openat(top, below, OPEN | OFlags::NOFOLLOW, Mode::empty())?)
}

/// A directory of this process's tree.
pub fn outside(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OPEN, Mode::empty())?)
}

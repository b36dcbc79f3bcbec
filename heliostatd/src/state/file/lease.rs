//! The leases that the kernel gave.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use heliostat_abi::name::ObjectId;
use heliostat_backend_lease::holder::{self, Heard};
use heliostat_server_file::LeaseWord;

/// A lease that the kernel gave. However it ends, its word changes first: nobody may write while it
/// says that nobody does.
pub struct KernelLease {
    fd: Option<OwnedFd>,
    word: LeaseWord,
    /// Path of the file, for people.
    pub path: String,
}

impl KernelLease {
    /// Gives it back. Answers the descriptor, since its file's last close may take long.
    fn end(&mut self) -> Option<OwnedFd> {
        self.word.withdraw();
        let fd = self.fd.take();
        fd.iter().for_each(|fd| holder::give_back(fd.as_fd()));
        fd
    }
}

impl Drop for KernelLease {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// The kernel's leases, by the service's names and by descriptor.
#[derive(Default)]
pub struct Leases {
    held: HashMap<ObjectId, KernelLease>,
    by_fd: HashMap<RawFd, ObjectId>,
}

impl Leases {
    /// Keeps one.
    pub fn insert(&mut self, id: ObjectId, fd: OwnedFd, word: LeaseWord, path: String) {
        self.by_fd.insert(fd.as_raw_fd(), id);
        self.held.insert(id, KernelLease { fd: Some(fd), word, path });
    }

    /// One of them.
    pub fn get(&self, id: ObjectId) -> Option<&KernelLease> {
        self.held.get(&id)
    }

    /// Gives one back. Answers its descriptor, see `KernelLease::end`.
    pub fn end(&mut self, id: ObjectId) -> Option<OwnedFd> {
        let fd = self.held.remove(&id)?.end()?;
        self.by_fd.remove(&fd.as_raw_fd());
        Some(fd)
    }

    /// Those of which the kernel says that somebody waits for their end.
    pub fn broken(&self, heard: Heard) -> Vec<ObjectId> {
        let is_broken = |id: &ObjectId| {
            let fd = self.held.get(id).and_then(|lease| lease.fd.as_ref());
            fd.is_some_and(|fd| !holder::is_held(fd.as_fd()))
        };
        match heard {
            Heard::Perhaps(fd) => {
                self.by_fd.get(&fd).copied().filter(is_broken).into_iter().collect()
            }
            Heard::Any => self.held.keys().copied().filter(is_broken).collect(),
        }
    }
}

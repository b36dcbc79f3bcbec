//! Which file systems are known to keep their word about leases, and which of them a file is on.
//!
//! Asked of the list of mounts, by the mount that a descriptor belongs to: the kernel alone answers
//! that, where statfs(2) asks the server of a FUSE file system, which may be the client itself and
//! never answer. A mount that is not in the list (of another mount namespace, detached, or the
//! kernel's own for pipes and memory files) is as unknown as one of an unknown kind; a user may
//! have mounted it, over whatever that user liked.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

/// Local file systems: whoever changes a file passes by the leases of this very kernel.
const KNOWN: [(&str, FileSystemKind); 8] = [
    ("ext2", FileSystemKind::Plain),
    ("ext3", FileSystemKind::Plain),
    ("ext4", FileSystemKind::Plain),
    ("xfs", FileSystemKind::Plain),
    ("btrfs", FileSystemKind::Plain),
    ("tmpfs", FileSystemKind::Memory),
    ("f2fs", FileSystemKind::Plain),
    ("overlay", FileSystemKind::Overlay),
];

/// What is known of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystemKind {
    /// Device and inode name one file.
    Plain,
    /// They do so as well, but a store by a mapping may leave its times as they were: the kernel
    /// does not tell tmpfs of one to a page that was read before.
    Memory,
    /// They do so for files with one link only: the links of a lower file have one number, and
    /// each becomes a file of its own when it is written. A mapping is one of the file beneath,
    /// and keeps no lease from being given once its descriptor is closed.
    Overlay,
}

/// The mounts of the control plane's own namespace that are of a known kind.
pub struct Mounts {
    list: File,
    known: HashMap<u64, FileSystemKind>,
}

impl Mounts {
    /// Reads the list.
    pub fn read() -> io::Result<Mounts> {
        let mut mounts =
            Mounts { list: File::open("/proc/self/mountinfo")?, known: HashMap::new() };
        mounts.refresh()?;
        Ok(mounts)
    }

    /// The kind of the mount that has this number now.
    pub fn kind(&mut self, mount: u64) -> Option<FileSystemKind> {
        if self.has_changed() && self.refresh().is_err() {
            self.known.clear();
        }
        self.known.get(&mount).copied()
    }

    /// The kernel says so once for each change (proc_pid_mountinfo(5)).
    fn has_changed(&self) -> bool {
        let mut list = [PollFd::new(&self.list, PollFlags::PRI)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut list, Some(&now)) != Ok(0)
    }

    fn refresh(&mut self) -> io::Result<()> {
        self.list.seek(SeekFrom::Start(0))?;
        // Paths may be any bytes; the fields looked at are not among them.
        let mut bytes = Vec::new();
        self.list.read_to_end(&mut bytes)?;
        self.known = known_mounts(&String::from_utf8_lossy(&bytes));
        Ok(())
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`: the first field is the mount,
/// the one after the dash its kind.
fn known_mounts(list: &str) -> HashMap<u64, FileSystemKind> {
    let line = |line: &str| {
        let (mount, kind) = line.split_once(" - ")?;
        let kind = kind.split(' ').next()?;
        let number = mount.split(' ').next()?.parse().ok()?;
        KNOWN.iter().find(|(name, _)| *name == kind).map(|(_, kind)| (number, *kind))
    };
    list.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_known_kinds_are_found_by_number() {
        let list = "36 35 98:0 / /a\\040b rw master:1 - ext4 /dev/root rw\n\
                    37 36 0:5 / /b rw - fuse.sshfs ext4 rw\nrubbish\n38 36 0:6 / /c rw - overlay - rw\n";
        assert_eq!(
            known_mounts(list),
            HashMap::from([(36, FileSystemKind::Plain), (38, FileSystemKind::Overlay)])
        );
    }

    #[test]
    fn the_list_of_this_machine_is_read() {
        let mut mounts = Mounts::read().unwrap();
        assert!(mounts.kind(u64::MAX).is_none());
        assert!(!mounts.has_changed());
    }
}

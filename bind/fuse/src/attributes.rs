//! What stat(2) says of a name.

use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use heliostat_names::Facts;
use rustix::process::{getegid, geteuid};

/// What programs read at once: as much as they take.
const PREFERRED_BYTES: u32 = 128 << 10;
/// What a sector is to stat(2).
const SECTOR: u64 = 512;

/// For whom the mount is.
pub(crate) struct Owner {
    user: u32,
    group: u32,
    is_for_all: bool,
}

impl Owner {
    /// This process's user; and all others, who then may read.
    pub(crate) fn new(is_for_all: bool) -> Self {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        Self { user, group, is_for_all }
    }

    /// A folder.
    pub(crate) fn folder(&self, number: u64) -> FileAttr {
        let perm = if self.is_for_all { 0o555 } else { 0o500 };
        let kind = FileType::Directory;
        FileAttr { kind, perm, nlink: 2, ..self.entry(number, self.user, 0, UNIX_EPOCH) }
    }

    /// A file.
    pub(crate) fn file(&self, number: u64, facts: &Facts) -> FileAttr {
        let user = facts.user.unwrap_or(self.user);
        let perm = self.permissions(facts, user == self.user);
        let changed = facts.changed.unwrap_or(UNIX_EPOCH);
        FileAttr { perm, ..self.entry(number, user, facts.bytes, changed) }
    }

    /// What the user who has mounted may, said of the owner where it is that user's, and else of all.
    fn permissions(&self, facts: &Facts, is_own: bool) -> u16 {
        let read = if facts.is_readable { 0o4 } else { 0 };
        let write = if facts.is_writable { 0o2 } else { 0 };
        match (is_own, self.is_for_all) {
            (true, false) => (read | write) << 6,
            (true, true) => ((read | write) << 6) | (read << 3) | read,
            (false, false) => (read | write) * 0o111,
            (false, true) => read * 0o111,
        }
    }

    fn entry(&self, number: u64, user: u32, bytes: u64, changed: SystemTime) -> FileAttr {
        FileAttr {
            ino: INodeNo(number),
            size: bytes,
            blocks: bytes.div_ceil(SECTOR),
            atime: changed,
            mtime: changed,
            ctime: changed,
            crtime: changed,
            kind: FileType::RegularFile,
            perm: 0,
            nlink: 1,
            uid: user,
            gid: self.group,
            rdev: 0,
            blksize: PREFERRED_BYTES,
            flags: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(user: u32, is_for_all: bool, is_writable: bool) -> u16 {
        let owner = Owner { user: 7, group: 7, is_for_all };
        let (key, bytes) = (String::new(), 5);
        let facts = Facts {
            key,
            bytes,
            user: Some(user),
            is_readable: true,
            is_writable,
            changed: None,
            is_constant: false,
        };
        owner.file(2, &facts).perm
    }

    #[test]
    fn permissions_say_what_the_user_who_has_mounted_may() {
        assert_eq!(mode(7, false, true), 0o600);
        assert_eq!(mode(7, false, false), 0o400);
        assert_eq!(mode(8, false, true), 0o666);
        assert_eq!(mode(7, true, true), 0o644);
        assert_eq!(mode(8, true, true), 0o444);
    }
}

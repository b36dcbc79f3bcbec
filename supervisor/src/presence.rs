//! Whether something has a name that a program chose and may not look at.
//!
//! Asked only where the answer is this machine's own: of what the kernel remembers, of the root's
//! file system, and of those that are known to need nobody else. A folder of an automounter would
//! ask other machines for that name, and a file system that has died would not answer.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, CWD};
use rustix::io::Errno;

/// Kinds of file systems that lie on this machine's own devices. Not overlay, which may lie over
/// any other; what is in tmpfs the kernel remembers.
const LOCAL: [&str; 6] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"];

/// Whether something is there; false where that cannot be asked.
pub fn is_there(path: &Path) -> bool {
    match look(CWD, path, ResolveFlags::CACHED) {
        Err(Errno::AGAIN) => {}
        found => return found.is_ok(),
    }
    match look(CWD, path, ResolveFlags::NO_XDEV) {
        Err(Errno::XDEV) => is_on_local_mount(path),
        found => found.is_ok(),
    }
}

fn look(
    folder: impl AsFd,
    path: &Path,
    how: ResolveFlags,
) -> rustix::io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), how)
}

fn is_on_local_mount(path: &Path) -> bool {
    let list = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let Some(point) = local_mount(&list, path) else { return false };
    let Ok(below) = path.strip_prefix(&point) else { return false };
    // Where something is mounted the kernel remembers the way.
    let folder = look(CWD, &point, ResolveFlags::CACHED);
    folder.is_ok_and(|folder| look(folder, below, ResolveFlags::NO_XDEV).is_ok())
}

/// Where the file system is mounted that has a path, if its kind is local: of the longest names the
/// last counts, which covers the others.
fn local_mount(list: &[u8], path: &Path) -> Option<PathBuf> {
    let mounts = list.split(|byte| *byte == b'\n').filter_map(mount);
    let above = mounts.filter(|(point, _)| path.starts_with(point));
    let (point, is_local) = above.max_by_key(|(point, _)| point.as_os_str().len())?;
    is_local.then_some(point)
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw` (proc_pid_mountinfo(5)): where
/// it is mounted, and whether its kind is local.
fn mount(line: &[u8]) -> Option<(PathBuf, bool)> {
    let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| field == b"-")?;
    let kind = fields.get(dash + 1)?;
    let is_local = LOCAL.iter().any(|local| local.as_bytes() == *kind);
    Some((OsString::from_vec(plain(fields.get(4)?)).into(), is_local))
}

/// Spaces and the like stand there as `\040`.
fn plain(field: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::new(), field);
    while let [first, after @ ..] = rest {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_that_has_a_path_is_found_and_asked_only_if_it_is_local() {
        let list = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     22 21 8:2 / /srv rw shared:1 - xfs /dev/sdb rw\n\
                     23 22 0:40 / /srv/far rw - nfs4 there:/ rw\n\
                     24 21 8:3 / /a\\040b rw - btrfs /dev/sdc rw\n\
                     25 21 8:3 / /over rw - ext4 /dev/sdc rw\n\
                     26 25 0:41 / /over rw - fuse.sshfs there: rw\nrubbish\n";
        let found = |path: &str| local_mount(list, Path::new(path));
        assert_eq!(found("/etc/hosts"), Some("/".into()));
        assert_eq!(found("/srv/me/file"), Some("/srv".into()));
        assert_eq!(found("/srvs"), Some("/".into()));
        assert_eq!(found("/a b/file"), Some("/a b".into()));
        assert_eq!((found("/srv/far/file"), found("/over/file")), (None, None));
    }

    #[test]
    fn what_is_there_is_found_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("file"), "x").expect("a file");
        assert!(is_there(&folder.path().join("file")));
        assert!(!is_there(&folder.path().join("none")));
    }
}

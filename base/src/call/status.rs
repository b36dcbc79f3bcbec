//! What the kernel says of an open file, but for its times.
//!
//! The first write after somebody has asked for a file's times gives it new ones, finer than the clock
//! tick, with all that its file system does for a changed inode (multigrain timestamps, Linux 6.13 and
//! later; source: the kernel's Documentation/filesystems/multigrain-ts.rst). fstat(2) always asks for
//! them, statx(2) only where told so. On ext4 an fstat(2) before each flush makes a write and its flush
//! a third dearer, and a statx(2) of the number nothing.

use crate::sys::{check, raw, Errno, Sysno};

/// What one question of a file is answered with.
#[derive(Clone, Copy)]
struct Status {
    device: u64,
    number: u64,
    mode: u32,
    bytes: u64,
}

/// Which file is open there: its device and its number on that.
pub fn identity(fd: i32) -> Option<(u64, u64)> {
    status(fd, libc::STATX_INO).map(|status| (status.device, status.number))
}

/// Its number alone, the kernel's own name of a socket.
pub fn inode(fd: i32) -> Option<u64> {
    identity(fd).map(|(_, number)| number)
}

/// Mode and length of what is open there.
pub fn mode_and_bytes(fd: i32) -> Option<(u32, u64)> {
    let wanted = libc::STATX_TYPE | libc::STATX_MODE | libc::STATX_SIZE;
    status(fd, wanted).map(|status| (status.mode, status.bytes))
}

/// True for an ordinary file.
pub fn is_regular_file(fd: i32) -> bool {
    status(fd, libc::STATX_TYPE).is_some_and(|status| status.mode & libc::S_IFMT == libc::S_IFREG)
}

fn status(fd: i32, wanted: u32) -> Option<Status> {
    if fd < 0 {
        return None; // AT_FDCWD would be a folder.
    }
    match by_statx(fd, wanted) {
        Err(Errno(libc::EBADF)) => None,
        // Before Linux 6.11 it wants a path, and a filter may not know it. Asking for the times costs nothing there.
        other => other.or_else(|_| by_fstat(fd)).ok(),
    }
}

/// statx(2) of the descriptor itself: without a path.
fn by_statx(fd: i32, wanted: u32) -> Result<Status, Errno> {
    // SAFETY: all-zero bytes are a valid `statx`.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let found_at = &mut found as *mut libc::statx;
    call!(statx, fd, 0, libc::AT_EMPTY_PATH, wanted, found_at)?;
    Ok(Status {
        device: libc::makedev(found.stx_dev_major, found.stx_dev_minor),
        number: found.stx_ino,
        mode: u32::from(found.stx_mode),
        bytes: found.stx_size,
    })
}

fn by_fstat(fd: i32) -> Result<Status, Errno> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    call!(fstat, fd, &mut found as *mut libc::stat)?;
    Ok(Status {
        device: found.st_dev,
        number: found.st_ino,
        mode: found.st_mode,
        bytes: found.st_size as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn files_are_as_the_standard_library_has_them() {
        let file = std::fs::File::open("/proc/self/exe").expect("this program");
        let (fd, known) = (file.as_raw_fd(), file.metadata().expect("a file"));
        assert_eq!(identity(fd), Some((known.dev(), known.ino())));
        assert_eq!(inode(fd), Some(known.ino()));
        assert_eq!(mode_and_bytes(fd), Some((known.mode(), known.len())));
        let by_fstat = by_fstat(fd).expect("a file");
        assert_eq!((by_fstat.device, by_fstat.number), (known.dev(), known.ino()));
        assert!(is_regular_file(fd));
    }

    #[test]
    fn what_is_no_file_is_none_and_what_is_not_open_is_nothing() {
        let (end, _other) = std::io::pipe().expect("a pipe");
        assert!(inode(end.as_raw_fd()).is_some() && !is_regular_file(end.as_raw_fd()));
        assert_eq!(
            (identity(-1), identity(libc::AT_FDCWD), mode_and_bytes(-1)),
            (None, None, None)
        );
        assert!(!is_regular_file(-1));
    }
}

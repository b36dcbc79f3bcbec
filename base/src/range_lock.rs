//! Locks on ranges of a file that belong to an open file, not to a process (fcntl(2), F_OFD_SETLK).
//!
//! The kernel lets go of such a lock when the last descriptor of the open file is closed, in whichever
//! process that is. So a lock that is made before a descriptor is handed over says for how long somebody
//! still has it.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::call::fcntl;
use crate::sys::Errno;

/// Locks so many bytes from `offset` on against writers' locks, for everybody who has this open file.
///
/// # Errors
/// The descriptor is not open for reading, or somebody has a writer's lock there.
pub fn lock_for_reading(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<(), Errno> {
    let mut wanted = range(libc::F_RDLCK, offset, bytes)?;
    let asked = fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut wanted as usize);
    asked.map(|_| ())
}

/// Whether another open file has a lock on some of these bytes.
///
/// # Errors
/// The kernel does not tell.
pub fn is_locked(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<bool, Errno> {
    let mut wanted = range(libc::F_WRLCK, offset, bytes)?;
    fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut wanted as usize)?;
    Ok(wanted.l_type != libc::F_UNLCK as i16)
}

/// No bytes would mean all from the offset on.
fn range(kind: i32, offset: u64, bytes: u64) -> Result<libc::flock, Errno> {
    let bytes = i64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
    let (Ok(l_start), Some(l_len)) = (i64::try_from(offset), bytes) else {
        return Err(Errno(libc::EINVAL));
    };
    Ok(libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start,
        l_len,
        l_pid: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_lock_lasts_as_long_as_its_open_file_and_covers_its_range_only() {
        let path = std::env::temp_dir().join(format!("range-lock-{}", std::process::id()));
        let own = File::create_new(&path).unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let (first, second) = (open(), open());
        lock_for_reading(first.as_fd(), 4096, 4096).unwrap();
        lock_for_reading(second.as_fd(), 4096, 4096).unwrap();
        let is_locked = |offset, bytes| is_locked(own.as_fd(), offset, bytes).unwrap();
        assert!(is_locked(0, 8192) && is_locked(8191, 1));
        assert!(!is_locked(0, 4096) && !is_locked(8192, 4096));
        drop(first);
        let copy = second.try_clone().unwrap();
        drop(second);
        assert!(is_locked(4096, 1));
        drop(copy);
        assert!(!is_locked(4096, 1));
        assert_eq!(lock_for_reading(own.as_fd(), 0, 0), Err(Errno(libc::EINVAL)));
        std::fs::remove_file(path).unwrap();
    }
}

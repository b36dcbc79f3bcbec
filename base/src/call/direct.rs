//! Files that are read past every cache, opened beneath a program's own libc.

use std::ffi::{CStr, CString};

use super::fcntl;
use crate::fd::OwnedFd;
use crate::sys::{check, raw, Errno, Sysno};

/// Opens a file for reading past every cache (O_DIRECT). Waits for no lease and for no FIFO.
pub fn open_direct(name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = libc::O_RDONLY | libc::O_DIRECT | libc::O_NONBLOCK | libc::O_NOCTTY;
    let fd = call!(openat, libc::AT_FDCWD, name.as_ptr(), flags | libc::O_CLOEXEC, 0)?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::adopt(fd as i32) })
}

/// Opens once more, as `open_direct`, what a descriptor that can be read has open.
pub fn reopen_direct(fd: i32) -> Result<OwnedFd, Errno> {
    if fcntl(fd, libc::F_GETFL, 0)? as i32 & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(Errno(libc::EBADF));
    }
    let name = CString::new(format!("/proc/self/fd/{fd}")).map_err(|_| Errno(libc::EINVAL))?;
    open_direct(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::identity;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_can_be_read_is_opened_once_more_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("heliostat-direct-{}", std::process::id()));
        std::fs::write(&path, [7; 4096]).expect("a folder for files");
        let file = std::fs::File::open(&path).expect("opened");
        let writer = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
        let _ = std::fs::remove_file(&path);
        // Where the file system has no way past its cache, as some overlays, it says so.
        match reopen_direct(file.as_raw_fd()) {
            Ok(again) => {
                assert_eq!(identity(again.as_raw_fd()), identity(file.as_raw_fd()));
                let flags = fcntl(again.as_raw_fd(), libc::F_GETFL, 0).expect("open") as i32;
                assert_eq!(flags & (libc::O_ACCMODE | libc::O_DIRECT), libc::O_DIRECT);
            }
            Err(errno) => assert_eq!(errno, Errno(libc::EINVAL)),
        }
        assert_eq!(reopen_direct(writer.as_raw_fd()).err(), Some(Errno(libc::EBADF)));
        assert_eq!(reopen_direct(-1).err(), Some(Errno(libc::EBADF)));
    }
}

//! Flushing a file to its device; by what name it was opened, where it stands, what holds it.

use std::ffi::CStr;

use super::{fcntl, Answer};
use crate::fd::OwnedFd;
use crate::sys::{check, raw, Errno, Sysno};

/// fdatasync(2) where `is_data`, fsync(2) otherwise.
pub fn flush(fd: i32, is_data: bool) -> Answer {
    match is_data {
        true => call!(fdatasync, fd),
        false => call!(fsync, fd),
    }
}

/// The path of an open file as the kernel has it now, in `room`; `None` where that is too short, or
/// nobody tells.
pub fn path_of(fd: i32, room: &mut [u8]) -> Option<&[u8]> {
    let mut link = [0u8; 32];
    let name = proc_name(fd, &mut link)?;
    let length = call!(readlink, name.as_ptr(), room.as_mut_ptr(), room.len()).ok()?;
    room.get(..length).filter(|path| path.len() < room.len())
}

/// Where /proc shows a descriptor.
fn proc_name(fd: i32, room: &mut [u8; 32]) -> Option<&CStr> {
    let mut digits = [0u8; 10];
    let mut left = u32::try_from(fd).ok()?;
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    const FOLDER: &[u8] = b"/proc/self/fd/";
    let end = FOLDER.len() + digits.len() - first;
    room.fill(0);
    room[..FOLDER.len()].copy_from_slice(FOLDER);
    room[FOLDER.len()..end].copy_from_slice(&digits[first..]);
    CStr::from_bytes_until_nul(room).ok()
}

/// What tells one file from another, also after its name was given to another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Birth {
    /// Of the file system.
    pub device: u64,
    /// Its number there, which another file may get later.
    pub inode: u64,
    /// When it was made: seconds, and nanoseconds; zero where the file system does not tell.
    pub born: (i64, u32),
}

/// What is open there, and how long it is.
pub fn birth(fd: i32) -> Option<(Birth, u64)> {
    // SAFETY: all-zero bytes are a valid `statx`.
    let mut told: libc::statx = unsafe { std::mem::zeroed() };
    // Not the times of its changes: who asks for them makes the next write dearer (`status`).
    let wanted = libc::STATX_INO | libc::STATX_SIZE | libc::STATX_BTIME;
    let nothing = c"".as_ptr();
    call!(statx, fd, nothing, libc::AT_EMPTY_PATH, wanted, &mut told as *mut libc::statx).ok()?;
    let device = libc::makedev(told.stx_dev_major, told.stx_dev_minor);
    let born = match told.stx_mask & libc::STATX_BTIME {
        0 => (0, 0),
        _ => (told.stx_btime.tv_sec, told.stx_btime.tv_nsec),
    };
    Some((Birth { device, inode: told.stx_ino, born }, told.stx_size))
}

/// Opens once more, for reading, what `fd` has open; beyond the numbers that programs count on.
pub fn reopen_for_reading(fd: i32) -> Result<OwnedFd, Errno> {
    const LOWEST: usize = 900;
    let mut name = [0u8; 32];
    let path = proc_name(fd, &mut name).ok_or(Errno(libc::EBADF))?;
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let low = call!(openat, libc::AT_FDCWD, path.as_ptr(), flags, 0)? as i32;
    // SAFETY: the kernel has just opened it for us.
    let low = unsafe { OwnedFd::adopt(low) };
    let high = fcntl(std::os::fd::AsRawFd::as_raw_fd(&low), libc::F_DUPFD_CLOEXEC, LOWEST);
    // SAFETY: fcntl(2) has just made this one for us, too.
    Ok(high.map_or(low, |high| unsafe { OwnedFd::adopt(high as i32) }))
}

/// Makes durable which names the folder of a path has.
pub fn flush_folder(path: &CStr) -> Answer {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY;
    let fd = call!(openat, libc::AT_FDCWD, path.as_ptr(), flags, 0)? as i32;
    // SAFETY: the kernel has just opened it for us.
    let folder = unsafe { OwnedFd::adopt(fd) };
    flush(std::os::fd::AsRawFd::as_raw_fd(&folder), false)
}

/// Where the next read or write of an open file begins; `None` for what has no such place.
pub fn offset(fd: i32) -> Option<u64> {
    call!(lseek, fd, 0, libc::SEEK_CUR).ok().map(|at| at as u64)
}

/// The number of the kind of file system that an open file is on (source: linux/magic.h).
pub fn file_system(fd: i32) -> Option<u64> {
    // SAFETY: all-zero bytes are a valid `statfs`.
    let mut told: libc::statfs = unsafe { std::mem::zeroed() };
    call!(fstatfs, fd, &mut told as *mut libc::statfs).ok()?;
    Some(told.f_type as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_file_is_told_from_its_successor_and_read_by_another_descriptor() {
        use std::io::Write;
        let folder = std::env::temp_dir();
        let path = folder.join(format!("heliostat-birth-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).expect("made");
        file.write_all(b"seven b").expect("written");
        let (one, bytes) = birth(file.as_raw_fd()).expect("told");
        assert_eq!(
            (bytes, Some((one.device, one.inode))),
            (7, super::super::identity(file.as_raw_fd()))
        );
        let again = reopen_for_reading(file.as_raw_fd()).expect("opened");
        assert_eq!(birth(again.as_raw_fd()), Some((one, 7)));
        let other = std::fs::File::open(&folder).expect("opened");
        assert_ne!(birth(other.as_raw_fd()).map(|(birth, _)| birth), Some(one));
        assert!(birth(-1).is_none() && reopen_for_reading(-1).is_err());
        assert!(flush_folder(c"/dev").is_ok() || flush_folder(c"/tmp").is_ok());
        assert_eq!(flush_folder(c"/dev/null").err(), Some(Errno(libc::ENOTDIR)));
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn an_open_file_has_its_path_and_a_wrong_number_none() {
        let file = std::fs::File::open("/proc/self/status").expect("opened");
        let mut room = [0u8; 256];
        let path = path_of(file.as_raw_fd(), &mut room).expect("told");
        assert!(path.starts_with(b"/proc/") && path.ends_with(b"/status"));
        assert_eq!(path_of(file.as_raw_fd(), &mut [0u8; 4]), None);
        assert_eq!(path_of(-1, &mut room), None);
        assert!(flush(-1, true).is_err());
    }

    #[test]
    fn an_open_file_has_an_offset_and_a_file_system() {
        const PROC: u64 = 0x9fa0;
        let mut file = std::fs::File::open("/proc/self/status").expect("opened");
        std::io::Read::read_exact(&mut file, &mut [0; 4]).expect("read");
        let fd = file.as_raw_fd();
        assert_eq!((offset(fd), file_system(fd)), (Some(4), Some(PROC)));
        assert_eq!((offset(-1), file_system(-1)), (None, None));
    }
}

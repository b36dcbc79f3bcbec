//! Flushing a file to its device; by what name it was opened, where it stands, what holds it.

use super::Answer;
use crate::sys::{check, raw, Sysno};

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
    link[..FOLDER.len()].copy_from_slice(FOLDER);
    link[FOLDER.len()..FOLDER.len() + digits.len() - first].copy_from_slice(&digits[first..]);
    let length = call!(readlink, link.as_ptr(), room.as_mut_ptr(), room.len()).ok()?;
    room.get(..length).filter(|path| path.len() < room.len())
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

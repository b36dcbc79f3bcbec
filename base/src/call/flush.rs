//! Flushing a file to its device, and by what name it was opened.

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
}

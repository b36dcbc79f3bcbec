//! Reads a directory's entries and packs them as they go into the window.
//!
//! A directory's descriptor has one position, which is set and read from under a lock of its own, so
//! that Readdirs of one session, and one that was cancelled, do not lead each other astray.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use heliostat_abi::file::delegated::{DirectoryEntry, ENTRIES_BYTES_MAX};
use rustix::fs::{seek, FileType, RawDir, SeekFrom};
use rustix::io::Errno;

/// Bytes that the kernel is asked for at a time.
const BUFFER_BYTES: usize = 16 * 1024;

/// Entries that come after a cookie, of so many bytes at most; none at the directory's end.
///
/// # Errors
/// What lseek(2) and getdents(2) say, EINVAL for a cookie that the file system never gave.
pub fn read(
    directory: &OwnedFd,
    reading: &Mutex<()>,
    cookie: u64,
    bytes: usize,
) -> Result<Vec<u8>, Errno> {
    let _alone = reading.lock().unwrap_or_else(PoisonError::into_inner);
    seek(directory, SeekFrom::Start(cookie))?;
    let limit = bytes.min(ENTRIES_BYTES_MAX);
    let (mut packed, mut buffer) = (Vec::new(), Vec::<u8>::with_capacity(BUFFER_BYTES));
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            // Told when it is asked for what comes after these.
            Err(_) if !packed.is_empty() => break,
            Err(errno) => return Err(errno),
        };
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let (inode, cookie) = (entry.ino(), entry.next_entry_cookie());
        let entry = DirectoryEntry { inode, cookie, kind: number_of(entry.file_type()), name };
        if !entry.pack(&mut packed, limit) {
            break;
        }
    }
    Ok(packed)
}

/// The type as d_type of readdir(3) has it.
fn number_of(kind: FileType) -> u8 {
    match kind {
        FileType::Fifo => libc::DT_FIFO,
        FileType::CharacterDevice => libc::DT_CHR,
        FileType::Directory => libc::DT_DIR,
        FileType::BlockDevice => libc::DT_BLK,
        FileType::RegularFile => libc::DT_REG,
        FileType::Symlink => libc::DT_LNK,
        FileType::Socket => libc::DT_SOCK,
        FileType::Unknown => libc::DT_UNKNOWN,
    }
}

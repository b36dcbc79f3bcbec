//! Reads a file that is not kept open: open, judge, read and close in one go.
//!
//! What a small file costs is the way to it and back, three times, and a lease that nobody needs once
//! it is closed. Here it is one way; the bytes come from the kernel's cache, and go into the window as
//! a directory's entries do.

use std::os::fd::{AsFd, OwnedFd};

use heliostat_abi::file::delegated::{FETCH_BYTES_MAX, READ};
use heliostat_abi::right::Right;
use rustix::fs::FileType;
use rustix::io::{pread, Errno};

use super::super::task::Refusal;
use super::judge::Judge;
use super::named::open_below;

/// Bytes of a file from an offset on: so many at most, and fewer at its end only. The caller is the
/// program's user, and `root` its root folder.
///
/// # Errors
/// What open(2) and pread(2) say, EINVAL of what has no bytes, EOPNOTSUPP of what is on a mount that
/// the control plane does not know; a denial.
pub fn fetch(
    root: &OwnedFd,
    name: &[u8],
    (offset, bytes): (u64, usize),
    judge: &dyn Judge,
) -> Result<Vec<u8>, Refusal> {
    let file = open_below(root, name, READ)?;
    let (path, status) = judge.locate(file.as_fd())?;
    judge.check(Right::Read, &path, status.st_uid)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR.into()),
        _ => return Err(Errno::INVAL.into()),
    }
    let there = (status.st_size.max(0) as u64).saturating_sub(offset);
    let limit = bytes.min(FETCH_BYTES_MAX) as u64;
    let mut read = vec![0; there.min(limit) as usize];
    let mut done = 0;
    while done < read.len() {
        match pread(&file, &mut read[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    read.truncate(done);
    Ok(read)
}

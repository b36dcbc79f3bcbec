//! Opens that change something: a file is made, or loses its bytes.
//!
//! ```text
//! look, by the path only --there--> rules --> open it, emptied if that is wanted
//!    ^  | not there
//!    |  v
//!    |  rules, for the name and its directory --> make it; it must not be there
//!    +---- it is there by now --------------------'
//! ```
//!
//! What is opened is what the rules were asked about: it is held by its path meanwhile. Nothing is
//! made or emptied before they have allowed it. Device nodes and pipes are not opened at all.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use heliostat_abi::file::delegated::{mode_of, CREATE, EXCLUSIVE, READ, TRUNCATE, WRITE};
use heliostat_abi::right::Right;
use rustix::fs::{open as open_path, openat, openat2, statat, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::super::task::Refusal;
use super::judge::{within, Judge};
use super::named::access_of;

/// Times that somebody else may make or remove the file between two looks.
const RACES_MAX: usize = 8;

/// Opens a name as Open's argument says, which has `CREATE` or `TRUNCATE` or both. The caller is the
/// program's user, and `root` its root folder. A file that was made stays, whatever comes after.
///
/// # Errors
/// What open(2) says, and EAGAIN when the file comes and goes all the time; a denial.
pub fn open(
    root: &OwnedFd,
    name: &[u8],
    argument: u64,
    judge: &dyn Judge,
) -> Result<OwnedFd, Refusal> {
    for _ in 0..RACES_MAX {
        match openat2(root, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), within()) {
            // That it is there is told to who may make it.
            Ok(_) if argument & EXCLUSIVE != 0 => {
                judge.check_change(&judge.place(root, name)?, None)?;
                return Err(Errno::EXIST.into());
            }
            Ok(found) => return open_found(&found, argument, judge),
            Err(Errno::NOENT) if argument & CREATE != 0 => {}
            Err(errno) => return Err(errno.into()),
        }
        match make(root, name, argument, judge) {
            Err(Refusal::Errno(Errno::EXIST)) if argument & EXCLUSIVE == 0 => {}
            made => return made,
        }
    }
    Err(Errno::AGAIN.into())
}

fn open_found(found: &OwnedFd, argument: u64, judge: &dyn Judge) -> Result<OwnedFd, Refusal> {
    let (path, status) = judge.locate(found.as_fd())?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR.into()),
        _ => return Err(Errno::INVAL.into()),
    }
    check_access(&path, status.st_uid, argument, judge)?;
    let empties = if argument & TRUNCATE != 0 { OFlags::TRUNC } else { OFlags::empty() };
    let flags = access_of(argument) | empties;
    // By its path only it cannot be read; this opens what is there, and not another by its name.
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(open_path(path, flags | OFlags::CLOEXEC, Mode::empty())?)
}

fn make(root: &OwnedFd, name: &[u8], argument: u64, judge: &dyn Judge) -> Result<OwnedFd, Refusal> {
    let place = judge.place(root, name)?;
    judge.check_change(&place, None)?;
    check_access(&place.path(), judge.uid(), argument, judge)?;
    let flags = access_of(argument) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let mode = Mode::from_raw_mode(mode_of(argument));
    match openat(&place.directory, place.last, flags | OFlags::CLOEXEC, mode) {
        // A link that leads nowhere is not made to lead somewhere.
        Err(Errno::EXIST) if argument & EXCLUSIVE == 0 => {
            let status = statat(&place.directory, place.last, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_link = FileType::from_raw_mode(status.st_mode) == FileType::Symlink;
            Err(if is_link { Errno::LOOP } else { Errno::EXIST }.into())
        }
        made => Ok(made?),
    }
}

fn check_access(path: &str, owner: u32, argument: u64, judge: &dyn Judge) -> Result<(), Refusal> {
    let rights = [(READ, Right::Read), (WRITE, Right::Write)];
    let mut wanted = rights.into_iter().filter(|(bit, _)| argument & bit != 0);
    wanted.try_for_each(|(_, right)| judge.check(right, path, owner))
}

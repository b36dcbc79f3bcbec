//! Changes of names: each is resolved, judged and made as the program's user, in one go.
//!
//! The directory that a name stands in is held while the rules are asked and the change is made, so
//! that the change happens where they were asked about. Of a name itself the last part is never
//! followed: a symbolic link is renamed or removed, and not what it leads to.

use std::os::fd::OwnedFd;

use heliostat_abi::right::Right;
use rustix::fs::{
    mkdirat, readlinkat, renameat_with, statat, symlinkat, unlinkat, AtFlags, FileType, Mode,
    RenameFlags, Stat,
};
use rustix::io::Errno;

use super::super::task::{Change, Refusal};
use super::judge::{Judge, Place};

/// Makes a change. The caller is the program's user, and `root` its root folder. What is made gets none
/// of the permissions that are `withheld`.
///
/// # Errors
/// What the kernel says of the same change, or a denial; nothing has changed then.
pub fn change(
    root: &OwnedFd,
    change: &Change,
    withheld: u32,
    judge: &dyn Judge,
) -> Result<(), Refusal> {
    match change {
        Change::Mkdir(name, mode) => {
            let place = judge.place(root, name)?;
            judge.check_change(&place, None)?;
            mkdirat(&place.directory, place.last, Mode::from_raw_mode(*mode & !withheld))?;
        }
        Change::Rmdir(name) => remove(root, name, AtFlags::REMOVEDIR, judge)?,
        Change::Unlink(name) => remove(root, name, AtFlags::empty(), judge)?,
        Change::Rename { from, to, replaces } => rename(root, (from, to), *replaces, judge)?,
        Change::Symlink { target, name } => {
            let place = judge.place(root, name)?;
            judge.check_change(&place, None)?;
            symlinkat(&target[..], &place.directory, place.last)?;
        }
    }
    Ok(())
}

/// Where a symbolic link leads, as it says itself.
///
/// # Errors
/// EINVAL when it is none; as `change`.
pub fn readlink(root: &OwnedFd, name: &[u8], judge: &dyn Judge) -> Result<Vec<u8>, Refusal> {
    let place = judge.place(root, name)?;
    let status = look(&place)?;
    judge.check(Right::Read, &place.path(), status.st_uid)?;
    Ok(readlinkat(&place.directory, place.last, Vec::new())?.into_bytes())
}

fn remove(root: &OwnedFd, name: &[u8], flags: AtFlags, judge: &dyn Judge) -> Result<(), Refusal> {
    let place = judge.place(root, name)?;
    judge.check_change(&place, Some(&look(&place)?))?;
    Ok(unlinkat(&place.directory, place.last, flags)?)
}

fn rename(
    root: &OwnedFd,
    (from, to): (&[u8], &[u8]),
    replaces: bool,
    judge: &dyn Judge,
) -> Result<(), Refusal> {
    let from = judge.place(root, from)?;
    let to = judge.place(root, to)?;
    let moved = look(&from)?;
    judge.check_change(&from, Some(&moved))?;
    // Or what may not be read by this name could get one by which it may.
    judge.check(Right::Read, &from.path(), moved.st_uid)?;
    let replaced = match look(&to) {
        Ok(status) => Some(status),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(errno.into()),
    };
    judge.check_change(&to, replaced.as_ref())?;
    if FileType::from_raw_mode(moved.st_mode) == FileType::Directory {
        judge.check_beneath(&from, moved.st_uid)?;
        judge.check_beneath(&to, moved.st_uid)?;
    }
    let flags = if replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    Ok(renameat_with(&from.directory, from.last, &to.directory, to.last, flags)?)
}

/// What has the name now.
fn look(place: &Place<'_>) -> Result<Stat, Errno> {
    statat(&place.directory, place.last, AtFlags::SYMLINK_NOFOLLOW)
}

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
    // As if it were the program's own: what a rule refuses is refused whether it is there or not.
    judge.check(Right::Read, &place.path(), judge.uid())?;
    let status = look(&place)?;
    judge.check(Right::Read, &place.path(), status.st_uid)?;
    Ok(readlinkat(&place.directory, place.last, Vec::new())?.into_bytes())
}

fn remove(root: &OwnedFd, name: &[u8], flags: AtFlags, judge: &dyn Judge) -> Result<(), Refusal> {
    let place = judge.place(root, name)?;
    judge.check_change(&place, None)?;
    judge.check_change(&place, Some(&look(&place)?))?;
    Ok(unlinkat(&place.directory, place.last, flags)?)
}

fn rename(
    root: &OwnedFd,
    (from, to): (&[u8], &[u8]),
    replaces: bool,
    judge: &dyn Judge,
) -> Result<(), Refusal> {
    let (from, to) = (judge.place(root, from)?, judge.place(root, to)?);
    [&from, &to].into_iter().try_for_each(|place| judge.check_change(place, None))?;
    let (moved, replaced) = (look(&from)?, look_for(&to)?);
    check_rename(judge, (&from, &to), &moved, replaced.as_ref())?;
    // Judged was what had the names then. Where something else has one by now all is asked again.
    let is_judged = which(Some(&look(&from)?)) == which(Some(&moved))
        && which(look_for(&to)?.as_ref()) == which(replaced.as_ref());
    if !is_judged {
        return Err(Errno::AGAIN.into());
    }
    let flags = if replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    Ok(renameat_with(&from.directory, from.last, &to.directory, to.last, flags)?)
}

/// Whether what has one name may get the other, instead of what has that.
fn check_rename(
    judge: &dyn Judge,
    (from, to): (&Place<'_>, &Place<'_>),
    moved: &Stat,
    replaced: Option<&Stat>,
) -> Result<(), Refusal> {
    judge.check_change(from, Some(moved))?;
    // Or what may not be read by this name could get one by which it may.
    judge.check(Right::Read, &from.path(), moved.st_uid)?;
    judge.check_change(to, replaced)?;
    // Whatever it is: a directory may have got the name by the time that it is renamed.
    judge.check_no_rule_beneath(from)?;
    judge.check_no_rule_beneath(to)?;
    if FileType::from_raw_mode(moved.st_mode) == FileType::Directory {
        judge.check_whole(from, moved.st_uid)?;
        judge.check_whole(to, moved.st_uid)?;
    }
    Ok(())
}

/// What has the name now.
fn look(place: &Place<'_>) -> Result<Stat, Errno> {
    statat(&place.directory, place.last, AtFlags::SYMLINK_NOFOLLOW)
}

/// The same, if there is something.
fn look_for(place: &Place<'_>) -> Result<Option<Stat>, Errno> {
    match look(place) {
        Err(Errno::NOENT) => Ok(None),
        found => found.map(Some),
    }
}

/// What of something counts when it is judged.
fn which(found: Option<&Stat>) -> Option<(u64, u64, FileType, u32)> {
    let of = |it: &Stat| (it.st_dev, it.st_ino, FileType::from_raw_mode(it.st_mode), it.st_uid);
    found.map(of)
}

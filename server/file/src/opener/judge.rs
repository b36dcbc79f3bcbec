//! Asks the rules about names before anything is changed, by the paths that the control plane sees.
//!
//! A change is judged twice: for the name itself, and for the directory that it stands in. A
//! directory's own name ends in a slash here, so that `/file/srv/data/*` is about `/srv/data/` as
//! about what lies in it. Rules only narrow what the kernel lets the program's user do.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use heliostat_abi::file::delegated::NAME_BYTES_MAX;
use heliostat_abi::right::Right;
use rustix::fs::{openat2, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::super::task::{Denial, Refusal};

/// The control plane's word on names, for one program.
pub trait Judge: Send {
    /// The program's user.
    fn uid(&self) -> u32;

    /// Where something lies that was opened, perhaps by its path only, and what fstat(2) says of it.
    ///
    /// # Errors
    /// EINVAL for what has no path, EOPNOTSUPP for what is on a mount that the control plane does
    /// not know.
    fn locate(&self, found: BorrowedFd<'_>) -> Result<(String, Stat), Errno>;

    /// Whether the program has a right on a path. Without a rule a user has it on its own user's
    /// files, and root on all.
    ///
    /// # Errors
    /// It has not; the place of the rule that says so.
    fn decide(&self, right: Right, path: &str, owner: u32) -> Result<(), Option<usize>>;

    /// The place of the first rule that is about something beneath a directory, by its path without
    /// an ending slash.
    fn first_below(&self, directory: &str) -> Option<usize>;
}

/// A name in the directory that it stands in, whether there is something by it or not.
pub struct Place<'a> {
    /// The directory, by its path only.
    pub directory: OwnedFd,
    /// The name in it: no `/`, and neither `.` nor `..`.
    pub last: &'a [u8],
    /// The directory's path, with a slash at its end.
    directory_path: String,
    directory_owner: u32,
}

impl Place<'_> {
    /// The whole path; foreign bytes.
    pub fn path(&self) -> String {
        format!("{}{}", self.directory_path, String::from_utf8_lossy(self.last))
    }
}

/// How names are resolved: in the program's root, and never by a link that jumps, which would lead
/// to what this very process has open (/proc/self/fd/3).
pub fn within() -> ResolveFlags {
    ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS
}

impl dyn Judge + '_ {
    /// Finds the directory that a name stands in.
    ///
    /// # Errors
    /// EINVAL for a name that is not absolute or ends in a slash, `.` or `..`; ENAMETOOLONG for one
    /// of 4096 bytes and more; EOPNOTSUPP for a directory on a mount that the control plane does not
    /// know; else what open(2) says of it.
    pub fn place<'n>(&self, root: &OwnedFd, name: &'n [u8]) -> Result<Place<'n>, Refusal> {
        let (path, last) = split(name)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat2(root, path, flags, Mode::empty(), within())?;
        let (directory_path, status) = self.locate(directory.as_fd())?;
        let directory_path = with_slash(directory_path);
        Ok(Place { directory, last, directory_path, directory_owner: status.st_uid })
    }

    /// Whether a name in a directory may be made, removed or given to something else: of what has
    /// it already the owner counts, and what gets it is the program's own. Asked without what is there
    /// first: who may not change the directory is not told what is in it.
    pub fn check_change(&self, place: &Place<'_>, found: Option<&Stat>) -> Result<(), Refusal> {
        self.check(Right::Write, &place.directory_path, place.directory_owner)?;
        let owner = found.map_or(self.uid(), |status| status.st_uid);
        self.check(Right::Write, &place.path(), owner)
    }

    /// As [`Judge::decide`], with all that is told of a denial.
    pub fn check(&self, right: Right, path: &str, owner: u32) -> Result<(), Refusal> {
        self.decide(right, path, owner).map_err(|rule| denied(right, path, rule))
    }

    /// Whether no rule is about something beneath a name, which would be judged otherwise once the
    /// name is another's.
    pub fn check_no_rule_beneath(&self, place: &Place<'_>) -> Result<(), Refusal> {
        let path = place.path();
        let first = self.first_below(&path);
        first.map_or(Ok(()), |rule| Err(denied(Right::Write, &path, Some(rule))))
    }

    /// Whether a whole directory of this owner may get or lose this path: only who has both rights
    /// on all that lies in it.
    pub fn check_whole(&self, place: &Place<'_>, owner: u32) -> Result<(), Refusal> {
        let whole = with_slash(place.path());
        self.check(Right::Read, &whole, owner)?;
        self.check(Right::Write, &whole, owner)
    }
}

fn denied(right: Right, path: &str, rule: Option<usize>) -> Refusal {
    Refusal::Denied(Denial { right, path: path.to_owned(), rule })
}

/// The directory's part of a name, with its slash, and the last part. The kernel sees only the parts,
/// and would not say that the whole is too long.
fn split(name: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    if name.len() >= NAME_BYTES_MAX as usize {
        return Err(Errno::NAMETOOLONG);
    }
    let slash = name.iter().rposition(|byte| *byte == b'/').ok_or(Errno::INVAL)?;
    let (directory, last) = name.split_at(slash + 1);
    let is_plain = name.starts_with(b"/") && !matches!(last, b"" | b"." | b"..");
    is_plain.then_some((directory, last)).ok_or(Errno::INVAL)
}

/// A directory's path as rules know it.
pub fn with_slash(path: String) -> String {
    if path.ends_with('/') {
        path
    } else {
        path + "/"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_at_its_last_slash_and_ends_in_a_name() {
        assert_eq!(split(b"/a"), Ok((&b"/"[..], &b"a"[..])));
        assert_eq!(split(b"/a/../b"), Ok((&b"/a/../"[..], &b"b"[..])));
        for wrong in [&b""[..], b"a", b"a/b", b"/", b"/a/", b"/a/.", b"/a/.."] {
            assert_eq!(split(wrong), Err(Errno::INVAL), "{wrong:?}");
        }
    }
}

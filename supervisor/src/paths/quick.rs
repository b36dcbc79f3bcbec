//! The short way: one openat2(2) from a granted directory, for paths that stay below it.
//!
//! Most do. What does not (an absolute symbolic link, `..` out of the grant, grants of other
//! access below, another file system, /proc) answers `None` and is walked component by component.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::proc::is_proc;
use super::{errno, Found, Object, Root, Roots, Start, PATH_MAX};

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// Opens `path` with these flags if that can be decided at once.
///
/// # Errors
/// Those of openat2(2) for what lies below the grant.
pub fn open(
    roots: &Roots,
    start: Option<&Start>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Option<Result<OwnedFd, Errno>> {
    let writes = writes(flags);
    if path.starts_with(b"/") {
        if let Some((root, name)) = roots.file(path) {
            return granted_file(root, name, flags, mode);
        }
        let (folder, root, length) = roots.leading(path)?;
        if writes && root.is_none_or(|root| root.access != Access::ReadWrite || root.is_mixed) {
            return None;
        }
        return below(root, folder, rest(&path[length..])?, flags, mode);
    }
    let start = start?;
    let root = roots.deciding(start.path.as_deref()?)?;
    if !root.is_folder || (writes && (root.access != Access::ReadWrite || root.is_mixed)) {
        return None;
    }
    below(Some(root), &start.fd, rest(path)?, flags, mode)
}

/// Below a grant. An instance of /proc may be mounted there, in which `self` would be this
/// process: of another file system it is only asked at once below `/`, where all are others.
fn below(
    root: Option<&Root>,
    folder: &OwnedFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Option<Result<OwnedFd, Errno>> {
    if root.is_none_or(|root| root.path.as_os_str() != "/") {
        return beneath(folder, path, flags, mode);
    }
    let flags = flags | OFlags::CLOEXEC;
    match decided(rustix::fs::openat2(folder, path, flags, mode, BENEATH))? {
        Ok(fd) if is_proc(&fd) => None,
        other => Some(other),
    }
}

/// A file that is granted by itself. A symbolic link that has taken its place is walked.
fn granted_file(
    root: &Root,
    name: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Option<Result<OwnedFd, Errno>> {
    if writes(flags) && root.access != Access::ReadWrite {
        return None;
    }
    let flags = flags | OFlags::CLOEXEC;
    let strict = BENEATH | ResolveFlags::NO_SYMLINKS;
    decided(rustix::fs::openat2(&root.folder, name, flags, mode, strict))
}

/// The directory that holds the last component of `path`, and that component as it is.
///
/// Only below a grant that no other lies in: then one access holds for all of it, and no name
/// that is found is, or holds, the root of a grant.
///
/// # Errors
/// Those of openat2(2) for the directory.
pub fn parent(roots: &Roots, start: Option<&Start>, path: &[u8]) -> Option<Result<Found, Errno>> {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (folder, name) = path.split_at(end);
    if matches!(name, b"" | b"." | b"..") {
        return None;
    }
    let (base, root, folder) = if path.starts_with(b"/") {
        let (base, root, length) = roots.leading(path)?;
        // The root itself is not below it.
        (base, root?, folder.get(length..)?)
    } else {
        let start = start?;
        (&start.fd, roots.deciding(start.path.as_deref()?)?, folder)
    };
    if !root.is_folder || root.has_inner {
        return None;
    }
    let opened = match rest(folder) {
        None => base.try_clone().map_err(|_| Errno(libc::ENFILE)),
        Some(folder) => beneath(base, folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?,
    };
    let end = CString::new(name).map_err(|_| Errno(libc::EINVAL));
    let path = root.path.join(OsStr::from_bytes(name));
    Some(opened.and_then(|folder| {
        Ok(Found { folder, name: end?, path, access: Some(root.access), object: Object::Plain })
    }))
}

/// Whether an open with these flags can change anything but access times.
pub fn writes(flags: OFlags) -> bool {
    let changing = OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
    !flags.contains(OFlags::PATH) && (flags.intersects(changing) || flags.contains(OFlags::TMPFILE))
}

/// What is left behind a prefix. Nothing left is the directory itself, which is walked to.
fn rest(path: &[u8]) -> Option<&[u8]> {
    let slashes = path.iter().take_while(|byte| **byte == b'/').count();
    let rest = &path[slashes..];
    (!rest.is_empty()).then_some(rest)
}

fn beneath(
    folder: impl AsFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Option<Result<OwnedFd, Errno>> {
    debug_assert!(path.len() < PATH_MAX);
    let resolve = BENEATH | ResolveFlags::NO_XDEV;
    decided(rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, mode, resolve))
}

/// `None` for what has to be walked.
fn decided(opened: rustix::io::Result<OwnedFd>) -> Option<Result<OwnedFd, Errno>> {
    match opened {
        // Leads out of the grant or to another file system (EXDEV), through a magic link (ELOOP),
        // or raced (EAGAIN). A loop is found again by the walk.
        Err(rustix::io::Errno::XDEV | rustix::io::Errno::LOOP | rustix::io::Errno::AGAIN) => None,
        other => Some(other.map_err(errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use heliostat_control::policy::PathGrant;
    use tempfile::TempDir;

    use super::*;

    /// A folder with `data/inner` and `data/file`, of which `grants` are granted.
    fn roots(grants: &[(&str, Access)]) -> (TempDir, PathBuf, Roots) {
        let whole = tempfile::tempdir().expect("a folder");
        let folder = whole.path().canonicalize().expect("its real name");
        std::fs::create_dir_all(folder.join("data/inner")).expect("a folder to test in");
        std::fs::create_dir(folder.join("own")).expect("a folder for the skeleton");
        std::fs::write(folder.join("data/file"), "x").expect("a file to test with");
        let grant = |(path, access): &(&str, Access)| PathGrant {
            path: folder.join(path),
            access: *access,
        };
        let grants: Vec<_> = grants.iter().map(grant).collect();
        let roots = Roots::open(&grants, &folder.join("own"), &mut |path: &Path, error| {
            panic!("{}: {error}", path.display())
        });
        (whole, folder, roots.expect("roots"))
    }

    fn bytes(path: PathBuf) -> Vec<u8> {
        path.into_os_string().into_encoded_bytes()
    }

    #[test]
    fn a_new_name_in_a_granted_folder_needs_no_walk() {
        let (_whole, folder, roots) = roots(&[("data", Access::ReadWrite)]);
        let found = parent(&roots, None, &bytes(folder.join("data/inner/new")));
        let found = found.expect("decided").expect("there");
        assert_eq!(found.name.as_bytes(), b"new");
        assert_eq!(found.access, Some(Access::ReadWrite));
        assert!(parent(&roots, None, &bytes(folder.join("data"))).is_none(), "the root itself");
        assert!(parent(&roots, None, &bytes(folder.join("data/.."))).is_none());
    }

    #[test]
    fn a_way_out_of_the_grant_is_walked() {
        let (_whole, folder, roots) = roots(&[("data", Access::ReadWrite)]);
        let out = bytes(folder.join("data/inner/../../own/new"));
        assert!(parent(&roots, None, &out).is_none());
        std::os::unix::fs::symlink("../own", folder.join("data/link")).expect("a link");
        assert!(parent(&roots, None, &bytes(folder.join("data/link/new"))).is_none());
    }

    #[test]
    fn names_beside_a_grant_within_are_walked() {
        let inner = ("data/inner", Access::ReadOnly);
        let (_whole, folder, roots) = roots(&[("data", Access::ReadWrite), inner]);
        assert!(parent(&roots, None, &bytes(folder.join("data/new"))).is_none());
    }

    #[test]
    fn a_name_is_granted_for_what_its_folder_is() {
        let (_whole, folder, roots) = roots(&[("data", Access::ReadOnly)]);
        let found = parent(&roots, None, &bytes(folder.join("data/new")));
        assert_eq!(found.expect("decided").expect("there").access, Some(Access::ReadOnly));
    }

    #[test]
    fn writing_is_decided_at_once_only_where_all_that_is_below_is_writable() {
        let inner = ("data/inner", Access::ReadOnly);
        let (_whole, folder, mixed) = roots(&[("data", Access::ReadWrite), inner]);
        let file = bytes(folder.join("data/file"));
        assert!(open(&mixed, None, &file, OFlags::WRONLY, Mode::empty()).is_none());
        let (_whole, folder, read_only) = roots(&[("data", Access::ReadOnly)]);
        let path = folder.join("data");
        let fd = rustix::fs::open(&path, OFlags::PATH, Mode::empty()).expect("a folder");
        let start = Start { fd, path: Some(path), is_hidden: false };
        let open = |flags| open(&read_only, Some(&start), b"file", flags, Mode::empty());
        assert!(open(OFlags::RDONLY).expect("decided").is_ok());
        assert!(open(OFlags::WRONLY).is_none());
    }

    #[test]
    fn what_lies_in_proc_is_walked_where_everything_is_granted() {
        let (_whole, _, roots) = roots(&[("/", Access::ReadWrite)]);
        assert!(open(&roots, None, b"/proc/1/stat", OFlags::RDONLY, Mode::empty()).is_none());
        assert!(parent(&roots, None, b"/proc/new").is_none());
    }

    #[test]
    fn a_granted_file_is_opened_and_a_link_in_its_place_is_walked() {
        let (_whole, folder, roots) = roots(&[("data/file", Access::ReadOnly)]);
        let open =
            |flags| open(&roots, None, &bytes(folder.join("data/file")), flags, Mode::empty());
        assert!(open(OFlags::RDONLY).expect("decided").is_ok());
        assert!(open(OFlags::RDWR).is_none(), "what is granted for reading is not written");
        std::fs::remove_file(folder.join("data/file")).expect("removed");
        std::os::unix::fs::symlink("../own", folder.join("data/file")).expect("a link");
        assert!(open(OFlags::RDONLY).is_none());
    }
}

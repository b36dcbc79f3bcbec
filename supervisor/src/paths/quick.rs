//! The short way: one openat2(2) from a granted directory, for paths that stay below it.
//!
//! Most do. What does not (an absolute symbolic link, `..` out of the grant, another file system,
//! /proc) answers `None` and is walked component by component. Where other grants lie below, a
//! name says what it leads to only as long as no link is followed: one that has links is walked.
//! Where some of them are for reading only, each write is, below every grant on their file system.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::proc::is_proc;
use super::{Found, Object, Root, Roots, Start, PATH_MAX};

use crate::errno::errno;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
/// No links at all.
const STRICT: ResolveFlags = BENEATH.union(ResolveFlags::NO_SYMLINKS);

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
    if path.starts_with(b"/") {
        if let Some((root, name)) = roots.file(path) {
            return granted_file(root, name, flags, mode);
        }
        let (folder, root, length) = roots.leading(path)?;
        let rest = rest(&path[length..])?;
        let Some(root) = root else {
            return (!writes(flags)).then(|| beneath(folder, rest, flags, mode, BENEATH))?;
        };
        let resolve = resolution(root, flags)?;
        return below(root, folder, rest, flags, mode, resolve);
    }
    let start = start?;
    let begin = start.path.as_deref()?;
    let root = roots.deciding(begin)?;
    let rest = rest(path)?;
    let resolve = resolution(root, flags).filter(|_| root.is_folder)?;
    below(root, &start.fd, rest, flags, mode, resolve)
}

/// How a name below `root` may be resolved at once; `None` if it has to be walked, because what it
/// leads to may not be for writing, or not even for reading: no name tells that where something within
/// is not.
fn resolution(root: &Root, flags: OFlags) -> Option<ResolveFlags> {
    let is_readable = root.access != Access::Stat && !root.has_hidden;
    if !is_readable && !flags.contains(OFlags::PATH) {
        return None;
    }
    let is_writable = root.access == Access::ReadWrite && !root.is_guarded;
    (is_writable || !writes(flags)).then_some(BENEATH)
}

/// The whole name of what `rest` leads to from `begin` if no link is followed, where `root` decides
/// about it and no other grant.
fn whole_name(roots: &Roots, root: &Root, begin: &Path, rest: &[u8]) -> Option<PathBuf> {
    if root.path.as_os_str() == "/" || rest.split(|byte| *byte == b'/').any(|part| part == b"..") {
        return None;
    }
    // Without empty components and `.`.
    let whole: PathBuf = begin.join(OsStr::from_bytes(rest)).components().collect();
    std::ptr::eq(roots.deciding(&whole)?, root).then_some(whole)
}

/// Below a grant. An instance of /proc may be mounted there, in which `self` would be this
/// process: of another file system it is only asked at once below `/`, where all are others.
fn below(
    root: &Root,
    folder: &OwnedFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Option<Result<OwnedFd, Errno>> {
    if root.path.as_os_str() != "/" {
        return beneath(folder, path, flags, mode, resolve);
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
    let is_kept = writes(flags) && (root.access != Access::ReadWrite || root.is_guarded);
    let is_hidden = root.access == Access::Stat && !flags.contains(OFlags::PATH);
    if is_kept || is_hidden {
        return None;
    }
    let flags = flags | OFlags::CLOEXEC;
    decided(rustix::fs::openat2(&root.folder, name, flags, mode, STRICT))
}

/// The directory that holds the last component of `path`, and that component as it is.
///
/// What it is granted for is that of the one grant that decides about it.
///
/// # Errors
/// Those of openat2(2) for the directory.
pub fn parent(roots: &Roots, start: Option<&Start>, path: &[u8]) -> Option<Result<Found, Errno>> {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (folder, name) = path.split_at(end);
    if matches!(name, b"" | b"." | b"..") {
        return None;
    }
    let (base, root, begin, length) = if path.starts_with(b"/") {
        let (base, root, length) = roots.leading(path)?;
        (base, root?, root?.path.as_path(), length)
    } else {
        let start = start?;
        let begin = start.path.as_deref()?;
        (&*start.fd, roots.deciding(begin)?, begin, 0)
    };
    // The root itself is not below it. Where something within is not for writing it is looked for.
    let folder = folder.get(length..).filter(|_| root.is_folder && !root.is_guarded)?;
    // Where no other grant lies below, no name is, or holds, the root of one.
    let (path, resolve) = match root.has_inner {
        false => (root.path.join(OsStr::from_bytes(name)), BENEATH),
        true => (whole_name(roots, root, begin, rest(&path[length..])?)?, STRICT),
    };
    let opened = match rest(folder) {
        None => base.try_clone().map_err(|_| Errno(libc::ENFILE)),
        Some(folder) => {
            beneath(base, folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty(), resolve)?
        }
    };
    let end = CString::new(name).map_err(|_| Errno(libc::EINVAL));
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
    resolve: ResolveFlags,
) -> Option<Result<OwnedFd, Errno>> {
    debug_assert!(path.len() < PATH_MAX);
    let resolve = resolve | ResolveFlags::NO_XDEV;
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

    use super::super::View;
    use super::*;

    /// A folder with `data/inner` and `data/file`, of which `grants` are granted.
    fn roots(grants: &[(&str, Access)]) -> (TempDir, PathBuf, Roots) {
        let whole = tempfile::tempdir().expect("a folder");
        let folder = whole.path().canonicalize().expect("its real name");
        std::fs::create_dir_all(folder.join("data/inner/keys")).expect("a folder to test in");
        std::fs::create_dir(folder.join("own")).expect("a folder for the skeleton");
        std::fs::write(folder.join("data/file"), "x").expect("a file to test with");
        let grant = |(path, access): &(&str, Access)| PathGrant {
            path: folder.join(path),
            access: *access,
        };
        let grants: Vec<_> = grants.iter().map(grant).collect();
        let roots = Roots::open(
            &View::default(),
            &grants,
            &folder.join("own"),
            &mut |path: &Path, error| panic!("{}: {error}", path.display()),
        );
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
    fn names_beside_a_grant_within_have_their_whole_name() {
        let inner = ("data/inner/keys", Access::ReadWrite);
        let (_whole, folder, roots) = roots(&[("data", Access::ReadWrite), inner]);
        for (name, leads_to) in [("data//inner/./new", "data/inner/new"), ("data/new", "data/new")]
        {
            let found = parent(&roots, None, &bytes(folder.join(name)));
            let found = found.expect("decided").expect("there");
            assert_eq!(found.path, folder.join(leads_to));
            assert_eq!(found.access, Some(Access::ReadWrite));
        }
        let fd = rustix::fs::open(folder.join("data/inner"), OFlags::PATH, Mode::empty());
        let path = Some(folder.join("data/inner"));
        let fd = fd.expect("a folder").into();
        let start = Start { fd, path, is_hidden: false };
        let found = parent(&roots, Some(&start), b"new").expect("decided").expect("there");
        assert_eq!(found.path, folder.join("data/inner/new"));
        let inside = [&b"keys"[..], b"keys/new", b"./keys//new", b"../inner/keys/new"];
        for name in inside {
            assert!(parent(&roots, Some(&start), name).is_none(), "the other grant decides");
        }
    }

    #[test]
    fn beside_a_grant_for_reading_within_each_write_is_walked() {
        let inner = ("data/inner/keys", Access::ReadOnly);
        let (_whole, folder, roots) = roots(&[("data", Access::ReadWrite), inner]);
        for (name, text) in [("data/link", "inner/keys"), ("data/one", "inner/keys/one")] {
            std::os::unix::fs::symlink(text, folder.join(name)).expect("a link");
        }
        let makes = OFlags::WRONLY | OFlags::CREATE;
        let open = |name| open(&roots, None, &bytes(folder.join(name)), makes, Mode::RUSR);
        for name in ["data/link/new", "data/inner/new", "data/new"] {
            assert!(parent(&roots, None, &bytes(folder.join(name))).is_none(), "{name}");
            assert!(open(name).is_none(), "{name}");
        }
        assert!(open("data/one").is_none());
        assert!(open("data/inner/keys/new").is_none() && open("data/inner/keys").is_none());
    }

    #[test]
    fn a_name_is_granted_for_what_its_folder_is() {
        let (_whole, folder, roots) = roots(&[("data", Access::ReadOnly)]);
        let found = parent(&roots, None, &bytes(folder.join("data/new")));
        assert_eq!(found.expect("decided").expect("there").access, Some(Access::ReadOnly));
    }

    #[test]
    fn writing_is_decided_at_once_only_where_it_is_granted() {
        let (_whole, folder, read_only) = roots(&[("data", Access::ReadOnly)]);
        let path = folder.join("data");
        let fd = rustix::fs::open(&path, OFlags::PATH, Mode::empty()).expect("a folder");
        let start = Start { fd: fd.into(), path: Some(path), is_hidden: false };
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

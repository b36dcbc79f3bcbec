//! What the kernel says of a file that was shown, for a lease or for delegated operations, or opened
//! by name.
//!
//! The order of the questions matters, as with a proof of listening: the descriptor may be
//! anything. Flags, mount and path are answered by the kernel alone; only of a file on a known
//! local file system is anything else asked, and only such a file is ever opened.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use heliostat_abi::code::Unmapped;
use heliostat_service_file::FileKey;
use rustix::fs::{
    fcntl_getfl, fstat, open, openat2, statx, AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat,
    StatxFlags, CWD,
};
use rustix::io::Errno;

use crate::mounts::{FileSystemKind, Mounts};

/// Times that a path is walked by what the kernel remembers.
const WALKS: usize = 4;

/// A regular file that was shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShownFile {
    /// Which it is.
    pub key: FileKey,
    /// The user it belongs to.
    pub owner: u32,
    /// What is known of its file system.
    pub kind: FileSystemKind,
    /// Its path as the control plane sees it; foreign bytes, for rules and people.
    pub path: String,
}

/// Looks at a descriptor that was shown for a lease.
pub fn examine(shown: BorrowedFd<'_>, mounts: &mut Mounts) -> Result<ShownFile, Unmapped> {
    let refused = OFlags::WRONLY | OFlags::RDWR | OFlags::DIRECT;
    let (file, _, bytes) = examine_any(shown, refused, mounts)?;
    (bytes > 0).then_some(file).ok_or(Unmapped::NotRegular)
}

/// Looks at a shown descriptor of a regular file that was opened with none of the `refused` flags;
/// with its flags and its length in bytes.
pub fn examine_any(
    shown: BorrowedFd<'_>,
    refused: OFlags,
    mounts: &mut Mounts,
) -> Result<(ShownFile, OFlags, u64), Unmapped> {
    let number = shown.as_raw_fd();
    let path = std::fs::read_link(link(number)).map_err(|_| Unmapped::NotRegular)?;
    // Sockets, pipes and the like have no path: "pipe:[7]".
    if !path.as_os_str().as_bytes().starts_with(b"/") {
        return Err(Unmapped::NotRegular);
    }
    let (flags, mount) = flags_and_mount(shown).ok_or(Unmapped::NotRegular)?;
    // A descriptor made by O_PATH gives no right to read, and opening it anew would.
    if flags.contains(OFlags::PATH) {
        return Err(Unmapped::NotRegular);
    }
    if flags.intersects(refused) {
        return Err(Unmapped::Writable);
    }
    let kind =
        kind_of(shown, &path, mount, |mount| mounts.kind(mount)).ok_or(Unmapped::FileSystem)?;
    let status = fstat(shown).map_err(|_| Unmapped::Fault)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(Unmapped::NotRegular);
    }
    if !is_one_file(kind, status.st_nlink) {
        return Err(Unmapped::FileSystem);
    }
    let key = FileKey { device: status.st_dev, inode: status.st_ino };
    let path = path.to_string_lossy().into_owned();
    let file = ShownFile { key, owner: status.st_uid, kind, path };
    Ok((file, flags, status.st_size.max(0) as u64))
}

/// Opens a directory that was shown anew, for reading its entries; none when it is none, or when
/// its descriptor gives no right to read them (O_PATH).
pub fn reopen_directory(
    shown: BorrowedFd<'_>,
    mounts: &mut Mounts,
) -> Result<Option<OwnedFd>, Unmapped> {
    let path = std::fs::read_link(link(shown.as_raw_fd())).map_err(|_| Unmapped::NotRegular)?;
    let (flags, mount) = flags_and_mount(shown).ok_or(Unmapped::NotRegular)?;
    // Of what is on another mount nothing is asked that somebody else might have to answer.
    if flags.contains(OFlags::PATH)
        || kind_of(shown, &path, mount, |mount| mounts.kind(mount)).is_none()
    {
        return Ok(None);
    }
    let status = fstat(shown).map_err(|_| Unmapped::Fault)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => reopen_for(shown, OFlags::RDONLY | OFlags::DIRECTORY).map(Some),
        _ => Ok(None),
    }
}

/// Where the control plane sees what a descriptor has open, be it by O_PATH, and what fstat(2) says
/// of it; only of what lies on a known local file system, by what is known of its mount.
///
/// # Errors
/// EINVAL for what has no path, EOPNOTSUPP for what is on another mount.
pub fn locate(
    opened: BorrowedFd<'_>,
    known: impl FnMut(u64) -> Option<FileSystemKind>,
) -> Result<(String, Stat), Errno> {
    let path = std::fs::read_link(link(opened.as_raw_fd())).map_err(|_| Errno::INVAL)?;
    if !path.as_os_str().as_bytes().starts_with(b"/") {
        return Err(Errno::INVAL);
    }
    let (_, mount) = flags_and_mount(opened).ok_or(Errno::OPNOTSUPP)?;
    kind_of(opened, &path, mount, known).ok_or(Errno::OPNOTSUPP)?;
    Ok((path.to_string_lossy().into_owned(), fstat(opened)?))
}

/// What is known of the file system that something open is on: by its mount, or, where that is another
/// mount namespace's, by the path that the kernel tells. A sealed program's descriptors are of mounts of
/// its own, at the same paths as here.
fn kind_of(
    opened: BorrowedFd<'_>,
    path: &Path,
    mount: u64,
    mut known: impl FnMut(u64) -> Option<FileSystemKind>,
) -> Option<FileSystemKind> {
    known(mount).or_else(|| kind_here(opened, path, known))
}

/// The same, if the path leads here to the very same file. Whoever made that namespace may have
/// mounted anything there, and here it may lead through a file system that somebody else serves: so
/// only what the kernel remembers is walked (RESOLVE_CACHED), which waits for nobody, and an open
/// file's own names are remembered.
fn kind_here(
    opened: BorrowedFd<'_>,
    path: &Path,
    mut known: impl FnMut(u64) -> Option<FileSystemKind>,
) -> Option<FileSystemKind> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let walk = ResolveFlags::CACHED | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let open = || openat2(CWD, path, flags, Mode::empty(), walk);
    // A name that changes beside it has the kernel give a cached walk up.
    let here = (0..WALKS).map(|_| open()).find(|it| !matches!(it, Err(Errno::AGAIN)))?.ok()?;
    let (_, mount) = flags_and_mount(here.as_fd())?;
    let kind = known(mount)?;
    (file_of(opened)? == file_of(here.as_fd())?).then_some(kind)
}

/// Which file it is: device and inode. Asks as `flags_and_mount` does.
fn file_of(opened: BorrowedFd<'_>) -> Option<(u32, u32, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let status = statx(opened, c"", flags, StatxFlags::INO).ok()?;
    Some((status.stx_dev_major, status.stx_dev_minor, status.stx_ino))
}

/// Whether device and inode are this file's alone. Otherwise two sessions would share a lease on one
/// file while one of them reads another.
fn is_one_file(kind: FileSystemKind, links: u64) -> bool {
    kind != FileSystemKind::Overlay || links <= 1
}

/// Opens an examined file anew, for reading; does not wait, not even for the end of a lease.
pub fn reopen(shown: impl AsFd) -> Result<OwnedFd, Unmapped> {
    reopen_for(shown, OFlags::RDONLY)
}

/// The same, for what the flags say.
pub fn reopen_for(shown: impl AsFd, wanted: OFlags) -> Result<OwnedFd, Unmapped> {
    let flags = wanted | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(link(shown.as_fd().as_raw_fd()), flags, Mode::empty()).map_err(|errno| match errno {
        // Another process has a lease for itself alone.
        Errno::AGAIN => Unmapped::Written,
        Errno::MFILE | Errno::NFILE => Unmapped::Full,
        Errno::ACCESS | Errno::PERM => Unmapped::Owner,
        _ => Unmapped::Fault,
    })
}

/// Closes an examined file that was shown, at once: its open file description may carry locks which
/// end with it, and its program may be closing it as well. Answers what keeps the file itself, whose
/// own end may take long.
pub fn let_go(shown: OwnedFd) -> OwnedFd {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let kept = open(link(shown.as_raw_fd()), flags, Mode::empty());
    kept.unwrap_or(shown)
}

fn link(number: i32) -> String {
    format!("/proc/self/fd/{number}")
}

/// Asks no file system that a user may serve, as fstat(2) may: with AT_STATX_DONT_SYNC neither FUSE's
/// server is asked nor NFS's; 9p's is, and only root mounts it. (Of /proc/self/fdinfo, which says
/// both as well, the kernel writes a line for each lock of the file.)
fn flags_and_mount(shown: BorrowedFd<'_>) -> Option<(OFlags, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let status = statx(shown, c"", flags, StatxFlags::MNT_ID).ok()?;
    let is_told = status.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    is_told.then_some(()).and(fcntl_getfl(shown).ok()).map(|flags| (flags, status.stx_mnt_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};

    fn look(shown: impl AsFd) -> Result<ShownFile, Unmapped> {
        examine(shown.as_fd(), &mut Mounts::read().unwrap())
    }

    #[test]
    fn links_of_an_overlay_may_be_different_files() {
        assert!(is_one_file(FileSystemKind::Plain, 2) && is_one_file(FileSystemKind::Overlay, 1));
        assert!(!is_one_file(FileSystemKind::Overlay, 2));
    }

    /// What the kernel says of a descriptor in words (proc_pid_fdinfo(5)).
    fn told(fd: BorrowedFd<'_>) -> (OFlags, u64) {
        let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
        let text = std::fs::read_to_string(path).unwrap();
        let field = |name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        let flags = u32::from_str_radix(field("flags:"), 8).unwrap();
        (OFlags::from_bits_retain(flags), field("mnt_id:").parse().unwrap())
    }

    #[test]
    fn flags_and_mount_are_those_that_the_kernel_tells() {
        let flags = [OFlags::RDONLY, OFlags::PATH, OFlags::RDONLY | OFlags::NONBLOCK];
        for (path, flags) in ["/proc/self/exe", "/proc/self/stat", "/dev/null"].iter().zip(flags) {
            let fd = open(*path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap();
            let (flags, mount) = told(fd.as_fd());
            let found = flags_and_mount(fd.as_fd()).unwrap();
            assert_eq!(found, (flags - OFlags::CLOEXEC, mount), "{path}");
        }
    }

    #[test]
    fn only_a_regular_file_open_for_reading_is_taken() {
        let folder = std::env::temp_dir().join(format!("heliostatd-shown-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("file");
        std::fs::write(&path, b"bytes").unwrap();
        let found = look(File::open(&path).unwrap()).unwrap();
        assert_eq!(found.owner, rustix::process::geteuid().as_raw());
        assert_eq!(found.path, path.to_str().unwrap());
        let open_by = |flags| open(&path, flags, Mode::empty()).unwrap();
        assert_eq!(look(open_by(OFlags::PATH)), Err(Unmapped::NotRegular));
        assert_eq!(look(open_by(OFlags::WRONLY)), Err(Unmapped::Writable));
        assert_eq!(look(open_by(OFlags::RDWR)), Err(Unmapped::Writable));
        assert_eq!(look(File::open(&folder).unwrap()), Err(Unmapped::NotRegular));
        assert_eq!(look(File::open("/dev/null").unwrap()), Err(Unmapped::FileSystem));
        assert_eq!(look(File::open("/proc/self/stat").unwrap()), Err(Unmapped::FileSystem));
        assert_eq!(look(std::io::pipe().unwrap().0), Err(Unmapped::NotRegular));
        OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
        assert_eq!(look(File::open(&path).unwrap()), Err(Unmapped::NotRegular));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

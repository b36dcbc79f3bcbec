//! Names of a sealed program to objects of the host: granted roots, and how a path is walked.
//!
//! Names are the host's own, one to one. What leads to a grant is visible as a directory of the
//! skeleton; all else does not exist.

mod found;
mod guarded;
mod held;
mod here;
mod named;
mod own;
mod proc;
mod quick;
mod roots;
mod rules;
mod skeleton;
mod start;
pub mod visible;
mod walk;

pub use found::{Found, Object};
pub use guarded::open as open_guarded;
pub use held::{copied, copy, reopen, rights};
pub use own::View;
pub use proc::{link as link_of_proc, Caller, Sandbox};
pub use quick::{open as quick, parent as quick_parent, writes};
pub use roots::{Root, Roots};
pub use rules::{Last, Rules};
pub use start::Start;
pub use walk::Walk;

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};

/// Symbolic links followed in one path (source: path_resolution(7)).
pub const LINKS_MAX: usize = 40;
/// Bytes of a path, its NUL included (source: limits.h).
pub const PATH_MAX: usize = 4096;

/// Where a descriptor of this process lies in the host's tree; `None` if nowhere: a pipe, a
/// deleted file.
pub fn host_path(fd: impl std::os::fd::AsFd) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let text = text_of(&fd)?;
    let is_named = text.starts_with(b"/") && (!text.ends_with(REMOVED) || is_name_of(&text, fd));
    is_named.then(|| PathBuf::from(std::ffi::OsString::from_vec(text)))
}

/// Whether what is open is found by this name: a name may end as the kernel's mark does. The inode
/// cannot be another's while it is open.
fn is_name_of(text: &[u8], fd: impl std::os::fd::AsFd) -> bool {
    let identity = |found: rustix::fs::Stat| (found.st_dev, found.st_ino);
    let named = rustix::fs::lstat(text).map(identity);
    named.is_ok() && named == rustix::fs::fstat(fd).map(identity)
}

thread_local! {
    /// This thread has a working folder of its own.
    static IS_APART: Cell<bool> = const { Cell::new(false) };
}

/// Gives this thread a working folder of its own, so that it may go where it likes.
pub fn go_apart() {
    IS_APART.set(heliostat_backend_seal::leave_shared_folder().is_ok());
}

/// As `host_path`, of a directory. A thread apart goes there and asks where it is, which takes a third
/// of the time.
pub fn host_path_of_folder(fd: &OwnedFd) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    // Where it may not go it looks from here.
    if !IS_APART.get() || rustix::process::fchdir(fd).is_err() {
        return host_path(fd);
    }
    let text = rustix::process::getcwd(Vec::with_capacity(256)).ok()?.into_bytes();
    // The program may have a mount namespace of its own, in which the folder has this name.
    let text = match text.strip_prefix(b"(unreachable)") {
        Some(name) => name.to_vec(),
        None => text,
    };
    text.starts_with(b"/").then(|| PathBuf::from(std::ffi::OsString::from_vec(text)))
}

/// What the kernel says where a removed file or directory was.
const REMOVED: &[u8] = b" (deleted)";

/// Whether a descriptor's file was found by a name once; pipes, sockets and the like were not.
pub fn was_named(fd: impl std::os::fd::AsFd) -> bool {
    text_of(fd).is_none_or(|text| text.starts_with(b"/") || text.starts_with(b"(unreachable)"))
}

/// Where a removed directory was, with the kernel's mark, which keeps it apart from what may be
/// there now.
pub fn removed_path(fd: impl std::os::fd::AsFd) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let text = text_of(fd)?;
    let is_removed = text.starts_with(b"/") && text.ends_with(REMOVED);
    is_removed.then(|| PathBuf::from(std::ffi::OsString::from_vec(text)))
}

/// A removed file's name as it was.
pub fn without_mark(removed: &std::path::Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let text = removed.as_os_str().as_bytes();
    PathBuf::from(std::ffi::OsStr::from_bytes(text.strip_suffix(REMOVED).unwrap_or(text)))
}

/// Directories above one another at most that are looked at for a name.
const DEPTH_MAX: usize = 4096;

/// A path that begins as that of a directory which lies too deep for the kernel to tell its name
/// (PATH_MAX): enough to know what is granted there, and the name of nothing.
pub fn deep_path(fd: &OwnedFd) -> Option<PathBuf> {
    let up = |fd: &OwnedFd| {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
        rustix::fs::openat(fd, "..", flags, Mode::empty()).ok()
    };
    let mut above = up(fd)?;
    for _ in 0..DEPTH_MAX {
        if let Some(path) = host_path(&above) {
            return Some(path.join("..."));
        }
        above = up(&above)?;
    }
    None
}

fn text_of(fd: impl std::os::fd::AsFd) -> Option<Vec<u8>> {
    let number = std::os::fd::AsRawFd::as_raw_fd(&fd.as_fd()).to_string();
    let text = rustix::fs::readlinkat(own_descriptors()?, number, Vec::with_capacity(256));
    Some(text.ok()?.into_bytes())
}

/// The folder of this process's own descriptors, opened once: the way to it from `/proc` takes longer
/// than what is looked for in it. A process that is forked afterwards must not ask.
fn own_descriptors() -> Option<&'static OwnedFd> {
    static OWN: std::sync::OnceLock<Option<OwnedFd>> = std::sync::OnceLock::new();
    let open = || {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open("/proc/self/fd", flags, Mode::empty()).ok()
    };
    OWN.get_or_init(open).as_ref()
}

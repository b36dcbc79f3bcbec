//! execve(2) and chdir(2): judged here, made by the kernel.
//!
//! Both change the calling process itself, which nobody else can do for it. The kernel reads the
//! path once more, and another thread may have changed it; so what may be executed is fenced by
//! Landlock as well, and where a relative path begins is judged anew by each call.

use heliostat_backend_seal::{status, Reply};
use heliostat_base::sys::Errno;
use rustix::fs::FileType;

use crate::call::{Answer, Call};
use crate::errno::errno;
use crate::paths::Last;

/// execveat(2): the path's argument is `place`.
pub fn exec(call: &Call<'_>, descriptor: i32, place: usize, flags: i32) -> Answer {
    if flags & !(libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let path = call.path(place)?;
    let (fd, _) = call.look_or_own(descriptor, &path, flags)?;
    let found = rustix::fs::fstat(&fd).map_err(errno)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => return Err(Errno(libc::ELOOP)),
        _ => return Err(Errno(libc::EACCES)),
    }
    if call.supervisor.roots.is_looked_at(&fd) {
        return Err(Errno(libc::EACCES));
    }
    status::access(&fd, libc::X_OK, true)?;
    call.supervisor.images.begins(call.thread(), &found);
    Ok(Reply::Continue)
}

/// chdir(2).
pub fn chdir(call: &Call<'_>) -> Answer {
    let (fd, _) = call.look(libc::AT_FDCWD, &call.path(0)?, Last::Follow)?;
    let kind = rustix::fs::fstat(&fd).map_err(errno)?.st_mode;
    if FileType::from_raw_mode(kind) != FileType::Directory {
        return Err(Errno(libc::ENOTDIR));
    }
    status::access(&fd, libc::X_OK, true)?;
    Ok(Reply::Continue)
}

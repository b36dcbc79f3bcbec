//! Calls that say what a file is: the stat family, access(2), readlink(2).

use std::os::fd::OwnedFd;

use heliostat_backend_seal::{status, Reply};
use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use rustix::fs::FileType;

use crate::acting;
use crate::call::{Answer, Call, DONE};
use crate::errno::errno;
use crate::paths::{Found, Last, Object, Start};

/// newfstatat(2): the path's argument is `place`, the answer's the next.
pub fn stat(call: &Call<'_>, descriptor: i32, place: usize, flags: i32) -> Answer {
    let known = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT;
    if flags & !(known | libc::AT_STATX_SYNC_TYPE) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let path = call.path_or_none(place, flags)?;
    let found = match path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        true => Start::stat(&call.supervisor.roots, call.thread(), descriptor)?,
        false => {
            let last = Last::unless(flags, libc::AT_SYMLINK_NOFOLLOW);
            status::stat(&call.look(descriptor, &path, last)?.0)?
        }
    };
    call.write(place + 1, &found)?;
    DONE
}

/// fstat(2), where the kernel itself would not say whose a file is.
pub fn fstat(call: &Call<'_>) -> Answer {
    call.write(1, &Start::stat(&call.supervisor.roots, call.thread(), call.int(0))?)?;
    DONE
}

/// statx(2).
pub fn statx(call: &Call<'_>) -> Answer {
    let (flags, mask) = (call.int(2), call.word(3) as u32);
    let known = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT;
    let is_both = flags & libc::AT_STATX_SYNC_TYPE == libc::AT_STATX_SYNC_TYPE;
    let reserved = 1 << 31;
    if flags & !(known | libc::AT_STATX_SYNC_TYPE) != 0 || is_both || mask & reserved != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let (fd, _) = call.look_or_own(call.int(0), &call.path_or_none(1, flags)?, flags)?;
    call.write(4, &status::statx(&fd, flags, mask)?)?;
    DONE
}

/// statfs(2).
pub fn statfs(call: &Call<'_>) -> Answer {
    let (fd, _) = call.look(libc::AT_FDCWD, &call.path(0)?, Last::Follow)?;
    call.write(1, &status::statfs(&fd)?)?;
    DONE
}

/// faccessat2(2): the path's argument is `place`, the mode's the next.
pub fn access(call: &Call<'_>, descriptor: i32, place: usize, flags: i32) -> Answer {
    let mode = call.int(place + 1);
    let known = libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
    if mode & !7 != 0 || flags & !known != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let path = call.path(place)?;
    let fd = match mode & libc::W_OK {
        0 => call.look_or_own(descriptor, &path, flags)?.0,
        _ => writable(call, descriptor, &path, flags)?,
    };
    // On behalf of others this thread has the ids that are asked about as its effective ones.
    let is_effective = flags & libc::AT_EACCESS != 0 || acting::acts();
    status::access(&fd, mode, is_effective)?;
    DONE
}

/// As `look_or_own`, for a program that asks whether it may write.
fn writable(call: &Call<'_>, descriptor: i32, path: &[u8], flags: i32) -> Result<OwnedFd, Errno> {
    if path.is_empty() {
        return call.look_or_own(descriptor, path, flags).map(|(fd, _)| fd);
    }
    let last = Last::unless(flags, libc::AT_SYMLINK_NOFOLLOW);
    let found = call.find(descriptor, path, last)?;
    let look = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW;
    let fd = call.open_found(&found, look, rustix::fs::Mode::empty())?;
    if found.access == Some(Access::ReadWrite)
        || found.object != Object::Plain && found.access.is_none()
    {
        return Ok(fd);
    }
    let kind = rustix::fs::fstat(&fd).map_err(errno)?.st_mode;
    match FileType::from_raw_mode(kind) {
        // As on a read-only mount.
        FileType::RegularFile | FileType::Directory | FileType::Symlink => Err(Errno(libc::EROFS)),
        _ => Err(Errno(libc::EACCES)),
    }
}

/// readlinkat(2): the path's argument is `place`, then room and length.
pub fn readlink(call: &Call<'_>, descriptor: i32, place: usize) -> Answer {
    let room = call.int(place + 2);
    if room <= 0 {
        return Err(Errno(libc::EINVAL));
    }
    let path = call.path(place)?;
    let text = match path.is_empty() {
        true => {
            let start = Start::of(&call.supervisor.roots, call.thread(), descriptor)?;
            // A race for a descriptor by path only wins the status of what lies outside.
            if start.is_hidden {
                return Err(Errno(libc::EACCES));
            }
            text_of(&start.fd, libc::ENOENT)?
        }
        false => text_at(call, descriptor, &path)?,
    };
    let text = &text[..text.len().min(room as usize)];
    call.write(place + 1, text)?;
    Ok(Reply::Value(text.len() as i64))
}

/// getcwd(2). The kernel's own answer, unless the thread has gone by a descriptor to a folder that
/// was made to lead to grants: it lies elsewhere, and has the name of what it stands for.
pub fn getcwd(call: &Call<'_>) -> Answer {
    use std::os::unix::ffi::OsStrExt;
    let link = format!("{}/cwd", call.thread());
    let text = rustix::fs::readlinkat(call.supervisor.roots.proc(), link, Vec::with_capacity(256));
    let host = text.map(std::ffi::CString::into_bytes).unwrap_or_default();
    let host = std::path::Path::new(std::ffi::OsStr::from_bytes(&host));
    let Some(name) = call.supervisor.roots.name_in_skeleton(host) else {
        return Ok(Reply::Continue);
    };
    let mut text = name.as_os_str().as_bytes().to_vec();
    text.push(0);
    if text.len() as u64 > call.word(1) {
        return Err(Errno(libc::ERANGE));
    }
    call.write(0, &text)?;
    Ok(Reply::Value(text.len() as i64))
}

fn text_at(call: &Call<'_>, descriptor: i32, path: &[u8]) -> Result<Vec<u8>, Errno> {
    let (fd, found) = call.look(descriptor, path, Last::Keep)?;
    if let Some(own) = found.as_ref().and_then(|found| of_program(call, found)) {
        return Ok(own);
    }
    let text = text_of(&fd, libc::EINVAL)?;
    let is_process = found.is_some_and(|found| found.object == Object::Process);
    Ok(if is_process { visible(call, text) } else { text })
}

/// The text of the links below /proc that mean something else for each program.
fn of_program(call: &Call<'_>, found: &Found) -> Option<Vec<u8>> {
    let below = found.path.strip_prefix("/proc").ok()?;
    let names: Vec<&str> = below.iter().map(|name| name.to_str()).collect::<Option<_>>()?;
    let (sandbox, thread) = (call.supervisor as &dyn crate::paths::Sandbox, call.thread());
    let mut caller = crate::paths::Caller { sandbox, thread, process: None };
    crate::paths::link_of_proc(&mut caller, &names).map(String::into_bytes)
}

/// What a link of /proc says, in the program's names.
fn visible(call: &Call<'_>, text: Vec<u8>) -> Vec<u8> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    if !text.starts_with(b"/") {
        return text;
    }
    let host = std::path::PathBuf::from(std::ffi::OsString::from_vec(text));
    match call.supervisor.roots.name_of(&host) {
        Some(name) => name.as_os_str().as_bytes().to_vec(),
        None => host.as_os_str().as_bytes().to_vec(),
    }
}

fn text_of(fd: &OwnedFd, if_none: i32) -> Result<Vec<u8>, Errno> {
    let text = rustix::fs::readlinkat(fd, "", Vec::with_capacity(256));
    text.map(std::ffi::CString::into_bytes).map_err(|error| match error {
        rustix::io::Errno::NOENT => Errno(if_none),
        other => errno(other),
    })
}

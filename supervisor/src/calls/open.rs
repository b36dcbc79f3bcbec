//! open(2) and its kin.

use std::os::fd::OwnedFd;

use heliostat_base::seal::Reply;
use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::call::{Answer, Call, Last};
use crate::paths::{self, Found, Object};

/// Flags that openat(2) heeds; it ignores all others, where openat2(2) refuses them.
const HEEDED: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_DSYNC
    | libc::O_SYNC
    | libc::O_ASYNC
    | libc::O_DIRECT
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_CLOEXEC
    | libc::O_PATH
    | libc::O_TMPFILE
    | LARGE_FILE;
/// What a descriptor that is opened by path only may have besides.
const OF_PATHS: i32 = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
/// What the kernel adds to every open of a 64-bit program, and fcntl(F_GETFL) shows.
const LARGE_FILE: i32 = 0o100_000;

/// openat(2): descriptor of the directory, and the place of the path's argument.
pub fn open(call: &Call<'_>, descriptor: i32, place: usize) -> Answer {
    let flags = call.int(place + 1);
    opened(call, descriptor, &call.path(place)?, flags & HEEDED, place + 2)
}

/// creat(2).
pub fn creat(call: &Call<'_>) -> Answer {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    opened(call, libc::AT_FDCWD, &call.path(0)?, flags, 1)
}

/// openat2(2): its own rules for how to resolve come on top of ours, which are as strict as the
/// strictest in what they keep within the grants; the others are refused as on older kernels.
pub fn openat2(call: &Call<'_>) -> Answer {
    let _ = call;
    // Programs go on with openat, as before Linux 5.6.
    Err(Errno(libc::ENOSYS))
}

fn opened(call: &Call<'_>, descriptor: i32, path: &[u8], flags: i32, mode_place: usize) -> Answer {
    let flags = match flags & libc::O_PATH {
        0 => flags | LARGE_FILE | libc::O_NOCTTY,
        _ => flags & OF_PATHS,
    };
    let closes_on_exec = flags & libc::O_CLOEXEC != 0;
    let flags = OFlags::from_bits_retain(flags as u32);
    let makes = flags.contains(OFlags::CREATE) || flags.contains(OFlags::TMPFILE);
    let mode = if makes { call.new_mode(mode_place) } else { Mode::empty() };
    let fd = descriptor_for(call, descriptor, path, flags, mode)?;
    Ok(Reply::Descriptor { fd: fd.into(), closes_on_exec })
}

fn descriptor_for(
    call: &Call<'_>,
    descriptor: i32,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let start = call.start(descriptor, path)?;
    if paths::writes(flags) {
        call.check()?;
    }
    if let Some(opened) = paths::quick(&call.house.roots, start.as_ref(), path, flags, mode) {
        return opened;
    }
    let makes_new = flags.contains(OFlags::CREATE | OFlags::EXCL);
    let last = match flags.contains(OFlags::NOFOLLOW) || makes_new {
        true => Last::Keep,
        false => Last::Follow,
    };
    let found = call.find_from(start.as_ref(), path, last)?;
    let flags = permitted(call, &found, path, flags)?;
    call.open_found(&found, flags, mode)
}

/// The flags with which the end of a walk may be opened.
fn permitted(call: &Call<'_>, found: &Found, path: &[u8], flags: OFlags) -> Result<OFlags, Errno> {
    if !paths::writes(flags) || found.access == Some(Access::ReadWrite) {
        return Ok(flags);
    }
    match found.object {
        Object::Process => Err(Errno(libc::EACCES)),
        Object::Descriptor { process, number } => {
            held_for_writing(process, number).then_some(flags).ok_or(Errno(libc::EACCES))
        }
        Object::Plain | Object::Root => {
            read_only(found, flags).inspect_err(|_| call.house.note_path(call, path, true))
        }
    }
}

/// Whether a descriptor that has no name may be opened for writing anew: a pipe or memory, or a
/// file that its holder may write.
fn held_for_writing(process: i32, number: i32) -> bool {
    let Ok(fd) = heliostat_base::seal::descriptor_of(process, number) else { return false };
    let is_file = rustix::fs::fstat(&fd)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile);
    let flags = rustix::fs::fcntl_getfl(&fd).unwrap_or(OFlags::empty());
    !is_file || flags.intersects(OFlags::WRONLY | OFlags::RDWR)
}

/// What a read-only mount answers: an existing file is opened for reading although the flags
/// would make it.
fn read_only(found: &Found, flags: OFlags) -> Result<OFlags, Errno> {
    let changing = OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC;
    let there = rustix::fs::statat(&found.folder, found.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
    let Ok(there) = there else {
        let makes = flags.contains(OFlags::CREATE);
        return Err(Errno(if makes { libc::EROFS } else { libc::ENOENT }));
    };
    if flags.contains(OFlags::CREATE | OFlags::EXCL) {
        return Err(Errno(libc::EEXIST));
    }
    let is_folder = FileType::from_raw_mode(there.st_mode) == FileType::Directory;
    if is_folder && flags.intersects(changing | OFlags::CREATE) && !flags.contains(OFlags::TMPFILE)
    {
        return Err(Errno(libc::EISDIR));
    }
    if flags.intersects(changing) || flags.contains(OFlags::TMPFILE) {
        return Err(Errno(libc::EROFS));
    }
    Ok(flags.difference(OFlags::CREATE))
}

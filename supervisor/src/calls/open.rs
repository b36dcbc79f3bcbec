//! open(2) and its kin.

use std::os::fd::OwnedFd;

use heliostat_backend_seal::Reply;
use heliostat_base::sys::{Errno, Sysno};
use heliostat_control::policy::Access;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::acting::as_supervisor;
use crate::call::{Answer, Call};
use crate::errno::errno;
use crate::paths::{self, Found, Last, Object, Rules};
use crate::proc::own_name;
use crate::tree;

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

fn opened(call: &Call<'_>, descriptor: i32, path: &[u8], flags: i32, mode_place: usize) -> Answer {
    let flags = match flags & libc::O_PATH {
        0 => flags,
        _ => flags & OF_PATHS,
    };
    let makes = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
    let mode = if makes { call.new_mode(mode_place) } else { Mode::empty() };
    opened_by(call, descriptor, path, flags, mode, Rules::default())
}

/// Opens what a path leads to by these rules.
pub fn opened_by(
    call: &Call<'_>,
    descriptor: i32,
    path: &[u8],
    flags: i32,
    mode: Mode,
    rules: Rules,
) -> Answer {
    let flags = match flags & libc::O_PATH {
        0 => flags | LARGE_FILE | libc::O_NOCTTY,
        _ => flags,
    };
    let flags = OFlags::from_bits_retain(flags as u32);
    // The kernel finds a number first: without one nothing is made.
    if paths::writes(flags) && has_no_number_left(call) {
        return Err(Errno(libc::EMFILE));
    }
    if path == b"/dev/tty" && !has_this_terminal(call) {
        return Err(Errno(libc::ENXIO));
    }
    match descriptor_for(call, descriptor, path, flags, mode, rules) {
        Ok(fd) => given(call, fd, flags),
        Err(_) if has_no_number_left(call) => Err(Errno(libc::EMFILE)),
        Err(error) => Err(error),
    }
}

/// Whether /dev/tty is the same for the caller as for this process, which opens it: a program may
/// have left its session.
fn has_this_terminal(call: &Call<'_>) -> bool {
    tree::terminal_of(call.thread()) == tree::terminal_of(call.supervisor.own)
}

/// Whether all descriptors that the process may have are in use.
fn has_no_number_left(call: &Call<'_>) -> bool {
    // The length of that directory is the number of its entries (proc(5), Linux 6.2).
    let folder = format!("{}/fd", call.thread());
    let proc = call.supervisor.roots.proc();
    let found = as_supervisor(|| rustix::fs::statat(proc, folder, AtFlags::empty()));
    let limit = heliostat_backend_seal::descriptors_max(call.thread());
    found.is_ok_and(|found| limit.is_some_and(|limit| found.st_size as u64 >= limit))
}

/// What was opened, as the call's answer.
pub fn given(call: &Call<'_>, fd: OwnedFd, flags: OFlags) -> Answer {
    let closes_on_exec = flags.contains(OFlags::CLOEXEC);
    match flags.contains(OFlags::PATH) {
        true => by_path(call, &fd, closes_on_exec),
        false => Ok(Reply::Descriptor { fd: fd.into(), closes_on_exec }),
    }
}

/// What is opened by path only. The kernel gives no such descriptor from one process to another
/// (seccomp_unotify(2)), so it is made by the program's own call where nobody else can change the
/// path meanwhile: in a program of one thread. Memory that two processes share remains; what such
/// a race could win is a name's status, and no content. Programs with threads get a descriptor for
/// reading instead, of files and directories, and so does openat2(2), whose flags lie in memory too.
fn by_path(call: &Call<'_>, fd: &OwnedFd, closes_on_exec: bool) -> Answer {
    if call.number != Sysno::openat2 && call.supervisor.is_alone(call.thread()) {
        call.check()?;
        return Ok(Reply::Continue);
    }
    let mode = rustix::fs::fstat(fd).map_err(errno)?.st_mode;
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile | FileType::Directory => {}
        _ => return Err(Errno(libc::EACCES)),
    }
    if call.supervisor.roots.is_looked_at(fd) {
        return Err(Errno(libc::EACCES));
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let read = rustix::fs::open(own_name(fd), flags, Mode::empty()).map_err(errno)?;
    Ok(Reply::Descriptor { fd: read.into(), closes_on_exec })
}

fn descriptor_for(
    call: &Call<'_>,
    descriptor: i32,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    rules: Rules,
) -> Result<OwnedFd, Errno> {
    let start = call.start(descriptor, path)?;
    if paths::writes(flags) {
        call.check()?;
    }
    if rules.are_none() {
        if let Some(opened) = call.quick(start.as_ref(), path, flags, mode) {
            return opened;
        }
    }
    let makes_new = flags.contains(OFlags::CREATE | OFlags::EXCL);
    let last = match flags.contains(OFlags::NOFOLLOW) || makes_new {
        true => Last::Keep,
        false => Last::Follow,
    };
    let found = call.find_by(start.as_ref(), path, last, rules)?;
    let flags = permitted(call, &found, flags)?;
    if rules.one_device {
        let from = call.start(descriptor, b"")?;
        same_device(from.as_ref(), &found.folder)?;
    }
    call.open_found(&found, flags, mode)
}

fn same_device(from: Option<&paths::Start>, folder: &OwnedFd) -> Result<(), Errno> {
    let device = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|found| found.st_dev).map_err(errno);
    match from.map(|from| device(&from.fd)).transpose()? {
        Some(begin) if begin != device(folder)? => Err(Errno(libc::EXDEV)),
        _ => Ok(()),
    }
}

/// The flags with which the end of a walk may be opened.
fn permitted(call: &Call<'_>, found: &Found, flags: OFlags) -> Result<OFlags, Errno> {
    let is_named = matches!(found.object, Object::Plain | Object::Root);
    if is_named && found.access == Some(Access::Stat) && !flags.contains(OFlags::PATH) {
        return Err(unreadable(call, found, flags));
    }
    if !paths::writes(flags) || found.access == Some(Access::ReadWrite) {
        return Ok(flags);
    }
    match found.object {
        // A thread's name may be written by its own process, which the kernel sees to (proc(5)).
        Object::Process if found.name.as_bytes() == b"comm" => Ok(flags),
        Object::Process => Err(Errno(libc::EACCES)),
        // The descriptor's own rights decide when it is opened anew.
        Object::Descriptor { .. } => Ok(flags),
        Object::Plain | Object::Root => {
            read_only(found, flags).inspect_err(|_| note_unwritable(call, found))
        }
    }
}

/// The error of opening what may only be looked at.
fn unreadable(call: &Call<'_>, found: &Found, flags: OFlags) -> Errno {
    let name = found.name.as_c_str();
    let is_there = rustix::fs::statat(&found.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let makes = flags.contains(OFlags::CREATE);
    match is_there {
        true if makes && flags.contains(OFlags::EXCL) => Errno(libc::EEXIST),
        true => {
            call.note_path(&found.path, Access::ReadOnly);
            Errno(libc::EACCES)
        }
        false => Errno(if makes { libc::EROFS } else { libc::ENOENT }),
    }
}

/// What would have to be granted: the file, or the folder that would get it.
fn note_unwritable(call: &Call<'_>, found: &Found) {
    let is_there = found.path.symlink_metadata().is_ok();
    let folder = found.path.parent().filter(|_| !is_there);
    call.note_path(folder.unwrap_or(&found.path), Access::ReadWrite);
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

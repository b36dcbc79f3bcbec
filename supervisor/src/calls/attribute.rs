//! Calls that change what is said about a file: mode, owner, times, length, extended attributes.

use std::os::fd::OwnedFd;

use heliostat_backend_seal::{self as seal, Reply};
use heliostat_base::sys::{Errno, Sysno};
use heliostat_control::policy::Access;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};

use crate::call::{Answer, Call, DONE};
use crate::errno::errno;
use crate::paths::{self, Found, Last, Object, Start};
use crate::proc::own_name;
use crate::uncharged::ACCESS_LIST_BYTES_MAX;

/// Bytes of an extended attribute's name and value, at most (source: linux/limits.h).
const ATTRIBUTE_NAME_MAX: usize = 256;
const ATTRIBUTE_MAX: usize = 65536;

/// How names of access lists begin (source: linux/xattr.h).
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

/// What a path leads to, if it may be changed.
fn changeable(call: &Call<'_>, descriptor: i32, path: &[u8], last: Last) -> Result<OwnedFd, Errno> {
    let found = call.find(descriptor, path, last)?;
    let fd = call.open_found(&found, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
    let granted = found.writable().and_then(|()| describable(call, &found, &fd));
    if let Err(error) = granted {
        call.note_path(&found.path, Access::ReadWrite);
        return Err(error);
    }
    call.check()?;
    Ok(fd)
}

/// Whether the end of a walk may be described anew. What has no name is judged by its descriptor.
fn describable(call: &Call<'_>, found: &Found, fd: &OwnedFd) -> Result<(), Errno> {
    match found.object {
        _ if call.supervisor.roots.guarded().has(fd) => Err(Errno(libc::EROFS)),
        Object::Descriptor { .. } => Ok(()),
        _ => call.supervisor.roots.describable(&found.path),
    }
}

/// What a descriptor of the thread's stands for, if it may be changed. A descriptor for reading
/// is enough for the kernel, and so not for us: the file's grant decides.
fn own(call: &Call<'_>, number: i32) -> Result<OwnedFd, Errno> {
    let roots = &call.supervisor.roots;
    let start = match number {
        libc::AT_FDCWD => Start::of(roots, call.thread(), number)?,
        // What is judged is the copy that is used: another thread may put another file there.
        _ => Start::from(roots, paths::copy(roots, call.thread(), number)?),
    };
    let allowed = match &start.path {
        Some(path) => call.describable(&start, path),
        // Without a name: memory and pipes of its own, or a file that is gone. What it holds
        // from outside is only to be read and written.
        None if !start.is_hidden && roots.may_change_removed(&start.fd) => Ok(()),
        None => Err(Errno(libc::EROFS)),
    };
    if let Err(error) = allowed {
        call.note_call("the descriptor's file is not granted for writing");
        return Err(error);
    }
    call.check()?;
    start.fd.try_clone().map_err(|_| Errno(libc::ENFILE))
}

/// As `own`, of what is open for more than to be looked at, which these calls ask for: by its
/// name, all could be done.
fn own_opened(call: &Call<'_>, number: i32) -> Result<OwnedFd, Errno> {
    let fd = own(call, number)?;
    match paths::rights(&call.supervisor.roots, &fd, (call.thread(), number)).contains(OFlags::PATH)
    {
        true => Err(Errno(libc::EBADF)),
        false => Ok(fd),
    }
}

/// fchmodat(2).
pub fn chmod(call: &Call<'_>, descriptor: i32, place: usize, flags: i32) -> Answer {
    if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let mode = Mode::from_raw_mode(call.word(place + 1) as u32 & 0o7777);
    let path = call.path(place)?;
    let fd = match path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        true => own(call, descriptor)?,
        false => {
            changeable(call, descriptor, &path, Last::unless(flags, libc::AT_SYMLINK_NOFOLLOW))?
        }
    };
    rustix::fs::chmod(own_name(&fd), mode).map_err(errno)?;
    DONE
}

/// fchmod(2).
pub fn fchmod(call: &Call<'_>) -> Answer {
    let fd = own_opened(call, call.int(0))?;
    let mode = Mode::from_raw_mode(call.word(1) as u32 & 0o7777);
    rustix::fs::chmod(own_name(&fd), mode).map_err(errno)?;
    DONE
}

/// The ids of the arguments from `place` on; -1 leaves one as it is.
fn owner(call: &Call<'_>, place: usize) -> (Option<Uid>, Option<Gid>) {
    let (user, group) = (call.word(place) as u32, call.word(place + 1) as u32);
    (
        (user != u32::MAX).then(|| Uid::from_raw(user)),
        (group != u32::MAX).then(|| Gid::from_raw(group)),
    )
}

/// fchownat(2).
pub fn chown(call: &Call<'_>, descriptor: i32, place: usize, flags: i32) -> Answer {
    if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let (user, group) = owner(call, place + 1);
    let path = call.path(place)?;
    let fd = match path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        true => own(call, descriptor)?,
        false => {
            changeable(call, descriptor, &path, Last::unless(flags, libc::AT_SYMLINK_NOFOLLOW))?
        }
    };
    rustix::fs::chownat(&fd, "", user, group, AtFlags::EMPTY_PATH).map_err(errno)?;
    DONE
}

/// fchown(2).
pub fn fchown(call: &Call<'_>) -> Answer {
    let fd = own_opened(call, call.int(0))?;
    let (user, group) = owner(call, 1);
    rustix::fs::chownat(&fd, "", user, group, AtFlags::EMPTY_PATH).map_err(errno)?;
    DONE
}

/// truncate(2).
pub fn truncate(call: &Call<'_>) -> Answer {
    let length = u64::try_from(call.word(1) as i64).map_err(|_| Errno(libc::EINVAL))?;
    let found = call.find(libc::AT_FDCWD, &call.path(0)?, Last::Follow)?;
    let fd = call.open_found(&found, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
    // Says first what is wrong with the file itself.
    found.writable()?;
    if call.supervisor.roots.guarded().has(&fd) {
        return Err(Errno(libc::EROFS));
    }
    call.check()?;
    seal::set_length(&fd, length)?;
    DONE
}

/// utimensat(2) and its elders.
pub fn times(call: &Call<'_>) -> Answer {
    let (descriptor, path_at, times_at, flags) = match call.number {
        Sysno::utimensat => (call.int(0), 1, 2, call.int(3)),
        Sysno::futimesat => (call.int(0), 1, 2, 0),
        _ => (libc::AT_FDCWD, 0, 1, 0),
    };
    if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let times = read_times(call, times_at)?;
    if changes_none(&times) {
        return DONE;
    }
    if call.word(path_at) == 0 && call.number != Sysno::utime && call.number != Sysno::utimes {
        if descriptor == libc::AT_FDCWD {
            return Err(Errno(libc::EFAULT));
        }
        let fd = own_opened(call, descriptor)?;
        rustix::fs::utimensat(&fd, "", &times, AtFlags::EMPTY_PATH).map_err(errno)?;
        return DONE;
    }
    let path = call.path(path_at)?;
    let fd = match path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        true => own(call, descriptor)?,
        false => {
            changeable(call, descriptor, &path, Last::unless(flags, libc::AT_SYMLINK_NOFOLLOW))?
        }
    };
    rustix::fs::utimensat(&fd, "", &times, AtFlags::EMPTY_PATH).map_err(errno)?;
    DONE
}

/// Whether both are to be left as they are: the kernel then does not even look at the path.
fn changes_none(times: &Timestamps) -> bool {
    let omits = |time: &Timespec| time.tv_nsec == libc::UTIME_OMIT;
    omits(&times.last_access) && omits(&times.last_modification)
}

/// Access and modification time; none given is now.
fn read_times(call: &Call<'_>, place: usize) -> Result<Timestamps, Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW as _ };
    if call.word(place) == 0 {
        return Ok(Timestamps { last_access: now, last_modification: now });
    }
    let mut bytes = [0u8; 32];
    let length = if call.number == Sysno::utime { 16 } else { 32 };
    call.read(place, &mut bytes[..length])?;
    let word =
        |at: usize| i64::from_ne_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap_or([0; 8]));
    let at = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let micro = |seconds: i64, part: i64| match part {
        0..1_000_000 => Ok(at(seconds, part * 1000)),
        _ => Err(Errno(libc::EINVAL)),
    };
    let (last_access, last_modification) = match call.number {
        Sysno::utime => (at(word(0), 0), at(word(1), 0)),
        Sysno::utimensat => (at(word(0), word(1)), at(word(2), word(3))),
        _ => (micro(word(0), word(1))?, micro(word(2), word(3))?),
    };
    Ok(Timestamps { last_access, last_modification })
}

fn attribute_name(call: &Call<'_>, place: usize) -> Result<Vec<u8>, Errno> {
    let name = seal::read_text(call.thread(), call.word(place), ATTRIBUTE_NAME_MAX);
    name.map_err(|error| match error {
        Errno(libc::ENAMETOOLONG) => Errno(libc::ERANGE),
        other => other,
    })
}

/// What setxattr(2) or removexattr(2) means: by path, without following, or a descriptor.
fn attribute_target(call: &Call<'_>) -> Result<OwnedFd, Errno> {
    match call.number {
        Sysno::fsetxattr | Sysno::fremovexattr => own_opened(call, call.int(0)),
        Sysno::lsetxattr | Sysno::lremovexattr => {
            changeable(call, libc::AT_FDCWD, &call.path(0)?, Last::Keep)
        }
        _ => changeable(call, libc::AT_FDCWD, &call.path(0)?, Last::Follow),
    }
}

/// setxattr(2), lsetxattr(2), fsetxattr(2).
pub fn set_extended(call: &Call<'_>) -> Answer {
    let flags = XattrFlags::from_bits(call.word(4) as u32).ok_or(Errno(libc::EINVAL))?;
    let (name, length) = (attribute_name(call, 1)?, call.word(3) as usize);
    if length > ATTRIBUTE_MAX {
        return Err(Errno(libc::E2BIG));
    }
    let is_list = name.starts_with(ACCESS_LISTS);
    if call.supervisor.fenced.bounds && is_list && length > ACCESS_LIST_BYTES_MAX {
        call.note_call("longer access lists than memory that is limited allows");
        return Err(Errno(libc::ENOSPC));
    }
    let mut value = vec![0; length];
    call.read(2, &mut value)?;
    let fd = attribute_target(call)?;
    rustix::fs::setxattr(own_name(&fd), name, &value, flags).map_err(errno)?;
    DONE
}

/// removexattr(2), lremovexattr(2), fremovexattr(2).
pub fn remove_extended(call: &Call<'_>) -> Answer {
    let name = attribute_name(call, 1)?;
    let fd = attribute_target(call)?;
    rustix::fs::removexattr(own_name(&fd), name).map_err(errno)?;
    DONE
}

/// getxattr(2), listxattr(2) and the two that do not follow links.
pub fn get_extended(call: &Call<'_>) -> Answer {
    let keeps = matches!(call.number, Sysno::lgetxattr | Sysno::llistxattr);
    let last = if keeps { Last::Keep } else { Last::Follow };
    let lists = matches!(call.number, Sysno::listxattr | Sysno::llistxattr);
    let (value_at, room) = if lists { (1, call.word(2)) } else { (2, call.word(3)) };
    let (fd, _) = call.look(libc::AT_FDCWD, &call.path(0)?, last)?;
    if call.supervisor.roots.is_looked_at(&fd) {
        // What is in them is not only about the file.
        return Err(Errno(libc::EOPNOTSUPP));
    }
    // Without room the answer is how much there would have to be.
    let length = if room == 0 { ATTRIBUTE_MAX } else { (room as usize).min(ATTRIBUTE_MAX) };
    let mut value = vec![0; length];
    let length = match lists {
        true => rustix::fs::listxattr(own_name(&fd), &mut value[..]),
        false => rustix::fs::getxattr(own_name(&fd), attribute_name(call, 1)?, &mut value[..]),
    };
    let length = length.map_err(errno)?;
    if room > 0 {
        call.write(value_at, &value[..length])?;
    }
    Ok(Reply::Value(length as i64))
}

//! inotify_add_watch(2) and flock(2): calls on a descriptor that reach a file's other users.

use std::os::fd::OwnedFd;

use heliostat_backend_seal::{self as seal, Reply};
use heliostat_base::sys::Errno;
use rustix::fs::{inotify, FlockOperation};

use crate::call::{Answer, Call};
use crate::errno::errno;
use crate::net;
use crate::paths::{self, Last, Start};
use crate::proc::own_name;

/// inotify_add_watch(2).
pub fn add(call: &Call<'_>) -> Answer {
    let mask = inotify::WatchFlags::from_bits_retain(call.word(2) as u32);
    let keeps = mask.contains(inotify::WatchFlags::DONT_FOLLOW);
    let last = if keeps { Last::Keep } else { Last::Follow };
    let watcher: OwnedFd = seal::descriptor_of(call.thread(), call.int(0))?.into();
    let path = match call.path(1) {
        // What the descriptor is comes first.
        Err(_) if !is_watcher(&watcher) => return Err(Errno(libc::EINVAL)),
        other => other?,
    };
    let (fd, _) = call.look(libc::AT_FDCWD, &path, last)?;
    if call.supervisor.roots.is_looked_at(&fd) {
        return Err(Errno(libc::EACCES));
    }
    call.check()?;
    // The name below is a link to what was found, whatever that is.
    let mask = mask.difference(inotify::WatchFlags::DONT_FOLLOW);
    let number = inotify::add_watch(&watcher, own_name(&fd), mask).map_err(errno)?;
    Ok(Reply::Value(i64::from(number)))
}

/// Whether a descriptor is one of inotify's, by the kernel's name for it.
fn is_watcher(fd: &OwnedFd) -> bool {
    let name = rustix::fs::readlink(own_name(fd), Vec::new());
    name.is_ok_and(|name| name.as_bytes() == b"anon_inode:inotify")
}

/// flock(2). An exclusive lock makes others wait, who may be outside: only where writing is
/// granted, as for a mode or an owner, and on a copy of the descriptor, which nobody exchanges meanwhile. The lock is the open
/// file's, and so the program's. All other operations are the kernel's own.
pub fn flock(call: &Call<'_>) -> Answer {
    let operation = match call.int(1) {
        libc::LOCK_EX => FlockOperation::LockExclusive,
        EXCLUSIVE_NOW => FlockOperation::NonBlockingLockExclusive,
        _ => return Ok(Reply::Continue),
    };
    let copy = paths::copy(&call.supervisor.roots, call.thread(), call.int(0))?;
    let start = Start::from(&call.supervisor.roots, copy);
    let is_granted = match &start.path {
        Some(path) => call.describable(&start, path).is_ok(),
        None => !start.is_hidden,
    };
    if !is_granted {
        call.note_call("an exclusive lock on what is not granted for writing");
        return Err(Errno(libc::EBADF));
    }
    call.check()?;
    if !call.supervisor.fenced.copies {
        // The kernel looks the number up anew, so that nobody may put another file there.
        return match net::is_alone(call) {
            true => Ok(Reply::Continue),
            false => Err(Errno(libc::EOPNOTSUPP)),
        };
    }
    rustix::fs::flock(&start.fd, operation).map_err(errno)?;
    Ok(Reply::Value(0))
}

const EXCLUSIVE_NOW: i32 = libc::LOCK_EX | libc::LOCK_NB;

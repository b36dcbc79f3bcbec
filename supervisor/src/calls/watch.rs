//! inotify_add_watch(2) and flock(2): calls on a descriptor that reach a file's other users.

use std::os::fd::OwnedFd;

use heliostat_base::seal::{self, Reply};
use heliostat_base::sys::Errno;
use heliostat_control::policy::Access;
use rustix::fs::{inotify, FlockOperation};

use crate::call::{own_name, Answer, Call, Last, DONE};
use crate::paths::{errno, Start};

/// inotify_add_watch(2).
pub fn add(call: &Call<'_>) -> Answer {
    let mask = inotify::WatchFlags::from_bits_retain(call.word(2) as u32);
    let keeps = mask.contains(inotify::WatchFlags::DONT_FOLLOW);
    let last = if keeps { Last::Keep } else { Last::Follow };
    let watcher: OwnedFd = seal::descriptor_of(call.thread(), call.int(0))?.into();
    let (fd, _) = call.look(libc::AT_FDCWD, &call.path(1)?, last)?;
    call.check()?;
    // The name below is a link to what was found, whatever that is.
    let mask = mask.difference(inotify::WatchFlags::DONT_FOLLOW);
    let number = inotify::add_watch(&watcher, own_name(&fd), mask).map_err(errno)?;
    Ok(Reply::Value(i64::from(number)))
}

/// flock(2). An exclusive lock makes others wait, who may be outside: only where writing is
/// granted. It may wait itself, and then in a thread of its own.
pub fn flock(call: &Call<'_>) -> Answer {
    let operation = match call.int(1) & !libc::LOCK_NB {
        libc::LOCK_SH => FlockOperation::LockShared,
        libc::LOCK_EX => FlockOperation::LockExclusive,
        libc::LOCK_UN => FlockOperation::Unlock,
        _ => return Err(Errno(libc::EINVAL)),
    };
    let start = Start::of(&call.house.roots, call.thread(), call.int(0))?;
    let path = start.path.as_deref();
    let access = path.and_then(|path| call.house.roots.deciding(path)).map(|root| root.access);
    if path.is_some()
        && access != Some(Access::ReadWrite)
        && operation == FlockOperation::LockExclusive
    {
        call.house.note_call(call, "an exclusive lock on a file granted for reading only");
        return Err(Errno(libc::EBADF));
    }
    let fd: OwnedFd = seal::descriptor_of(call.thread(), call.int(0))?.into();
    call.check()?;
    let at_once = match operation {
        FlockOperation::LockShared => FlockOperation::NonBlockingLockShared,
        FlockOperation::LockExclusive => FlockOperation::NonBlockingLockExclusive,
        _ => FlockOperation::NonBlockingUnlock,
    };
    let waits = call.int(1) & libc::LOCK_NB == 0;
    rustix::fs::flock(&fd, if waits { operation } else { at_once }).map_err(errno)?;
    DONE
}

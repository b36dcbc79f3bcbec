//! Which sockets the program's processes have in their tables of descriptors, by proc(5).

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use heliostat_base::sys::Errno;
use rustix::fs::{AtFlags, FileType};

use crate::acting::as_supervisor;
use crate::errno::errno;
use crate::made::Identity;
use crate::paths::Sandbox;
use crate::proc::numbers_in;
use crate::supervisor::Supervisor;

/// The socket that is descriptor `number` of a thread.
///
/// # Errors
/// EBADF, ENOTSOCK.
pub fn socket_at(proc: &OwnedFd, thread: i32, number: i32) -> Result<Identity, Errno> {
    if number < 0 {
        return Err(Errno(libc::EBADF));
    }
    let entry = format!("{thread}/fd/{number}");
    let found = as_supervisor(|| rustix::fs::statat(proc, entry, AtFlags::empty()));
    let status = found.map_err(|error| match error {
        rustix::io::Errno::NOENT => Errno(libc::EBADF),
        other => errno(other),
    })?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Socket => Ok((status.st_dev, status.st_ino)),
        _ => Err(Errno(libc::ENOTSOCK)),
    }
}

/// Which of these sockets no process of the program has. First the tables of processes are looked
/// through, then those of threads, which may have tables of their own; no further than needed.
pub fn missing(supervisor: &Supervisor, sockets: BTreeSet<Identity>) -> BTreeSet<Identity> {
    let mut left = sockets;
    let processes = supervisor.all();
    for process in &processes {
        take_found(supervisor, *process, &mut left);
    }
    for process in processes {
        for thread in numbers_in(supervisor.roots.proc(), &format!("{process}/task")) {
            if left.is_empty() {
                return left;
            }
            if thread != process {
                take_found(supervisor, thread, &mut left);
            }
        }
    }
    left
}

/// Takes out what a thread has.
fn take_found(supervisor: &Supervisor, thread: i32, left: &mut BTreeSet<Identity>) {
    let proc = supervisor.roots.proc();
    for number in numbers_in(proc, &format!("{thread}/fd")) {
        if left.is_empty() {
            return;
        }
        if let Ok(found) = socket_at(proc, thread, number) {
            left.remove(&found);
        }
    }
}

//! From a call's number to the family that answers it.

mod attribute;
mod exec;
mod link;
mod look;
pub mod name;
mod open;
pub mod open_how;
mod other;
mod process;
mod watch;

use heliostat_backend_seal::Notice;
use heliostat_base::sys::{Errno, Sysno};

use crate::call::{Answer, Call};
use crate::mending;
use crate::net;
use crate::supervisor::Supervisor;
use crate::trace;

/// The answer to a call.
pub fn answer(supervisor: &Supervisor, notice: Notice) -> Answer {
    let Some(number) = Sysno::new(notice.number as usize) else {
        return Err(Errno(libc::ENOSYS));
    };
    let call = Call { supervisor, notice, number };
    mending::asks(&call);
    if supervisor.is_traced {
        trace::note(&call);
    }
    let _acting = match &supervisor.behalf {
        Some(behalf) => {
            let (proc, real) = (supervisor.roots.proc(), asks_for_real(&call));
            behalf.take(proc, call.thread(), real, || call.check())?
        }
        None => None,
    };
    files(&call)
        .or_else(|| names(&call))
        .or_else(|| net::answer(&call))
        .unwrap_or_else(|| rest(&call))
}

/// Whether a call is judged by the real ids: access(2) without AT_EACCESS.
fn asks_for_real(call: &Call<'_>) -> bool {
    match call.number {
        Sysno::access | Sysno::faccessat => true,
        Sysno::faccessat2 => call.int(3) & libc::AT_EACCESS == 0,
        _ => false,
    }
}

/// Whether a call may wait for somebody else, as far as its number and flags tell.
pub fn may_wait(notice: &Notice) -> bool {
    let number = Sysno::new(notice.number as usize);
    match number {
        Some(Sysno::connect | Sysno::sendto | Sysno::sendmsg | Sysno::sendmmsg) => true,
        Some(Sysno::flock) => notice.args[1] as i32 == libc::LOCK_EX,
        _ => false,
    }
}

/// Whether a call bears a process or a thread.
pub fn bears(notice: &Notice) -> bool {
    let number = Sysno::new(notice.number as usize);
    matches!(number, Some(Sysno::fork | Sysno::vfork | Sysno::clone))
}

/// Calls that look at files or open them.
fn files(call: &Call<'_>) -> Option<Answer> {
    Some(match call.number {
        Sysno::open => open::open(call, libc::AT_FDCWD, 0),
        Sysno::openat => open::open(call, call.int(0), 1),
        Sysno::creat => open::creat(call),
        Sysno::openat2 => open_how::openat2(call),
        Sysno::stat => look::stat(call, libc::AT_FDCWD, 0, 0),
        Sysno::lstat => look::stat(call, libc::AT_FDCWD, 0, libc::AT_SYMLINK_NOFOLLOW),
        Sysno::newfstatat => look::stat(call, call.int(0), 1, call.int(3)),
        Sysno::fstat => look::fstat(call),
        Sysno::statx => look::statx(call),
        Sysno::statfs => look::statfs(call),
        Sysno::access => look::access(call, libc::AT_FDCWD, 0, 0),
        Sysno::faccessat => look::access(call, call.int(0), 1, 0),
        Sysno::faccessat2 => look::access(call, call.int(0), 1, call.int(3)),
        Sysno::readlink => look::readlink(call, libc::AT_FDCWD, 0),
        Sysno::readlinkat => look::readlink(call, call.int(0), 1),
        Sysno::getxattr | Sysno::lgetxattr | Sysno::listxattr | Sysno::llistxattr => {
            attribute::get_extended(call)
        }
        Sysno::execve => exec::exec(call, libc::AT_FDCWD, 0, 0),
        Sysno::execveat => exec::exec(call, call.int(0), 1, call.int(4)),
        Sysno::chdir => exec::chdir(call),
        Sysno::getcwd => look::getcwd(call),
        Sysno::inotify_add_watch => watch::add(call),
        Sysno::flock => watch::flock(call),
        _ => return None,
    })
}

/// Calls that change names and attributes.
fn names(call: &Call<'_>) -> Option<Answer> {
    Some(match call.number {
        Sysno::mkdir => name::mkdir(call, libc::AT_FDCWD, 0),
        Sysno::mkdirat => name::mkdir(call, call.int(0), 1),
        Sysno::mknod => name::mknod(call, libc::AT_FDCWD, 0),
        Sysno::mknodat => name::mknod(call, call.int(0), 1),
        Sysno::rmdir => name::unlink(call, libc::AT_FDCWD, 0, libc::AT_REMOVEDIR),
        Sysno::unlink => name::unlink(call, libc::AT_FDCWD, 0, 0),
        Sysno::unlinkat => name::unlink(call, call.int(0), 1, call.int(2)),
        Sysno::symlink => link::symlink(call, libc::AT_FDCWD, 1),
        Sysno::symlinkat => link::symlink(call, call.int(1), 2),
        Sysno::link => link::link(call, (libc::AT_FDCWD, 0), (libc::AT_FDCWD, 1), 0),
        Sysno::linkat => link::link(call, (call.int(0), 1), (call.int(2), 3), call.int(4)),
        Sysno::rename => link::rename(call, (libc::AT_FDCWD, 0), (libc::AT_FDCWD, 1), 0),
        Sysno::renameat => link::rename(call, (call.int(0), 1), (call.int(2), 3), 0),
        Sysno::renameat2 => link::rename(call, (call.int(0), 1), (call.int(2), 3), call.word(4)),
        Sysno::chmod => attribute::chmod(call, libc::AT_FDCWD, 0, 0),
        Sysno::fchmodat => attribute::chmod(call, call.int(0), 1, 0),
        Sysno::fchmodat2 => attribute::chmod(call, call.int(0), 1, call.int(3)),
        Sysno::fchmod => attribute::fchmod(call),
        Sysno::chown => attribute::chown(call, libc::AT_FDCWD, 0, 0),
        Sysno::lchown => attribute::chown(call, libc::AT_FDCWD, 0, libc::AT_SYMLINK_NOFOLLOW),
        Sysno::fchownat => attribute::chown(call, call.int(0), 1, call.int(4)),
        Sysno::fchown => attribute::fchown(call),
        Sysno::truncate => attribute::truncate(call),
        Sysno::utimensat | Sysno::utime | Sysno::utimes | Sysno::futimesat => {
            attribute::times(call)
        }
        Sysno::setxattr | Sysno::lsetxattr | Sysno::fsetxattr => attribute::set_extended(call),
        Sysno::removexattr | Sysno::lremovexattr | Sysno::fremovexattr => {
            attribute::remove_extended(call)
        }
        _ => return None,
    })
}

fn rest(call: &Call<'_>) -> Answer {
    process::answer(call).unwrap_or_else(|| other::refuse(call))
}

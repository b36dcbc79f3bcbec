//! Calls of sealed programs: those that no signal ends on the plain kernel, and fstat(3).
//!
//! Behind the fence every call with a path, and each birth, is a question to the supervisor. A
//! signal that comes before the supervisor has taken the question in ends the call with EINTR
//! (seccomp_unotify(2)), and nothing of it has been done. Most of these calls never say so on the
//! plain kernel, and programs do not expect it ("Cannot fork"): here they are made again, after
//! the handler has run.
//!
//! libc's fstat(3) asks with an empty path, and what it asks has a call of its own without one.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use heliostat_base::sys::{check, raw, Errno, Sysno};
use heliostat_interpose::{is_constant_of_libc, Verdict};

use crate::call::Call;
use crate::memory;

/// This process is behind the fence.
static IS_SEALED: AtomicBool = AtomicBool::new(false);

/// What the kernel answers where a signal has ended a call.
pub const INTERRUPTED: i64 = -(libc::EINTR as i64);

/// Calls that the fence asks about and that no signal ends on the plain kernel. Not among them:
/// connect, sendto, sendmsg, flock and ioctl, which a signal may end while they wait; those that
/// open files, since a FIFO's other end may be waited for (`opens_again`); births and exec, which
/// `spawn` makes again.
#[rustfmt::skip]
const NEVER_INTERRUPTED: &[Sysno] = &[
    Sysno::stat, Sysno::lstat, Sysno::newfstatat, Sysno::statx, Sysno::statfs, Sysno::access,
    Sysno::faccessat, Sysno::faccessat2, Sysno::readlink, Sysno::readlinkat, Sysno::getcwd,
    Sysno::chdir, Sysno::mkdir, Sysno::mkdirat, Sysno::mknod, Sysno::mknodat, Sysno::rmdir,
    Sysno::unlink, Sysno::unlinkat, Sysno::symlink, Sysno::symlinkat, Sysno::link, Sysno::linkat,
    Sysno::rename, Sysno::renameat, Sysno::renameat2, Sysno::chmod, Sysno::fchmod, Sysno::fchmodat,
    Sysno::fchmodat2, Sysno::chown, Sysno::lchown, Sysno::fchown, Sysno::fchownat, Sysno::truncate,
    Sysno::utime, Sysno::utimes, Sysno::futimesat, Sysno::utimensat, Sysno::getxattr,
    Sysno::lgetxattr, Sysno::setxattr, Sysno::lsetxattr, Sysno::fsetxattr, Sysno::listxattr,
    Sysno::llistxattr, Sysno::removexattr, Sysno::lremovexattr, Sysno::fremovexattr,
    Sysno::inotify_add_watch, Sysno::bind, Sysno::socket, Sysno::socketpair, Sysno::umask,
    Sysno::kill, Sysno::tgkill, Sysno::setpriority, Sysno::getpriority, Sysno::getpgid,
    Sysno::getsid, Sysno::setgroups, Sysno::prlimit64, Sysno::setrlimit, Sysno::prctl,
    Sysno::pidfd_open, Sysno::sched_getaffinity, Sysno::sched_setaffinity, Sysno::sched_getparam,
    Sysno::sched_setparam, Sysno::sched_getscheduler, Sysno::sched_setscheduler,
];

/// Notes that this process is sealed, before its first call is caught.
pub fn enter() {
    IS_SEALED.store(true, Relaxed);
}

/// Whether it is.
pub fn is_sealed() -> bool {
    IS_SEALED.load(Relaxed)
}

/// Whether sites of this number are to be caught because of the fence.
pub fn is_asked(number: u32) -> bool {
    NEVER_INTERRUPTED.iter().any(|asked| *asked as u32 == number)
}

/// Makes a call that no signal ends on the plain kernel until none has.
pub fn again(call: &mut Call<'_>) -> Verdict {
    match call.waited() {
        None if !is_sealed() || !is_asked(call.frame.rax as u32) => Verdict::Pass,
        None | Some(INTERRUPTED) => call.wait_in_kernel(),
        Some(result) => {
            call.frame.rax = result as u64;
            Verdict::Done
        }
    }
}

/// Makes a birth until no signal has ended it: none does on the plain kernel (fork(2)).
pub fn uninterrupted(make: impl Fn() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match make() {
            Err(Errno(libc::EINTR)) => {}
            made => return made,
        }
    }
}

/// newfstatat(2): fstat(3) is one with an empty path.
pub fn newfstatat(call: &mut Call<'_>) -> Verdict {
    let [fd, path, status, flags, ..] = call.frame.args;
    if call.waited().is_none() && is_fstat(fd as i32, path, flags as i32) {
        call.frame.wait = [Sysno::fstat as u64, fd, status, 0, 0, 0, 0];
        return Verdict::Wait;
    }
    again(call)
}

/// Whether an interrupted call of open(2)'s family is one that no signal ends on the plain kernel,
/// to be made again. A FIFO's other end may be waited for, and some devices (tty(4)).
pub fn opens_again(call: &Call<'_>, flags: i32) -> bool {
    let waits = flags & (libc::O_NONBLOCK | libc::O_PATH) == 0;
    is_sealed() && !(waits && may_be_waited_for(call, flags))
}

/// Major number of devices that are memory: null, zero, full, random (source: linux/major.h).
const MEMORY_MAJOR: u32 = 1;

/// Whether what a call is to open is something whose opening may wait. What is not there is not.
fn may_be_waited_for(call: &Call<'_>, flags: i32) -> bool {
    let (folder, path) = match Sysno::new(call.frame.rax as usize) {
        Some(Sysno::open | Sysno::creat) => (libc::AT_FDCWD as usize, call.word(0) as usize),
        _ => (call.word(0) as usize, call.word(1) as usize),
    };
    let follows = if flags & libc::O_NOFOLLOW != 0 { libc::AT_SYMLINK_NOFOLLOW } else { 0 };
    let mut status: libc::stat = memory::zeroed();
    let args = [folder, path, &raw mut status as usize, follows as usize, 0, 0];
    loop {
        // SAFETY: room for one `struct stat`; the path is the program's, and the kernel reads it.
        match check(unsafe { raw(Sysno::newfstatat as usize, args) }) {
            Err(Errno(libc::EINTR)) => {}
            Err(_) => return false,
            Ok(_) => break,
        }
    }
    match status.st_mode & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFDIR | libc::S_IFLNK => false,
        libc::S_IFCHR => libc::major(status.st_rdev) != MEMORY_MAJOR,
        _ => true,
    }
}

/// Whether it is fstat(3): that path is a constant of libc's. Any other the kernel has to read,
/// since it may not be there.
fn is_fstat(fd: i32, path: u64, flags: i32) -> bool {
    if flags != libc::AT_EMPTY_PATH || fd < 0 || !is_constant_of_libc(path) {
        return false;
    }
    // SAFETY: libc's constants stay mapped and readable (`is_constant_of_libc`).
    unsafe { (path as *const u8).read() == 0 }
}

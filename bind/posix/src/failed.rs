//! What is refused after a failed flush: the program has been told that it was done.
//!
//! The file itself is refused for good. Until the program has heard of it there, whatever else lets
//! something out, or changes what others see, is refused with EIO. Listed is what is let by
//! nevertheless: it takes, asks or waits, touches what only this process has, or ends something, which
//! a death would do as well. A child has the same to be told, and cannot become another program first.

use heliostat_base::sys::{Errno, Sysno};
use heliostat_stub_posix::flush;
use heliostat_stub_posix::net::unflushed;

use crate::call::Call;
use crate::held::{direct, goes_on};
use crate::{files, harmless};

/// The exit status in place of 0, which would say that all went well (source: sysexits.h, EX_IOERR).
const IO_ERROR: u64 = 74;

#[rustfmt::skip]
const LET_BY: &[Sysno] = &[
    // They take, ask or wait.
    Sysno::read, Sysno::readv, Sysno::pread64, Sysno::preadv, Sysno::preadv2, Sysno::recvfrom,
    Sysno::recvmsg, Sysno::recvmmsg, Sysno::accept, Sysno::accept4, Sysno::lseek, Sysno::stat,
    Sysno::fstat, Sysno::lstat, Sysno::newfstatat, Sysno::statx, Sysno::access, Sysno::faccessat,
    Sysno::faccessat2, Sysno::readlink, Sysno::readlinkat, Sysno::getdents, Sysno::getdents64,
    Sysno::statfs, Sysno::fstatfs, Sysno::wait4, Sysno::waitid, Sysno::futex, Sysno::futex_waitv,
    Sysno::nanosleep, Sysno::clock_nanosleep, Sysno::pause, Sysno::rt_sigsuspend,
    Sysno::rt_sigtimedwait, Sysno::rt_sigprocmask,
    // Its own: descriptors, memory, threads, children.
    Sysno::socket, Sysno::socketpair, Sysno::pipe, Sysno::pipe2, Sysno::eventfd2,
    Sysno::timerfd_create, Sysno::dup, Sysno::dup2, Sysno::dup3, Sysno::munmap, Sysno::mremap,
    Sysno::clone, Sysno::clone3, Sysno::fork, Sysno::vfork,
    // They end something.
    Sysno::close, Sysno::close_range, Sysno::exit, Sysno::exit_group,
];

/// The error of this call, where a flush has failed that it must not go by.
#[cold]
#[inline(never)]
pub fn refused(kind: Sysno, call: &Call<'_>) -> Option<Errno> {
    let Some(fd) = written(kind, call) else {
        let is_refused = flush::is_untold() && !is_let_by(kind, call);
        return is_refused.then_some(Errno(libc::EIO));
    };
    match flush::failure(fd) {
        Some(errno) => Some(errno),
        // A connection that could be held back for is cut off instead.
        None if flush::is_untold() && !direct(fd).is_some_and(|it| unflushed::can_hold(it, 0)) => {
            Some(Errno(libc::EIO))
        }
        None => None,
    }
}

/// What a call writes to that may be the file itself.
fn written(kind: Sysno, call: &Call<'_>) -> Option<i32> {
    match kind {
        Sysno::write | Sysno::writev | Sysno::pwrite64 | Sysno::pwritev | Sysno::pwritev2 => {
            Some(call.int(0))
        }
        Sysno::sendto | Sysno::sendmsg | Sysno::sendmmsg | Sysno::sendfile => Some(call.int(0)),
        Sysno::copy_file_range | Sysno::splice => Some(call.int(2)),
        Sysno::tee | Sysno::vmsplice | Sysno::ftruncate | Sysno::fallocate => Some(call.int(0)),
        _ => None,
    }
}

fn is_let_by(kind: Sysno, call: &Call<'_>) -> bool {
    let opens = |flags: i32| flags & (libc::O_CREAT | libc::O_TRUNC) == 0;
    match kind {
        Sysno::open => opens(call.int(1)),
        Sysno::openat => opens(call.int(2)),
        Sysno::openat2 => opens(files::flags_of_openat2(call)),
        Sysno::fcntl => matches!(
            call.int(1),
            libc::F_GETFL
                | libc::F_SETFL
                | libc::F_GETFD
                | libc::F_SETFD
                | libc::F_DUPFD
                | libc::F_DUPFD_CLOEXEC
        ),
        Sysno::ioctl => matches!(
            u64::from(call.word(1) as u32),
            libc::FIONREAD
                | libc::FIONBIO
                | libc::FIOCLEX
                | libc::FIONCLEX
                | libc::TCGETS
                | libc::TIOCGWINSZ
        ),
        // Its own death, by abort(3) too.
        Sysno::kill | Sysno::tgkill => call.int(0) == std::process::id() as i32,
        kind => LET_BY.contains(&kind) || harmless::may_go_on(kind as u32) || goes_on(kind, call),
    }
}

/// A program that ends without having been told does not say that all went well.
#[cold]
pub fn before_end(kind: Sysno, call: &mut Call<'_>) {
    let is_end = matches!(kind, Sysno::exit | Sysno::exit_group);
    if is_end && flush::is_untold() && call.word(0) & 0xff == 0 {
        call.frame.args[0] = IO_ERROR;
    }
}

//! Calls that let nothing out of the process: they do not wait for a flush.
//!
//! All that is not listed waits, also what this list has never heard of. A call is listed when nobody
//! outside of the process can tell from it that it was made: it asks, or changes what only this
//! process has. What may block is not listed, since others may wait for what is held back meanwhile.
//! Nor are questions about files: a server of a file system, a watcher (inotify) and times of access
//! show that they were asked. What /proc shows of a process to others counts as looking into it.

use heliostat_base::sys::Sysno;

/// Not even caught because of durable files.
#[rustfmt::skip]
const UNSEEN: &[Sysno] = &[
    // Memory of its own (what is shared with others goes by mmap, which is caught).
    Sysno::brk, Sysno::madvise, Sysno::mincore, Sysno::mlock, Sysno::munlock, Sysno::mbind,
    Sysno::set_mempolicy, Sysno::get_mempolicy, Sysno::pkey_alloc, Sysno::pkey_free,
    Sysno::membarrier,
    // Questions about the process, the machine and the time.
    Sysno::getpid, Sysno::gettid, Sysno::getppid, Sysno::getuid, Sysno::geteuid, Sysno::getgid,
    Sysno::getegid, Sysno::getresuid, Sysno::getresgid, Sysno::getgroups, Sysno::getpgid,
    Sysno::getpgrp, Sysno::getsid, Sysno::getpriority, Sysno::getrlimit, Sysno::getrusage,
    Sysno::times, Sysno::sysinfo, Sysno::uname, Sysno::getcpu, Sysno::getcwd, Sysno::getrandom,
    Sysno::time, Sysno::gettimeofday, Sysno::clock_gettime, Sysno::clock_getres,
    Sysno::sched_getaffinity, Sysno::sched_getparam, Sysno::sched_getscheduler,
    Sysno::sched_get_priority_max, Sysno::sched_get_priority_min, Sysno::capget, Sysno::getitimer,
    Sysno::timer_gettime, Sysno::timerfd_gettime,
    // Names of sockets, which the kernel itself knows.
    Sysno::getsockname, Sysno::getpeername,
    // A thread's own: how it was made, how it takes signals. Not how it ends: the last one's end is the
    // process's.
    Sysno::arch_prctl, Sysno::set_tid_address, Sysno::set_robust_list, Sysno::get_robust_list,
    Sysno::rseq, Sysno::sigaltstack, Sysno::rt_sigpending, Sysno::rt_sigreturn,
    Sysno::restart_syscall,
];

/// Caught, and may go on.
#[rustfmt::skip]
const SEEN: &[Sysno] = &[
    Sysno::epoll_create, Sysno::epoll_create1, Sysno::getsockopt, Sysno::rt_sigaction,
    // These look, publish and sleep by themselves: `heliostat_stub_posix::net::unflushed`.
    Sysno::epoll_wait, Sysno::epoll_pwait, Sysno::epoll_pwait2, Sysno::poll, Sysno::ppoll,
    Sysno::select, Sysno::pselect6,
    // It looks, too: who spins by it may wait for what is held back.
    Sysno::sched_yield,
    // Judged by their own functions: `durable`, `mappings`.
    Sysno::fdatasync, Sysno::fsync, Sysno::mmap, Sysno::mprotect, Sysno::pkey_mprotect,
];

/// Whether sites of this number are to be caught where there are durable files.
pub fn is_to_be_caught(number: u32) -> bool {
    UNSEEN.iter().all(|known| *known as u32 != number)
}

/// Whether a caught call may go on while something is held back, whatever its arguments.
pub fn may_go_on(number: u32) -> bool {
    SEEN.iter().chain(UNSEEN).any(|known| *known as u32 == number)
}

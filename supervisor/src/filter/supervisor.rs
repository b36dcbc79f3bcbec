//! The supervisor's own filter: the calls that it makes, and no others.
//!
//! Made from what it does and from what its libc needs for threads and memory. What is missing fails
//! with EPERM, as what a kernel has no right for.

use heliostat_backend_seal::Verdict;
use heliostat_base::sys::Sysno;

use super::conditions::Condition;
use super::table::{Rule, NAMESPACES};

/// What becomes of all other calls.
pub const OTHERWISE: Verdict = Verdict::Errno(libc::EPERM as u16);

/// Users by number at most, so that the filter fits; of more than these any may be acted for.
const USERS_MAX: usize = 100;

/// The rule of setresuid(2) where threads act for these users, or for any: the real and the saved one stay.
pub fn rule_of_ids(users: Option<Vec<u32>>) -> Rule {
    match users.filter(|users| users.len() <= USERS_MAX) {
        // It lives as long as the process.
        Some(users) => Rule::If(Condition::Effective(users.leak())),
        None => Rule::Always(Verdict::Allow),
    }
}

/// The rule of a number; `ids`: that of changing the user.
pub fn rule(number: u32, ids: Option<Rule>) -> Rule {
    let Some(call) = Sysno::new(number as usize) else { return Rule::Always(OTHERWISE) };
    if call == Sysno::clone3 {
        // Its flags lie in memory. libc goes on with clone.
        return Rule::Always(Verdict::Errno(libc::ENOSYS as u16));
    }
    if let (Some(rule), Sysno::setresuid) = (ids, call) {
        return rule;
    }
    if MADE.contains(&call) || ids.is_some() && OF_IDS.contains(&call) {
        return Rule::Always(Verdict::Allow);
    }
    let conditional = CONDITIONAL.iter().find(|(conditional, _)| *conditional == call);
    conditional.map_or(Rule::Always(OTHERWISE), |(_, condition)| Rule::If(*condition))
}

/// By family: bytes and descriptors, files by name, attributes, sockets, processes that are sealed,
/// threads and memory, time and waiting, itself.
#[rustfmt::skip]
const MADE: &[Sysno] = &[
    Sysno::read, Sysno::write, Sysno::readv, Sysno::writev, Sysno::pread64, Sysno::pwrite64,
    Sysno::lseek, Sysno::close, Sysno::dup, Sysno::dup2, Sysno::dup3, Sysno::fcntl, Sysno::flock,
    Sysno::pipe2, Sysno::ftruncate, Sysno::fsync, Sysno::fdatasync, Sysno::copy_file_range,
    Sysno::open, Sysno::openat, Sysno::openat2, Sysno::stat, Sysno::lstat, Sysno::fstat,
    Sysno::newfstatat, Sysno::statx, Sysno::statfs, Sysno::fstatfs, Sysno::access,
    Sysno::faccessat, Sysno::faccessat2, Sysno::readlink, Sysno::readlinkat, Sysno::getdents64,
    Sysno::getcwd, Sysno::chdir, Sysno::fchdir, Sysno::mkdir, Sysno::mkdirat, Sysno::mknodat,
    Sysno::unlink, Sysno::rmdir, Sysno::unlinkat, Sysno::rename, Sysno::renameat,
    Sysno::renameat2, Sysno::link, Sysno::linkat, Sysno::symlink, Sysno::symlinkat,
    Sysno::truncate, Sysno::inotify_add_watch, Sysno::umask,
    Sysno::chmod, Sysno::fchmod, Sysno::fchmodat, Sysno::fchmodat2, Sysno::chown, Sysno::lchown,
    Sysno::fchown, Sysno::fchownat, Sysno::utimensat, Sysno::setxattr, Sysno::lsetxattr,
    Sysno::fsetxattr, Sysno::getxattr, Sysno::lgetxattr, Sysno::fgetxattr, Sysno::listxattr,
    Sysno::llistxattr, Sysno::flistxattr, Sysno::removexattr, Sysno::lremovexattr,
    Sysno::fremovexattr,
    Sysno::connect, Sysno::bind, Sysno::listen, Sysno::accept, Sysno::accept4, Sysno::sendto,
    Sysno::sendmsg, Sysno::recvfrom, Sysno::recvmsg, Sysno::getsockname, Sysno::getpeername,
    Sysno::getsockopt, Sysno::setsockopt, Sysno::shutdown,
    Sysno::pidfd_open, Sysno::pidfd_getfd, Sysno::pidfd_send_signal, Sysno::process_vm_readv,
    Sysno::process_vm_writev, Sysno::kill, Sysno::tkill, Sysno::tgkill, Sysno::wait4,
    Sysno::waitid, Sysno::setpgid,
    Sysno::munmap, Sysno::mremap, Sysno::brk, Sysno::madvise, Sysno::membarrier,
    Sysno::set_robust_list, Sysno::set_tid_address, Sysno::rseq, Sysno::sigaltstack,
    Sysno::rt_sigaction, Sysno::rt_sigprocmask, Sysno::rt_sigreturn, Sysno::rt_sigtimedwait,
    Sysno::rt_sigsuspend, Sysno::rt_sigpending, Sysno::sched_getaffinity,
    Sysno::sched_setaffinity, Sysno::sched_yield, Sysno::getcpu, Sysno::futex, Sysno::exit,
    Sysno::exit_group, Sysno::restart_syscall,
    Sysno::clock_gettime, Sysno::clock_getres, Sysno::clock_nanosleep, Sysno::nanosleep,
    Sysno::gettimeofday, Sysno::time, Sysno::poll, Sysno::ppoll, Sysno::eventfd2,
    Sysno::getpid, Sysno::gettid, Sysno::getppid, Sysno::getuid, Sysno::geteuid, Sysno::getgid,
    Sysno::getegid, Sysno::getrlimit, Sysno::getrandom, Sysno::uname, Sysno::sysinfo,
    Sysno::landlock_create_ruleset, Sysno::landlock_add_rule, Sysno::landlock_restrict_self,
];

/// To act for other users. Groups add nothing to what root's supervisor may do to files, and rights are
/// only given up.
const OF_IDS: &[Sysno] = &[Sysno::setresgid, Sysno::setgroups, Sysno::capget, Sysno::capset];

const EXECUTABLE: u32 = libc::PROT_EXEC as u32;
/// Requests: those of the listener (source: linux/seccomp.h), and not to wait.
const REQUESTS: &[u32] =
    &[0xc050_2100, 0xc018_2101, 0x4008_2102, 0xc018_2103, 0x4008_2104, libc::FIONBIO as u32];
const DOMAINS: &[u32] = &[libc::AF_UNIX as u32, libc::AF_INET as u32, libc::AF_INET6 as u32];
const TYPES: &[u32] =
    &[libc::SOCK_STREAM as u32, libc::SOCK_DGRAM as u32, libc::SOCK_SEQPACKET as u32];
const PROTOCOLS: &[u32] = &[0, libc::IPPROTO_TCP as u32, libc::IPPROTO_UDP as u32];
/// Of itself.
const OPTIONS: &[u32] = &[
    libc::PR_SET_NAME as u32,
    libc::PR_GET_NAME as u32,
    libc::PR_SET_PDEATHSIG as u32,
    libc::PR_SET_NO_NEW_PRIVS as u32,
    libc::PR_GET_NO_NEW_PRIVS as u32,
    libc::PR_SET_VMA as u32,
];

#[rustfmt::skip]
const CONDITIONAL: &[(Sysno, Condition)] = &[
    (Sysno::clone, Condition::LowWith(0, libc::CLONE_THREAD as u32, NAMESPACES)),
    // A thread's own folder and mask.
    (Sysno::unshare, Condition::LowIn(0, &[libc::CLONE_FS as u32])),
    (Sysno::mmap, Condition::LowWithout(2, EXECUTABLE)),
    (Sysno::mprotect, Condition::LowWithout(2, EXECUTABLE)),
    (Sysno::ioctl, Condition::LowIn(1, REQUESTS)),
    (Sysno::prctl, Condition::LowIn(0, OPTIONS)),
    (Sysno::socket, Condition::Socket(DOMAINS, TYPES, PROTOCOLS)),
    (Sysno::socketpair, Condition::LowIn(0, &[libc::AF_UNIX as u32])),
    // Asks, and sets none.
    (Sysno::prlimit64, Condition::Zero(2)),
];

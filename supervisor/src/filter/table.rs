//! Which calls pass, and under which condition.

use heliostat_backend_seal::Verdict;
use heliostat_base::sys::Sysno;

use super::conditions::Condition;
use super::options::OPTIONS;
use super::Fenced;

/// What becomes of a call number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The same for all arguments.
    Always(Verdict),
    /// Depends on an argument.
    If(Condition),
}

/// The rule of a number.
pub fn rule(number: u32, fenced: Fenced) -> Rule {
    let Some(call) = Sysno::new(number as usize) else { return Rule::Always(Verdict::Notify) };
    if call == Sysno::clone3 {
        // Its flags lie in memory. libc and Go go on with clone.
        return Rule::Always(Verdict::Errno(libc::ENOSYS as u16));
    }
    if RINGS.contains(&call) {
        return Rule::Always(Verdict::Errno(libc::ENOSYS as u16));
    }
    if call == Sysno::clone && (fenced.counts || !fenced.copies) {
        return Rule::Always(Verdict::Notify);
    }
    if !fenced.copies && call == Sysno::socket {
        return Rule::Always(Verdict::Notify);
    }
    if !fenced.copies && WATCHERS.contains(&call) {
        return Rule::Always(Verdict::Errno(libc::ENOSYS as u16));
    }
    if call == Sysno::fcntl {
        return Rule::If(Condition::LowIn(1, descriptor_commands(fenced)));
    }
    if call == Sysno::mbind && fenced.bounds {
        return Rule::Always(Verdict::Notify);
    }
    if fenced.hides_users && NAMES_USERS.contains(&call) {
        return Rule::Always(Verdict::Notify);
    }
    if fenced.hides_users && IDENTITIES.contains(&call) {
        return Rule::Always(Verdict::Notify);
    }
    if fenced.becomes && (IDENTITIES.contains(&call) || OF_FILES.contains(&call)) {
        return Rule::Always(Verdict::Notify);
    }
    if fenced.root && IDENTITIES.contains(&call) {
        return Rule::If(Condition::LowIn(0, &[0, u32::MAX]));
    }
    let is_fenced =
        (fenced.signals && SIGNALS.contains(&call)) || (fenced.ipc && IPC.contains(&call));
    let is_fenced = is_fenced || (fenced.queues && QUEUES.contains(&call));
    if is_fenced || PASS.contains(&call) {
        return Rule::Always(Verdict::Allow);
    }
    let conditional = CONDITIONAL.iter().find(|(conditional, _)| *conditional == call);
    conditional.map_or(Rule::Always(Verdict::Notify), |(_, condition)| Rule::If(*condition))
}

/// Commands of fcntl(2) that pass.
fn descriptor_commands(fenced: Fenced) -> &'static [u32] {
    let (locks, flags) = (LOCK_COMMANDS, 1);
    let begin = if fenced.bounds { locks } else { 0 };
    // O_ASYNC among the flags makes a terminal signal its foreground group, whose that is.
    let end = DESCRIPTOR_COMMANDS.len() - if fenced.signals { 0 } else { flags };
    &DESCRIPTOR_COMMANDS[begin..end]
}

/// Make calls that no filter sees. Programs and runtimes that know them (libuv, tokio) try them and go
/// on without, so that nobody is asked, and nothing is told as refused.
const RINGS: &[Sysno] = &[Sysno::io_uring_setup, Sysno::io_uring_enter, Sysno::io_uring_register];

/// Make what the supervisor could add no watch to, where it cannot copy descriptors. Programs look
/// by themselves now and then on kernels without it.
const WATCHERS: &[Sysno] =
    &[Sysno::inotify_init, Sysno::inotify_init1, Sysno::inotify_add_watch, Sysno::inotify_rm_watch];

/// Reach only processes behind the same fence, where the kernel has one for them.
const SIGNALS: &[Sysno] = &[
    Sysno::kill,
    Sysno::tkill,
    Sysno::tgkill,
    Sysno::rt_sigqueueinfo,
    Sysno::rt_tgsigqueueinfo,
    Sysno::pidfd_send_signal,
];

/// Change who a process is, which without capabilities it cannot: the kernel refuses, and the supervisor
/// says so, since servers of root's stay there with workers that end at once.
const IDENTITIES: &[Sysno] = &[
    Sysno::setuid,
    Sysno::setgid,
    Sysno::setreuid,
    Sysno::setregid,
    Sysno::setresuid,
    Sysno::setresgid,
];

/// Change who a process is for files alone.
const OF_FILES: &[Sysno] = &[Sysno::setfsuid, Sysno::setfsgid];

/// Say whose a file is, or which groups a program is of.
const NAMES_USERS: &[Sysno] = &[Sysno::fstat, Sysno::newfstatat, Sysno::statx, Sysno::getgroups];

/// Reach only System V objects of sealed programs, where those have a namespace of their own.
#[rustfmt::skip]
const IPC: &[Sysno] = &[
    Sysno::shmget, Sysno::shmat, Sysno::shmctl, Sysno::shmdt, Sysno::semget, Sysno::semop,
    Sysno::semtimedop, Sysno::semctl, Sysno::msgget, Sysno::msgsnd, Sysno::msgrcv, Sysno::msgctl,
];

/// The same of POSIX message queues.
const QUEUES: &[Sysno] = &[
    Sysno::mq_open,
    Sysno::mq_unlink,
    Sysno::mq_timedsend,
    Sysno::mq_timedreceive,
    Sysno::mq_notify,
    Sysno::mq_getsetattr,
];

/// Name nothing but the process itself and descriptors that it holds; what they do may still reach
/// further: the network stack, file systems, quotas of its user (docs/containment.md). By family: bytes, descriptors, memory,
/// waiting, time, signals of its own, processes of its own, itself, sockets.
#[rustfmt::skip]
const PASS: &[Sysno] = &[
    Sysno::read, Sysno::write, Sysno::readv, Sysno::writev, Sysno::pread64, Sysno::pwrite64,
    Sysno::preadv, Sysno::pwritev, Sysno::preadv2, Sysno::pwritev2, Sysno::lseek, Sysno::sendfile,
    Sysno::splice, Sysno::tee, Sysno::vmsplice, Sysno::copy_file_range, Sysno::ftruncate,
    Sysno::fallocate, Sysno::fsync, Sysno::fdatasync, Sysno::sync_file_range, Sysno::sync,
    Sysno::syncfs, Sysno::readahead, Sysno::fadvise64,
    Sysno::close, Sysno::close_range, Sysno::dup, Sysno::dup2, Sysno::dup3, Sysno::pipe,
    Sysno::pipe2, Sysno::fstat, Sysno::fstatfs, Sysno::getdents, Sysno::getdents64, Sysno::fchdir,
    Sysno::fgetxattr, Sysno::flistxattr, Sysno::memfd_create,
    Sysno::mmap, Sysno::munmap, Sysno::mprotect, Sysno::mremap, Sysno::brk, Sysno::madvise,
    Sysno::msync, Sysno::mincore, Sysno::mlock, Sysno::mlock2, Sysno::munlock, Sysno::mlockall,
    Sysno::munlockall, Sysno::membarrier, Sysno::pkey_alloc,
    Sysno::pkey_free, Sysno::pkey_mprotect, Sysno::mseal, Sysno::mbind, Sysno::set_mempolicy,
    Sysno::get_mempolicy,
    Sysno::poll, Sysno::ppoll, Sysno::select, Sysno::pselect6, Sysno::epoll_create,
    Sysno::epoll_create1, Sysno::epoll_ctl, Sysno::epoll_wait, Sysno::epoll_pwait,
    Sysno::epoll_pwait2, Sysno::eventfd, Sysno::eventfd2, Sysno::signalfd, Sysno::signalfd4,
    Sysno::timerfd_create, Sysno::timerfd_settime, Sysno::timerfd_gettime, Sysno::inotify_init,
    Sysno::inotify_init1, Sysno::inotify_rm_watch, Sysno::futex, Sysno::futex_waitv,
    Sysno::nanosleep, Sysno::clock_nanosleep, Sysno::clock_gettime, Sysno::clock_getres,
    Sysno::gettimeofday, Sysno::time, Sysno::times, Sysno::getitimer, Sysno::setitimer,
    Sysno::alarm, Sysno::pause, Sysno::timer_create, Sysno::timer_settime, Sysno::timer_gettime,
    Sysno::timer_getoverrun, Sysno::timer_delete,
    Sysno::rt_sigaction, Sysno::rt_sigprocmask, Sysno::rt_sigreturn, Sysno::rt_sigpending,
    Sysno::rt_sigtimedwait, Sysno::rt_sigsuspend, Sysno::sigaltstack, Sysno::restart_syscall,
    Sysno::wait4, Sysno::waitid, Sysno::exit, Sysno::exit_group,
    Sysno::set_tid_address, Sysno::set_robust_list, Sysno::rseq, Sysno::arch_prctl,
    Sysno::getpid, Sysno::gettid, Sysno::getppid, Sysno::getpgrp,
    Sysno::setpgid, Sysno::setsid, Sysno::getuid, Sysno::geteuid, Sysno::getgid, Sysno::getegid,
    Sysno::getresuid, Sysno::getresgid, Sysno::getgroups, Sysno::setuid, Sysno::setgid,
    Sysno::setreuid, Sysno::setregid, Sysno::setresuid, Sysno::setresgid, Sysno::setfsuid,
    Sysno::setfsgid, Sysno::capget, Sysno::capset, Sysno::getrlimit,
    Sysno::getrusage, Sysno::sched_yield, Sysno::sched_get_priority_max,
    Sysno::sched_get_priority_min, Sysno::getcpu, Sysno::uname, Sysno::sysinfo, Sysno::getrandom,
    Sysno::landlock_create_ruleset, Sysno::landlock_add_rule, Sysno::landlock_restrict_self,
    Sysno::accept, Sysno::accept4, Sysno::recvfrom, Sysno::recvmsg, Sysno::recvmmsg,
    Sysno::getsockname, Sysno::getpeername, Sysno::getsockopt, Sysno::shutdown,
];

/// Namespaces of one's own (source: sched.h): with them a fence could be looked at from inside.
pub const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// What a thread may stop to share with its process; the last three only ask whether it is the
/// only one (unshare(2)).
const OWN_TABLES: u32 = (libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SYSVSEM
    | libc::CLONE_THREAD
    | libc::CLONE_SIGHAND
    | libc::CLONE_VM) as u32;

/// Requests on terminals, pipes, sockets and files that change nothing beyond what a descriptor
/// stands for. Not TIOCSTI and TIOCLINUX, which type on behalf of others (CVE-2017-5226), and not
/// FS_IOC_SETFLAGS, which a descriptor for reading would be enough for, and not FIOASYNC, which
/// passes only where the kernel fences signals.
const REQUESTS: &[u32] = &[
    libc::TCGETS as u32,
    libc::TCSETS as u32,
    libc::TCSETSW as u32,
    libc::TCSETSF as u32,
    libc::TCSBRK as u32,
    libc::TCXONC as u32,
    libc::TCFLSH as u32,
    libc::TIOCGWINSZ as u32,
    libc::TIOCSWINSZ as u32,
    libc::TIOCGPGRP as u32,
    libc::TIOCSPGRP as u32,
    libc::TIOCGSID as u32,
    libc::TIOCNOTTY as u32,
    libc::TIOCSCTTY as u32,
    libc::TIOCGPTN as u32,
    libc::TIOCSPTLCK as u32,
    libc::TIOCGPTPEER as u32,
    libc::TIOCOUTQ as u32,
    libc::FIONREAD as u32,
    libc::FIONBIO as u32,
    libc::FIOCLEX as u32,
    libc::FIONCLEX as u32,
    BLOCK_SIZE,
    FILE_SIZE,
    libc::FS_IOC_GETFLAGS as u32,
    libc::FICLONE as u32,
    libc::FICLONERANGE as u32,
];

/// FIGETBSZ (source: linux/fs.h), FIOQSIZE (source: asm-generic/ioctls.h) and F_GETSIG (source:
/// fcntl.h).
const BLOCK_SIZE: u32 = 2;
const FILE_SIZE: u32 = 0x5460;
const GET_SIGNAL: u32 = 11;

/// Commands of fcntl(2) on descriptors held. Not F_SETLEASE and F_NOTIFY, which make others wait
/// or be watched; F_SETOWN only because the signal that it asks for is fenced or asked about. First come
/// those that lock, last is the one that sets flags.
const DESCRIPTOR_COMMANDS: &[u32] = &[
    libc::F_SETLK as u32,
    libc::F_SETLKW as u32,
    libc::F_OFD_SETLK as u32,
    libc::F_OFD_SETLKW as u32,
    libc::F_DUPFD as u32,
    libc::F_DUPFD_CLOEXEC as u32,
    libc::F_GETFD as u32,
    libc::F_SETFD as u32,
    libc::F_GETFL as u32,
    libc::F_GETLK as u32,
    libc::F_OFD_GETLK as u32,
    libc::F_GETOWN as u32,
    GET_SIGNAL,
    libc::F_GETLEASE as u32,
    libc::F_SETPIPE_SZ as u32,
    libc::F_GETPIPE_SZ as u32,
    libc::F_ADD_SEALS as u32,
    libc::F_GET_SEALS as u32,
    libc::F_SETFL as u32,
];
const LOCK_COMMANDS: usize = 4;

/// Of itself only.
const PROCESS_OPTIONS: &[u32] = &[
    libc::PR_SET_PDEATHSIG as u32,
    libc::PR_GET_PDEATHSIG as u32,
    libc::PR_GET_DUMPABLE as u32,
    libc::PR_SET_NAME as u32,
    libc::PR_GET_NAME as u32,
    libc::PR_GET_SECCOMP as u32,
    libc::PR_CAPBSET_READ as u32,
    libc::PR_SET_TIMERSLACK as u32,
    libc::PR_GET_TIMERSLACK as u32,
    libc::PR_SET_NO_NEW_PRIVS as u32,
    libc::PR_GET_NO_NEW_PRIVS as u32,
    libc::PR_SET_CHILD_SUBREAPER as u32,
    libc::PR_GET_CHILD_SUBREAPER as u32,
    libc::PR_GET_KEEPCAPS as u32,
    libc::PR_GET_SECUREBITS as u32,
    libc::PR_CAP_AMBIENT as u32,
    libc::PR_SET_VMA as u32,
    libc::PR_SET_THP_DISABLE as u32,
    libc::PR_GET_THP_DISABLE as u32,
];

const DOMAINS: &[u32] = &[libc::AF_UNIX as u32, libc::AF_INET as u32, libc::AF_INET6 as u32];
/// Not SOCK_SEQPACKET, which is SCTP where it is not a unix socket's, without its number.
const TYPES: &[u32] = &[libc::SOCK_STREAM as u32, libc::SOCK_DGRAM as u32];
const TYPES_OF_PAIRS: &[u32] =
    &[libc::SOCK_STREAM as u32, libc::SOCK_DGRAM as u32, libc::SOCK_SEQPACKET as u32];

/// The default of the type, TCP and UDP. Not MPTCP, whose kernel connects to addresses that its
/// peer names, nor ICMP, nor what else hides behind a familiar type.
const PROTOCOLS: &[u32] = &[0, libc::IPPROTO_TCP as u32, libc::IPPROTO_UDP as u32];

/// Whether a socket of this domain, type and protocol passes where the program makes its own.
pub fn passes_socket(numbers: [i32; 3]) -> bool {
    let lists = [DOMAINS, TYPES, PROTOCOLS];
    lists.iter().zip(numbers).all(|(list, number)| list.contains(&(number as u32)))
}

/// Pass under a condition. Who is 0 is oneself.
#[rustfmt::skip]
const CONDITIONAL: &[(Sysno, Condition)] = &[
    // Threads end with their process. New processes are asked about, so that there are no more
    // of them once the program is to end: otherwise one that forks and ends, and so on, could be
    // faster than whoever kills it.
    (Sysno::clone, Condition::LowWith(0, libc::CLONE_THREAD as u32, NAMESPACES)),
    // A thread's own directory, mask and descriptors.
    (Sysno::unshare, Condition::LowWithout(0, !OWN_TABLES)),
    (Sysno::ioctl, Condition::LowIn(1, REQUESTS)),
    (Sysno::prctl, Condition::LowIn(0, PROCESS_OPTIONS)),
    // A null pointer with AT_EMPTY_PATH is the descriptor itself, and else EFAULT.
    (Sysno::newfstatat, Condition::Zero(1)),
    (Sysno::statx, Condition::Zero(1)),
    // Without an address it goes where the socket is connected to.
    (Sysno::sendto, Condition::Zero(4)),
    (Sysno::socket, Condition::Socket(DOMAINS, TYPES, PROTOCOLS)),
    (Sysno::socketpair, Condition::Socket(&DOMAINS_OF_PAIRS, TYPES_OF_PAIRS, &[0])),
    (Sysno::setsockopt, Condition::Option(OPTIONS)),
    // The limit of core files is the fence's.
    (Sysno::prlimit64, Condition::LowZeroAndNot(0, 1, libc::RLIMIT_CORE)),
    (Sysno::setrlimit, Condition::LowNot(0, libc::RLIMIT_CORE)),
    (Sysno::setpriority, Condition::LowZeros(0, 1)),
    (Sysno::getpriority, Condition::LowZeros(0, 1)),
    (Sysno::getpgid, Condition::LowIn(0, &[0])),
    (Sysno::getsid, Condition::LowIn(0, &[0])),
    (Sysno::sched_getaffinity, Condition::LowIn(0, &[0])),
    (Sysno::sched_setaffinity, Condition::LowIn(0, &[0])),
    (Sysno::sched_getparam, Condition::LowIn(0, &[0])),
    (Sysno::sched_setparam, Condition::LowIn(0, &[0])),
    (Sysno::sched_getscheduler, Condition::LowIn(0, &[0])),
    (Sysno::sched_setscheduler, Condition::LowIn(0, &[0])),
    (Sysno::sched_getattr, Condition::LowIn(0, &[0])),
    (Sysno::sched_setattr, Condition::LowIn(0, &[0])),
    (Sysno::sched_rr_get_interval, Condition::LowIn(0, &[0])),
    (Sysno::get_robust_list, Condition::LowIn(0, &[0])),
    (Sysno::personality, Condition::LowIn(0, &[0, u32::MAX])),
    // A filter of one's own can only forbid more; one with a listener would hide the fence's.
    (Sysno::seccomp, Condition::Zero(1)),
];

const DOMAINS_OF_PAIRS: [u32; 1] = [libc::AF_UNIX as u32];

#[cfg(test)]
mod tests {
    use super::*;

    /// How many calls pass whatever their arguments are, and how many on a condition.
    fn passing(signals: bool, ipc: bool) -> (usize, usize) {
        let fenced = Fenced { signals, ipc, queues: ipc, ..Fenced::default() };
        let rules: Vec<_> = (0..1024).map(|number| rule(number, fenced)).collect();
        let always = |rule: &&Rule| **rule == Rule::Always(Verdict::Allow);
        let conditional = |rule: &&Rule| matches!(rule, Rule::If(_));
        (rules.iter().filter(always).count(), rules.iter().filter(conditional).count())
    }

    #[test]
    fn the_document_says_how_many_calls_pass() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/containment.md");
        let document = std::fs::read_to_string(file).expect("docs/containment.md");
        let (least, conditional) = passing(false, false);
        let ((signals, of_signals), (most, _)) = (passing(true, false), passing(true, true));
        assert_eq!(conditional, of_signals, "what is fenced otherwise passes at once");
        let said = format!(
            "{least} calls pass whatever their arguments are, {conditional} more on a condition"
        );
        assert!(document.contains(&said), "docs/containment.md should say: {said}");
        let said =
            format!("({signals} where the kernel fences signals, {most} with an IPC namespace)");
        assert!(document.contains(&said), "docs/containment.md should say: {said}");
    }
}

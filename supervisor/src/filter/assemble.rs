//! From the tables to instructions: a balanced tree over runs of numbers.
//!
//! The kernel remembers the numbers whose verdict depends on nothing else (seccomp's action
//! cache), so that a call that always passes costs no instruction of this.

use heliostat_backend_seal::{Instruction, Verdict};

use super::conditions;
use super::table::{self, Rule};
use super::{supervisor, Fenced};

/// Offsets in `seccomp_data` (source: linux/seccomp.h).
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// Numbers above belong to other call tables (x32) or do not exist.
const NUMBERS: u32 = 1024;

/// The whole filter of a program.
pub fn assemble(fenced: Fenced) -> Vec<Instruction> {
    of_rules(|number| table::rule(number, fenced), Verdict::Notify)
}

/// That of its supervisor; `users` are those that its threads may act for, or any.
pub fn of_supervisor(users: Option<Option<Vec<u32>>>) -> Vec<Instruction> {
    let ids = users.map(supervisor::rule_of_ids);
    of_rules(|number| supervisor::rule(number, ids), supervisor::OTHERWISE)
}

fn of_rules(rule: impl Fn(u32) -> Rule, otherwise: Verdict) -> Vec<Instruction> {
    let no_such_call = Instruction::end(Verdict::Errno(libc::ENOSYS as u16));
    let mut whole = vec![
        Instruction::load(ARCH),
        Instruction::is_equal(AUDIT_ARCH_X86_64, 1, 0),
        no_such_call,
        Instruction::load(NUMBER),
        Instruction::is_at_least(NUMBERS, 0, 1),
        no_such_call,
    ];
    whole.extend(tree(&runs(rule), otherwise));
    whole
}

/// (first number, rule) of each run of numbers with the same rule.
fn runs(rule: impl Fn(u32) -> Rule) -> Vec<(u32, Rule)> {
    let mut runs: Vec<(u32, Rule)> = Vec::new();
    for number in 0..NUMBERS {
        let rule = rule(number);
        if runs.last().is_none_or(|(_, before)| *before != rule) {
            runs.push((number, rule));
        }
    }
    runs
}

fn tree(runs: &[(u32, Rule)], otherwise: Verdict) -> Vec<Instruction> {
    if let [(_, rule)] = runs {
        return match rule {
            Rule::Always(verdict) => vec![Instruction::end(*verdict)],
            Rule::If(condition) => conditions::instructions(condition, otherwise),
        };
    }
    let (left, right) = runs.split_at(runs.len() / 2);
    let first_of_right = right.first().map_or(NUMBERS, |(number, _)| *number);
    let (left, right) = (tree(left, otherwise), tree(right, otherwise));
    // Conditional jumps reach 255 instructions; an unconditional one reaches all.
    let mut whole =
        vec![Instruction::is_at_least(first_of_right, 0, 1), Instruction::skip(left.len() as u32)];
    whole.extend(left);
    whole.extend(right);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use heliostat_base::sys::Sysno;

    /// What the kernel would do: (number, arguments) to the verdict's instruction.
    fn run(program: &[Instruction], number: u32, args: [u64; 6]) -> Instruction {
        let word = |offset: u32| match offset {
            NUMBER => number,
            ARCH => AUDIT_ARCH_X86_64,
            _ => {
                let argument = args[(offset as usize - 16) / 8];
                if offset % 8 == 0 {
                    argument as u32
                } else {
                    (argument >> 32) as u32
                }
            }
        };
        Instruction::run(program, word)
    }

    #[test]
    fn the_supervisor_makes_its_own_calls_and_no_others() {
        let program = of_supervisor(None);
        let verdict = |call: Sysno, args| run(&program, call as u32, args);
        let pass = Instruction::end(Verdict::Allow);
        let fails = Instruction::end(Verdict::Errno(libc::EPERM as u16));
        let executable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        for (call, args, expected) in [
            (Sysno::openat2, [0; 6], pass),
            (Sysno::process_vm_readv, [0; 6], pass),
            (Sysno::clone, [libc::CLONE_THREAD as u64, 0, 0, 0, 0, 0], pass),
            (Sysno::clone, [libc::SIGCHLD as u64, 0, 0, 0, 0, 0], fails),
            (Sysno::unshare, [libc::CLONE_FS as u64, 0, 0, 0, 0, 0], pass),
            (Sysno::unshare, [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0], fails),
            (Sysno::mmap, [0, 4096, libc::PROT_READ as u64, 0, 0, 0], pass),
            (Sysno::mmap, [0, 4096, executable, 0, 0, 0], fails),
            (Sysno::mprotect, [0, 4096, executable, 0, 0, 0], fails),
            (Sysno::socket, [libc::AF_UNIX as u64, 5, 0, 0, 0, 0], pass),
            (Sysno::socket, [libc::AF_NETLINK as u64, 3, 0, 0, 0, 0], fails),
            (Sysno::ioctl, [3, 0xc050_2100, 0, 0, 0, 0], pass),
            (Sysno::ioctl, [3, libc::TIOCSTI, 0, 0, 0, 0], fails),
            (Sysno::prlimit64, [7, 7, 0, 1, 0, 0], pass),
            (Sysno::prlimit64, [7, 7, 1, 0, 0, 0], fails),
        ] {
            assert_eq!(verdict(call, args), expected, "{call} {args:?}");
        }
        for call in [Sysno::execve, Sysno::execveat, Sysno::ptrace, Sysno::mount, Sysno::bpf] {
            assert_eq!(verdict(call, [0; 6]), fails, "{call}");
        }
    }

    #[test]
    fn the_supervisor_takes_the_ids_of_users_that_are_named_and_gives_them_back() {
        let none = u64::from(u32::MAX);
        let verdict = |users, ids: [u64; 3]| {
            let [real, effective, saved] = ids;
            let args = [real, effective, saved, 0, 0, 0];
            run(&of_supervisor(users), Sysno::setresuid as u32, args)
        };
        let pass = Instruction::end(Verdict::Allow);
        let fails = Instruction::end(Verdict::Errno(libc::EPERM as u16));
        let named = || Some(Some(vec![33, 41]));
        for id in [0, 33, 41] {
            assert_eq!(verdict(named(), [none, id, none]), pass, "{id}");
            assert_eq!(verdict(None, [none, id, none]), fails, "{id}: nobody is named");
        }
        for ids in [[none, 34, none], [33, 33, none], [none, 33, 33], [none, none, none]] {
            assert_eq!(verdict(named(), ids), fails, "{ids:?}");
        }
        assert_eq!(verdict(Some(None), [none, 34, none]), pass, "any, where all is granted");
        let capset = run(&of_supervisor(None), Sysno::capset as u32, [0; 6]);
        assert_eq!(capset, fails, "rights are settled where nobody becomes another");
    }

    #[test]
    fn conditions_hold_in_both_directions() {
        let program = assemble(Fenced { signals: true, ..Fenced::default() });
        let verdict = |call: Sysno, args| run(&program, call as u32, args);
        let (pass, ask) = (Instruction::end(Verdict::Allow), Instruction::end(Verdict::Notify));
        let high = 1u64 << 32;
        for (call, args, expected) in [
            (Sysno::read, [0; 6], pass),
            (Sysno::openat, [0; 6], ask),
            (Sysno::futex, [0; 6], pass),
            (Sysno::vmsplice, [0; 6], pass),
            (Sysno::statx, [0, 1, 0, 0, 0, 0], ask),
            (Sysno::statx, [0, high, 0, 0, 0, 0], ask),
            (Sysno::statx, [0; 6], pass),
            (Sysno::sendto, [0, 0, 0, 0, high, 0], ask),
            (Sysno::sendto, [1, 1, 1, 1, 0, 1], pass),
            (Sysno::setpriority, [0, 5, 0, 0, 0, 0], ask),
            (Sysno::setpriority, [1, 0, 0, 0, 0, 0], ask),
            (Sysno::setpriority, [0, 0, 5, 0, 0, 0], pass),
            (Sysno::ioctl, [0, libc::TCGETS, 0, 0, 0, 0], pass),
            (Sysno::ioctl, [0, libc::TIOCSTI, 0, 0, 0, 0], ask),
            (Sysno::ioctl, [0, libc::TIOCSTI | high, 0, 0, 0, 0], ask),
            (Sysno::clone, [libc::CLONE_THREAD as u64, 0, 0, 0, 0, 0], pass),
            (Sysno::clone, [libc::SIGCHLD as u64, 0, 0, 0, 0, 0], ask),
            (Sysno::clone, [(libc::CLONE_THREAD | libc::CLONE_NEWNET) as u64, 0, 0, 0, 0, 0], ask),
            (Sysno::clone, [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0], ask),
            (Sysno::socket, [libc::AF_INET as u64, 0o2000001, 0, 0, 0, 0], pass),
            (Sysno::socket, [libc::AF_INET as u64, 3, 0, 0, 0, 0], ask),
            (Sysno::socket, [libc::AF_INET6 as u64, 1, 6, 0, 0, 0], pass),
            (Sysno::socket, [libc::AF_INET as u64, 1, 132, 0, 0, 0], ask),
            (Sysno::socket, [libc::AF_INET as u64, 1, 262, 0, 0, 0], ask),
            (Sysno::socket, [libc::AF_INET as u64, 0o2000005, 0, 0, 0, 0], ask),
            (Sysno::socketpair, [libc::AF_UNIX as u64, 5, 0, 0, 0, 0], pass),
            (Sysno::setsockopt, [9, libc::SOL_SOCKET as u64, 2, 0, 0, 0], pass),
            (Sysno::setsockopt, [9, libc::IPPROTO_TCP as u64 | high, 1 | high, 0, 0, 0], pass),
            (Sysno::setsockopt, [9, libc::IPPROTO_IPV6 as u64, 26, 0, 0, 0], pass),
            (Sysno::setsockopt, [9, libc::SOL_SOCKET as u64, 26, 0, 0, 0], ask),
            (Sysno::setsockopt, [9, libc::IPPROTO_TCP as u64, 31, 0, 0, 0], ask),
            (Sysno::setsockopt, [9, libc::IPPROTO_IP as u64, 35, 0, 0, 0], ask),
            (Sysno::setsockopt, [9, libc::IPPROTO_IPV6 as u64, 20, 0, 0, 0], ask),
            (Sysno::setsockopt, [9, 282, 1, 0, 0, 0], ask),
            (Sysno::setsockopt, [9, 0, 4, 0, 0, 0], ask),
            (Sysno::socket, [libc::AF_NETLINK as u64, 1, 0, 0, 0, 0], ask),
            (Sysno::unshare, [libc::CLONE_THREAD as u64, 0, 0, 0, 0, 0], pass),
            (Sysno::unshare, [libc::CLONE_NEWIPC as u64, 0, 0, 0, 0, 0], ask),
            (Sysno::prlimit64, [1, 0, 0, 0, 0, 0], ask),
            (Sysno::prlimit64, [0, libc::RLIMIT_CORE.into(), 0, 0, 0, 0], ask),
            (Sysno::prlimit64, [0, high | u64::from(libc::RLIMIT_CORE), 0, 0, 0, 0], ask),
            (Sysno::setrlimit, [libc::RLIMIT_CORE.into(), 0, 0, 0, 0, 0], ask),
            (Sysno::setrlimit, [libc::RLIMIT_NOFILE.into(), 0, 0, 0, 0, 0], pass),
            (Sysno::prlimit64, [high, 0, 0, 0, 0, 0], pass),
        ] {
            assert_eq!(verdict(call, args), expected, "{call} {args:?}");
        }
    }

    #[test]
    fn descriptors_signal_others_only_where_the_kernel_fences_signals() {
        let verdict = |signals, call: Sysno, command: i32| {
            let program = assemble(Fenced { signals, ..Fenced::default() });
            run(&program, call as u32, [0, command as u64, 0, 0, 0, 0])
        };
        let (pass, ask) = (Instruction::end(Verdict::Allow), Instruction::end(Verdict::Notify));
        assert_eq!(verdict(true, Sysno::fcntl, libc::F_SETFL), pass);
        assert_eq!(verdict(false, Sysno::fcntl, libc::F_SETFL), ask);
        assert_eq!(verdict(false, Sysno::fcntl, libc::F_GETFL), pass);
        assert_eq!(verdict(true, Sysno::ioctl, libc::FIOASYNC as i32), ask);
    }

    #[test]
    fn what_no_control_group_counts_is_asked_for_where_memory_is_limited() {
        let verdict = |signals, bounds, call: Sysno, command: i32| {
            let program = assemble(Fenced { signals, bounds, ..Fenced::default() });
            run(&program, call as u32, [0, command as u64, 0, 0, 0, 0])
        };
        let (pass, ask) = (Instruction::end(Verdict::Allow), Instruction::end(Verdict::Notify));
        for signals in [false, true] {
            for command in [libc::F_SETLK, libc::F_SETLKW, libc::F_OFD_SETLK, libc::F_OFD_SETLKW] {
                assert_eq!(verdict(signals, true, Sysno::fcntl, command), ask, "{command}");
                assert_eq!(verdict(signals, false, Sysno::fcntl, command), pass, "{command}");
            }
            for command in [libc::F_GETLK, libc::F_GETFL, libc::F_DUPFD_CLOEXEC] {
                assert_eq!(verdict(signals, true, Sysno::fcntl, command), pass, "{command}");
            }
            let flags = verdict(signals, true, Sysno::fcntl, libc::F_SETFL);
            assert_eq!(flags, if signals { pass } else { ask });
        }
        assert_eq!(verdict(true, true, Sysno::mbind, 0), ask);
        assert_eq!(verdict(true, false, Sysno::mbind, 0), pass);
    }

    #[test]
    fn system_v_objects_pass_only_where_they_are_the_programs_own() {
        let first = |ipc| {
            let program = assemble(Fenced { signals: true, ipc, ..Fenced::default() });
            run(&program, Sysno::shmget as u32, [0; 6])
        };
        assert_eq!(first(true), Instruction::end(Verdict::Allow));
        assert_eq!(first(false), Instruction::end(Verdict::Notify));
    }

    #[test]
    fn rings_are_absent_without_anybody_being_asked() {
        let program = assemble(Fenced { signals: true, ..Fenced::default() });
        let absent = Instruction::end(Verdict::Errno(libc::ENOSYS as u16));
        for call in [Sysno::io_uring_setup, Sysno::io_uring_enter, Sysno::io_uring_register] {
            assert_eq!(run(&program, call as u32, [8; 6]), absent, "{call}");
        }
    }

    #[test]
    fn sockets_are_asked_about_where_descriptors_cannot_be_copied() {
        let verdict = |copies, call: Sysno| {
            let fenced = Fenced { signals: true, copies, ..Fenced::default() };
            run(&assemble(fenced), call as u32, [libc::AF_INET as u64, 1, 0, 0, 0, 0])
        };
        let (pass, ask) = (Instruction::end(Verdict::Allow), Instruction::end(Verdict::Notify));
        assert_eq!([true, false].map(|copies| verdict(copies, Sysno::socket)), [pass, ask]);
        let absent = Instruction::end(Verdict::Errno(libc::ENOSYS as u16));
        let watchers = [true, false].map(|copies| verdict(copies, Sysno::inotify_init1));
        assert_eq!(watchers, [pass, absent]);
        let added = [true, false].map(|copies| verdict(copies, Sysno::inotify_add_watch));
        assert_eq!(added, [ask, absent]);
    }

    #[test]
    fn root_asks_before_it_becomes_another() {
        let verdict = |root, id: u64| {
            let program = assemble(Fenced { signals: true, root, ..Fenced::default() });
            run(&program, Sysno::setgid as u32, [id, 0, 0, 0, 0, 0])
        };
        let pass = Instruction::end(Verdict::Allow);
        assert_eq!([verdict(true, 0), verdict(false, 33)], [pass, pass]);
        assert_eq!(verdict(true, 33), Instruction::end(Verdict::Notify));
    }

    #[test]
    fn the_filter_fits_the_kernels_limit() {
        for signals in [false, true] {
            let every = Fenced {
                signals,
                ipc: signals,
                queues: signals,
                bounds: signals,
                hides_users: signals,
                counts: !signals,
                root: signals,
                becomes: signals,
                copies: signals,
            };
            let length = assemble(every).len();
            assert!(length < 4096, "{length} instructions");
        }
    }
}

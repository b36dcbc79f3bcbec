//! What sealed programs stand on: notifications, Landlock, openat2, pidfd_getfd, control groups.

use std::os::fd::AsRawFd;

use heliostat_backend_seal as seal;
use heliostat_supervisor::{landlock_abi, memory_group_is_allowed, spaces_are_allowed};
use rustix::fs::{openat2, Mode, OFlags, ResolveFlags, CWD};

use super::Check;

/// All checks of this file. Losses and no obstacles: unsealed programs need none of it.
pub fn checks() -> Vec<Check> {
    vec![
        notifications(),
        landlock(),
        supervisor(),
        paths(),
        descriptors(),
        arguments(),
        groups(),
        spaces(),
    ]
}

/// The kernel says what it can do about a filter's verdict (seccomp(2)).
fn notifications() -> Check {
    let name = "seccomp notifications";
    let known = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail");
    if seal::is_taken() {
        return Check::fail(
            name,
            "another supervisor listens to this process already",
            "`run --sealed` cannot be nested: run it from outside, or leave --sealed out here",
        )
        .softened();
    }
    match known {
        Ok(known) if known.split_whitespace().any(|action| action == "user_notif") => {
            Check::ok(name, "calls of sealed programs can be answered")
        }
        _ => Check::fail(name, "none", "`run --sealed` needs a kernel with seccomp user_notif")
            .softened(),
    }
}

fn landlock() -> Check {
    let name = "Landlock";
    match landlock_abi() {
        0 => Check::fail(
            name,
            "none",
            "`run --sealed` needs it: CONFIG_SECURITY_LANDLOCK, and landlock in the lsm= list",
        )
        .softened(),
        abi @ 1..=5 => Check::warn(
            name,
            format!("version {abi}"),
            "from version 6 on (Linux 6.12) the kernel fences signals; here each is asked about",
        ),
        abi => Check::ok(name, format!("version {abi}")),
    }
}

/// The supervisor's own fence: without Landlock nothing is sealed, and before its third version it
/// does not keep a file from being emptied (Linux 6.2).
fn supervisor() -> Check {
    let name = "supervisor's fence";
    let rights = match rustix::process::geteuid().is_root() {
        true => ", nine capabilities",
        false => "",
    };
    match landlock_abi() {
        0 => Check::warn(name, "no Landlock", "`run --sealed` needs it, see above"),
        1..=2 => Check::warn(
            name,
            format!("a filter, Landlock for files but not for truncating them{rights}"),
            "from Linux 6.2 on a supervisor that was taken over cannot empty files either",
        ),
        _ => Check::ok(name, format!("a filter, Landlock for files and processes{rights}")),
    }
}

fn paths() -> Check {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = openat2(CWD, ".", flags, Mode::empty(), ResolveFlags::BENEATH);
    Check::of(
        "openat2",
        opened,
        "paths of sealed programs stay below what is granted",
        "`run --sealed` needs Linux 5.6, and a container that lets openat2 pass",
    )
    .softened()
}

fn descriptors() -> Check {
    let own = std::process::id() as i32;
    let copied =
        std::fs::File::open("/dev/null").map_err(|error| error.to_string()).and_then(|file| {
            seal::descriptor_of(own, file.as_raw_fd()).map_err(|error| format!("refused: {error}"))
        });
    Check::of(
        "pidfd_getfd",
        copied,
        "sealed programs make their own sockets, and they are connected for them",
        "sockets of sealed programs are made by the supervisor instead; those with threads send no \
         descriptors to others, and file watches (inotify) do not exist for them: allow pidfd_getfd \
         (Linux 5.6) in the container's seccomp profile, or add CAP_SYS_PTRACE",
    )
    .softened()
}

/// The arguments of calls are read out of the program's memory, as a tracer would (Yama.rst).
fn arguments() -> Check {
    let name = "memory of children";
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let is_root = rustix::process::geteuid().is_root();
    match yama.trim().parse().unwrap_or(0) {
        scope @ 2.. if scope > 2 || !is_root => Check::fail(
            name,
            format!("kernel.yama.ptrace_scope is {scope}"),
            "`run --sealed` reads its program's memory: set it to 1, or to 2 and run as root",
        )
        .softened(),
        _ => Check::ok(name, "the arguments of sealed programs' calls can be read"),
    }
}

/// Where a sealed program has its own temporary files and IPC objects.
fn spaces() -> Check {
    let name = "own /tmp and IPC";
    match spaces_are_allowed() {
        true => {
            let who = match rustix::process::geteuid().is_root() {
                true => "root's namespaces",
                false => "a user namespace",
            };
            Check::ok(name, format!("in {who}, bounded"))
        }
        false => Check::warn(
            name,
            "no namespaces can be made",
            "sealed programs' own /tmp is a folder without a limit, and they have no System V objects \
             and no POSIX queues: allow user namespaces (user.max_user_namespaces, a container's \
             filter)",
        ),
    }
}

fn groups() -> Check {
    let name = "control groups";
    match memory_group_is_allowed() {
        true => Check::ok(name, "the memory of a sealed program can be limited as a whole"),
        false => Check::warn(
            name,
            "none can be made",
            "--memory then limits each process by itself; a service with Delegate=yes, or \
             `systemd-run --user --scope`, gives groups",
        ),
    }
}

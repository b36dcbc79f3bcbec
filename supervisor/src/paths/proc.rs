//! What of /proc exists for a sealed program: its own processes' entries and a few of all.
//!
//! Only for reading. Never memory, namespaces, or entries by which one process reaches into
//! another (proc(5)).

use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;

/// Entries below /proc that every program may read.
pub const COMMON: &[&str] = &[
    "cpuinfo",
    "filesystems",
    "loadavg",
    "meminfo",
    "stat",
    "sys",
    "uptime",
    "version",
    "vmstat",
    "cgroups",
    "devices",
    "misc",
];
/// Entries of a process.
const OF_PROCESS: &[&str] = &[
    "auxv",
    "cgroup",
    "cmdline",
    "comm",
    "cwd",
    "environ",
    "exe",
    "fd",
    "fdinfo",
    "io",
    "limits",
    "loginuid",
    "maps",
    "mountinfo",
    "mounts",
    "oom_score",
    "oom_score_adj",
    "personality",
    "root",
    "sched",
    "schedstat",
    "sessionid",
    "smaps",
    "smaps_rollup",
    "stat",
    "statm",
    "status",
    "task",
    "timers",
    "uid_map",
    "gid_map",
    "setgroups",
    "wchan",
];
/// Below /proc/sys, by prefix.
const SETTINGS: &[&str] = &[
    "kernel/cap_last_cap",
    "kernel/hostname",
    "kernel/domainname",
    "kernel/ngroups_max",
    "kernel/osrelease",
    "kernel/ostype",
    "kernel/pid_max",
    "kernel/random",
    "kernel/threads-max",
    "kernel/version",
    "kernel/seccomp",
    "kernel/core_pattern",
    "fs/file-max",
    "fs/nr_open",
    "fs/pipe-max-size",
    "fs/inotify",
    "fs/aio-max-nr",
    "net/core/somaxconn",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv6/conf/all",
    "vm/max_map_count",
    "vm/mmap_min_addr",
    "vm/overcommit_memory",
    "vm/nr_hugepages",
];

/// Which processes are behind the fence.
pub trait Sandbox {
    /// Whether the process with this number is.
    fn holds(&self, process: i32) -> bool;

    /// The numbers of all of them.
    fn all(&self) -> Vec<i32>;

    /// The process that a thread belongs to.
    fn process_of(&self, thread: i32) -> i32;
}

/// The thread that walks. Its own process is behind the fence, and nobody has to be asked.
pub struct Caller<'a> {
    /// Knows the others.
    pub sandbox: &'a dyn Sandbox,
    /// The thread.
    pub thread: i32,
    /// Its process, once somebody wanted to know.
    pub process: Option<i32>,
}

impl Caller<'_> {
    fn process(&mut self) -> i32 {
        *self.process.get_or_insert_with(|| self.sandbox.process_of(self.thread))
    }

    fn holds(&self, process: i32) -> bool {
        process == self.thread || Some(process) == self.process || self.sandbox.holds(process)
    }
}

/// Whether an entry exists, given its names below /proc.
pub fn exists(caller: &Caller<'_>, names: &[&str]) -> bool {
    match names {
        [] => true,
        [first] => is_process(caller, first) || COMMON.contains(first) || is_link(first),
        ["sys", rest @ ..] => {
            let rest = rest.join("/");
            let leads = |known: &&str| below(known, &rest) || below(&rest, known);
            SETTINGS.iter().any(leads)
        }
        [process, "task", _, entry, ..] => is_process(caller, process) && is_shown(entry),
        [process, entry, ..] => is_process(caller, process) && is_shown(entry),
    }
}

/// Whether `path` is `folder` or below.
fn below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_shown(entry: &str) -> bool {
    OF_PROCESS.contains(&entry)
}

fn is_process(caller: &Caller<'_>, name: &str) -> bool {
    name.parse().is_ok_and(|number| caller.holds(number))
}

fn is_link(name: &str) -> bool {
    matches!(name, "self" | "thread-self" | "mounts")
}

/// The text of an entry that is a link for the program, by names below /proc.
pub fn link(caller: &mut Caller<'_>, names: &[&str]) -> Option<String> {
    match names {
        ["self"] => Some(caller.process().to_string()),
        ["thread-self"] => Some(format!("{}/task/{}", caller.process(), caller.thread)),
        ["mounts"] => Some("self/mounts".to_owned()),
        _ => None,
    }
}

/// Whether names below /proc name a descriptor of a process, and which.
pub fn descriptor(names: &[&str]) -> Option<(i32, i32)> {
    match names {
        [process, "fd", number] => Some((process.parse().ok()?, number.parse().ok()?)),
        [_, "task", thread, "fd", number] => Some((thread.parse().ok()?, number.parse().ok()?)),
        _ => None,
    }
}

/// Whether names below /proc are a link to a file or folder: what it leads to has a name.
pub fn is_place(names: &[&str]) -> bool {
    matches!(names, [_, "exe" | "cwd" | "root"] | [_, "task", _, "exe" | "cwd" | "root"])
}

/// Whether what is open lies in an instance of /proc.
pub fn is_proc(fd: &OwnedFd) -> bool {
    /// Source: linux/magic.h.
    const PROC: i64 = 0x9fa0;
    rustix::fs::fstatfs(fd).is_ok_and(|found| found.f_type == PROC)
}

/// Whether a directory found in `folder` is an instance of /proc that somebody mounted there. Its
/// `self` would be the supervisor.
pub fn is_mounted(folder: &OwnedFd, found: &OwnedFd) -> bool {
    let device = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|found| found.st_dev).ok();
    device(folder) != device(found) && is_proc(found)
}

/// Opens what a descriptor's entry in its process's folder stands for, by path only. The folder is
/// that process's as long as it is held, whoever gets its number.
pub fn opened(folder: &OwnedFd, name: &OsStr) -> Option<OwnedFd> {
    rustix::fs::openat(folder, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

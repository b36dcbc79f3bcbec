//! What of /proc exists for a sealed program: its own processes' entries and a few of all.
//!
//! Only for reading. Never memory, namespaces, or entries by which one process reaches into
//! another (proc(5)).

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use heliostat_base::sys::Errno;
use rustix::fs::{Mode, OFlags};

use crate::acting;
use crate::errno::errno;

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

    /// Whether names below /proc lie in the caller's own process. Asked where it has become another
    /// user; who has not may look into all of them.
    pub fn is_own(&mut self, names: &[&str]) -> bool {
        let Some(number) = names.first().and_then(|first| first.parse::<i32>().ok()) else {
            return false;
        };
        acting::user().is_some() && (number == self.thread || number == self.process())
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

/// Entries of a process that the kernel shows by the rights to look into it (proc(5)), and not by
/// their modes.
const LOOKED_INTO: &[&str] =
    &["cwd", "exe", "fdinfo", "maps", "root", "smaps", "smaps_rollup", "timers", "wchan"];

/// Whether names below /proc name such an entry, of a process or of a thread, or what is in one.
fn is_looked_into(names: &[&str]) -> bool {
    match names {
        ["sys", ..] => false,
        [_, "task", _, entry, ..] | [_, entry, ..] => LOOKED_INTO.contains(entry),
        _ => false,
    }
}

/// Whether the user that the caller has become may see an entry of another process, whose folder is
/// `folder`: a process that may be looked into has that user's folder.
///
/// # Errors
/// EACCES.
pub fn check_user(folder: &OwnedFd, names: &[&str]) -> Result<(), Errno> {
    let Some(user) = acting::user().filter(|_| is_looked_into(names)) else { return Ok(()) };
    let status = rustix::fs::fstat(folder).map_err(errno)?;
    match status.st_uid == user {
        true => Ok(()),
        false => Err(Errno(libc::EACCES)),
    }
}

/// Looks at an entry: at one of the caller's own process with the supervisor's rights, since the kernel
/// gives the folders of who has become another to root, and them to itself all the same.
pub fn by_owner<T>(is_own: bool, look: impl FnOnce() -> T) -> T {
    match is_own {
        true => acting::as_supervisor(look),
        false => look(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_by_the_right_to_look_is_told_from_the_rest() {
        let looked = |path: &str| is_looked_into(&path.split('/').collect::<Vec<_>>());
        for shown in ["7/exe", "7/fdinfo", "7/fdinfo/3", "7/task/8/fdinfo/3", "7/task/8/maps"] {
            assert!(looked(shown), "{shown}");
        }
        for open in ["7", "7/status", "7/task", "7/task/8", "7/task/8/stat", "sys/fdinfo", "stat"] {
            assert!(!looked(open), "{open}");
        }
    }
}

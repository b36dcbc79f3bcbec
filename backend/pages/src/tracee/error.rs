//! Why a process cannot be stopped, read or tracked, in words that say what to do about it.

use std::fs::File;
use std::io::Read;

use crate::track::TrackError;
use heliostat_base::sys::Errno;

/// Why something could not be done with another process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceError {
    /// It has ended, or runs another program now.
    Gone,
    /// Another process traces it.
    Traced {
        /// Number of the tracer.
        by: i32,
    },
    /// It must not be traced by this process.
    Refused {
        /// Error number of the system.
        errno: Errno,
        /// What is in the way, as far as it shows, and what to do about it.
        why: String,
    },
    /// It is no 64-bit x86 program.
    Foreign,
    /// A thread does not come out of the kernel.
    Stuck {
        /// Its number.
        tid: i32,
    },
    /// It is stopped by job control, and no call can be made in its name.
    JobStopped,
    /// A system call in its name was refused.
    Call {
        /// The call.
        call: &'static str,
        /// Its error number.
        errno: Errno,
    },
    /// It cannot be asked to make a system call.
    NoCall {
        /// Why not.
        why: &'static str,
    },
    /// Its writes cannot be tracked.
    Track(TrackError),
}

impl TraceError {
    /// Sorts the failure to open a file of /proc.
    pub(super) fn of_open(pid: i32, error: &std::io::Error) -> Self {
        match error.raw_os_error() {
            None | Some(libc::ENOENT | libc::ESRCH) => Self::Gone,
            Some(errno) => Self::of_seize(pid, pid, Errno(errno)),
        }
    }

    /// Sorts the refusal to trace thread `tid`.
    pub(super) fn of_seize(pid: i32, tid: i32, errno: Errno) -> Self {
        let status = status(&tid.to_string());
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let tracer = field("TracerPid:").and_then(|text| text.trim().parse().ok());
        let uids = field("Uid:").unwrap_or("");
        match tracer {
            Some(by) if by != 0 => Self::Traced { by },
            // Nobody without CAP_SYS_PTRACE is let near who has no memory any more (Linux 6.18).
            _ if is_own(uids) && has_no_memory(&status) => Self::Gone,
            _ => Self::Refused { errno, why: obstacle(pid, uids) },
        }
    }
}

fn status(process: &str) -> String {
    std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default()
}

/// Whether a thread is a zombie, or on its way to become one, or not there any more.
pub(super) fn has_ended(pid: i32, tid: i32) -> bool {
    has_no_memory(&status(&format!("{pid}/task/{tid}")))
}

fn has_no_memory(status: &str) -> bool {
    !status.lines().any(|line| line.starts_with("VmSize:"))
}

fn is_own(uids: &str) -> bool {
    let own = heliostat_base::process::effective_uid();
    uids.split_whitespace().all(|uid| uid.parse() == Ok(own))
}

/// What forbids to trace `pid`, most likely first (source: ptrace(2), "Ptrace access mode
/// checking").
fn obstacle(pid: i32, uids: &str) -> String {
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let yama = yama.ok().and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or(0);
    said(pid, is_own(uids), yama)
}

/// The same in words (source: Documentation/admin-guide/LSM/Yama.rst).
fn said(pid: i32, is_own: bool, yama: u32) -> String {
    match (is_own, yama) {
        (false, _) => format!(
            "process {pid} is another user's; run this as that user, or with CAP_SYS_PTRACE"
        ),
        (true, 1) => format!(
            "Yama allows only a program's ancestors to trace it (kernel.yama.ptrace_scope is \
             {yama}); use sudo, set it to 0, or have the program call prctl(PR_SET_PTRACER)"
        ),
        (true, 2) => format!(
            "Yama allows only administrators to trace (kernel.yama.ptrace_scope is {yama}); use \
             sudo, or set it to 0"
        ),
        (true, 3..) => format!(
            "Yama forbids all tracing until the next boot (kernel.yama.ptrace_scope is {yama}, \
             which cannot be lowered); start the machine with another value"
        ),
        _ => format!(
            "process {pid} is not dumpable (set-user-id, or prctl PR_SET_DUMPABLE), has more \
             capabilities than this one, or a security module forbids it; CAP_SYS_PTRACE helps"
        ),
    }
}

/// What /proc says of a process's system-call filters.
pub(super) fn filters(process: &str) -> Vec<String> {
    status(process).lines().filter(|line| line.starts_with("Seccomp")).map(str::to_owned).collect()
}

/// Refuses programs of another machine: their registers and system calls are others.
pub(super) fn check_machine(pid: i32) -> Result<(), TraceError> {
    const CLASS_64: u8 = 2;
    const MACHINE_X86_64: [u8; 2] = [62, 0];
    let mut head = [0; 20];
    let opened = File::open(format!("/proc/{pid}/exe"));
    let read = opened.and_then(|mut file| file.read_exact(&mut head));
    // A kernel thread has no program.
    read.map_err(|error| TraceError::of_open(pid, &error))?;
    match head[4] == CLASS_64 && head[18..20] == MACHINE_X86_64 {
        true => Ok(()),
        false => Err(TraceError::Foreign),
    }
}

impl std::fmt::Display for TraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone => f.write_str("the process has ended, or runs another program now"),
            Self::Traced { by } => {
                write!(f, "process {by} traces it already (a debugger?): end that first")
            }
            Self::Refused { errno, why } => write!(f, "it cannot be traced: {errno}: {why}"),
            Self::Foreign => f.write_str("it is no 64-bit x86 program; only such can be published"),
            Self::Stuck { tid } => write!(
                f,
                "its thread {tid} does not stand still: it waits in the kernel without end (vfork, \
                 a hung file system); nothing was changed, try again"
            ),
            Self::JobStopped => {
                f.write_str("it is stopped (SIGSTOP, Ctrl-Z); send it SIGCONT first")
            }
            Self::Call { call, errno } => {
                write!(f, "{call} in its name: {errno}: {}", refuser(*errno))
            }
            Self::NoCall { why } => write!(f, "no system call can be made in its name: {why}"),
            Self::Track(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for TraceError {}

/// Who refuses a call in a program's name. A userfaultfd for the program's own faults takes no
/// privilege, so it is hardly ever the kernel that forbids it.
fn refuser(errno: Errno) -> &'static str {
    match errno.0 {
        libc::EMFILE | libc::ENFILE => "it has no file descriptor left; raise its limit",
        libc::EPERM | libc::EACCES | libc::ENOSYS | libc::EBADF => {
            "its system-call filter (seccomp) refuses that, or a kernel without userfaultfd; \
             nothing was changed"
        }
        _ => "nothing was changed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_is_named_with_what_to_do_about_it() {
        let words = [
            (false, 1, "another user's; run this as that user"),
            (true, 0, "not dumpable"),
            (true, 1, "ptrace_scope is 1); use sudo, set it to 0"),
            (true, 2, "only administrators"),
            (true, 3, "until the next boot"),
        ];
        for (is_own, yama, wanted) in words {
            let text = said(77, is_own, yama);
            assert!(text.contains(wanted), "{text}");
        }
    }

    #[test]
    fn a_refused_call_names_who_refuses_it() {
        let text =
            |errno| TraceError::Call { call: "userfaultfd", errno: Errno(errno) }.to_string();
        assert!(text(libc::EPERM).contains("seccomp"));
        assert!(text(libc::EMFILE).contains("raise its limit"));
    }
}

//! Opens a name as a program would that has no more rights than its user, where that program is.
//!
//! The kernel judges: the thread has the user's rights while it opens (`rights.rs`), and begins at the program's own root folder, in its own mounts. So a name leads where it would lead
//! the program, and no further than that user's own open(2). What the rules say comes afterwards.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use heliostat_abi::file::delegated::{DIRECTORY, READ, WRITE};
use heliostat_service_grant::Holder;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{open as open_path, openat2, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::getuid;
use rustix::thread::CapabilitySet;

use super::judge::{within, Judge};

/// The umask of a program whose own cannot be read: what it makes is its user's alone.
const UMASK_UNKNOWN: u32 = 0o077;

/// For whom a name is opened.
pub struct Caller {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The groups that it is in beside that.
    pub groups: Vec<u32>,
    /// Its number here; 0 when it is not visible here.
    pub pid: u32,
    /// Whose share the file counts against.
    pub holder: Holder,
    /// The process that has this number, as long as it lives.
    pub process: Option<Arc<OwnedFd>>,
    /// What it may do, by the rules in force when it asked.
    pub judge: Box<dyn Judge>,
}

impl Caller {
    /// Its root folder. A program of another user's that may not be looked at is taken to have ours,
    /// since a control plane without the right to look (CAP_SYS_PTRACE) would else open nothing for
    /// anybody. One of our own user's may always be looked at, unless it hides: nothing is opened
    /// for it, as it may be in a folder that it is not to leave.
    pub fn root(&self) -> Result<OwnedFd, Errno> {
        let folder = format!("/proc/{}", self.pid);
        let found = match self.pid {
            0 => Err(Errno::ACCESS),
            _ => open_root(&format!("{folder}/root")),
        };
        // The number may have become another's before it was opened.
        match (found, self.is_there()) {
            (_, false) => Err(Errno::SRCH),
            (Err(Errno::ACCESS | Errno::PERM), true) if self.pid != 0 && !self.is_ours() => {
                open_root("/")
            }
            // Hidden (hidepid), or its first thread, whose root it would be, has ended.
            (Err(Errno::NOENT), true) if !Path::new(&folder).exists() => open_root("/"),
            (found, true) => found,
        }
    }

    /// Whether an ordinary user's control plane is asked by a program of that user. Root's programs
    /// may have more rights than root's control plane, and not be looked at for that.
    fn is_ours(&self) -> bool {
        let own = getuid();
        !own.is_root() && own.as_raw() == self.uid
    }

    /// The umask by which it makes files at this moment.
    pub fn umask(&self) -> u32 {
        let mask = self.status("Umask:");
        mask.and_then(|octal| u32::from_str_radix(&octal, 8).ok()).unwrap_or(UMASK_UNKNOWN)
    }

    /// The capabilities that it has at this moment. Those of another user namespace are none here,
    /// and what cannot be looked at counts as another.
    pub fn capabilities(&self) -> CapabilitySet {
        let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user")).ok();
        let its = namespace(&self.pid.to_string());
        if its.is_none() || its != namespace("self") {
            return CapabilitySet::empty();
        }
        let bits = self.status("CapEff:").and_then(|hex| u64::from_str_radix(&hex, 16).ok());
        CapabilitySet::from_bits_retain(bits.unwrap_or(0))
    }

    /// What the kernel says of it (proc_pid_status(5)).
    fn status(&self, field: &str) -> Option<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let value = text.lines().find_map(|line| line.strip_prefix(field))?;
        Some(value.trim().to_owned())
    }

    fn is_there(&self) -> bool {
        let Some(process) = &self.process else { return true };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)) == Ok(0)
    }
}

fn open_root(path: &str) -> Result<OwnedFd, Errno> {
    open_path(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a name below a root folder for `READ`, `WRITE` or both, or as a `DIRECTORY`. Waits as long
/// as the file system does; EAGAIN when a lease is in the way.
pub fn open_below(root: &OwnedFd, name: &[u8], argument: u64) -> Result<OwnedFd, Errno> {
    if !name.starts_with(b"/") {
        return Err(Errno::INVAL);
    }
    let is_directory = argument & DIRECTORY != 0;
    let directory = if is_directory { OFlags::DIRECTORY } else { OFlags::empty() };
    let flags = access_of(argument) | directory | OFlags::CLOEXEC;
    openat2(root, name, flags, Mode::empty(), within())
}

/// The flags of open(2) for the access in Open's argument.
pub fn access_of(argument: u64) -> OFlags {
    let access = match argument & (READ | WRITE) {
        READ => OFlags::RDONLY,
        WRITE => OFlags::WRONLY,
        _ => OFlags::RDWR,
    };
    // NONBLOCK: neither a FIFO nor a lease makes this thread wait.
    access | OFlags::NONBLOCK | OFlags::NOCTTY
}

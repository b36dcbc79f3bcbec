//! Opens a name as a program would that has no more rights than its user, where that program is.
//!
//! The kernel judges: the thread takes the user's and groups' numbers on before it opens, and
//! begins at the program's own root folder, in its own mounts. So a name leads where it would lead
//! the program, and no further than that user's own open(2). What the rules say comes afterwards.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use heliostat_abi::delegated::{DIRECTORY, READ, WRITE};
use heliostat_service_grant::Holder;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{open as open_path, openat2, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{geteuid, Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::super::task::Refusal;
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
    fn root(&self) -> Result<OwnedFd, Errno> {
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
        let own = geteuid();
        !own.is_root() && own.as_raw() == self.uid
    }

    /// The umask by which it makes files at this moment.
    pub fn umask(&self) -> u32 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid));
        let line = status.iter().flat_map(|text| text.lines());
        let mask = line.into_iter().find_map(|line| line.strip_prefix("Umask:"));
        let mask = mask.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok());
        mask.unwrap_or(UMASK_UNKNOWN)
    }

    fn is_there(&self) -> bool {
        let Some(process) = &self.process else { return true };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)) == Ok(0)
    }
}

/// Does something as the program would: with its user's rights, from its root folder, which is given.
/// Waits as long as that does.
pub fn act<T>(
    caller: &Caller,
    act: impl FnOnce(&OwnedFd) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let root = caller.root()?;
    let is_root = geteuid().is_root();
    if is_root {
        become_user(caller)?;
    }
    let answer = act(&root);
    if is_root && set_thread_res_uid(None::<Uid>, Uid::ROOT, None::<Uid>).is_err() {
        return Err(Errno::PERM.into());
    }
    answer
}

/// This thread's rights are the user's from now on; root stays the saved user, to come back to.
fn become_user(caller: &Caller) -> Result<(), Errno> {
    let groups: Vec<Gid> = caller.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(None::<Gid>, Gid::from_raw(caller.gid), None::<Gid>)?;
    set_thread_res_uid(None::<Uid>, Uid::from_raw(caller.uid), None::<Uid>)
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

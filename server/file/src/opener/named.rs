//! Opens a name as a program would that has no more rights than its user, where that program is.
//!
//! The kernel judges: the thread takes the user's and groups' numbers on before it opens, and
//! begins at the program's own root folder, in its own mounts. So a name leads where it would lead
//! the program, and no further than that user's own open(2). What the rules say comes afterwards.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use heliostat_abi::delegated::{READ, WRITE};
use heliostat_service_grant::Holder;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{open as open_path, openat2, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{geteuid, Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

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
    pub process: Option<OwnedFd>,
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

    fn is_there(&self) -> bool {
        let Some(process) = &self.process else { return true };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)) == Ok(0)
    }
}

/// Opens for `READ`, `WRITE` or both. Waits as long as the file system does; an errno otherwise,
/// EAGAIN when a lease is in the way.
pub fn open(caller: &Caller, name: &[u8], access: u64) -> Result<OwnedFd, i32> {
    let root = caller.root().map_err(Errno::raw_os_error)?;
    let is_root = geteuid().is_root();
    if is_root {
        become_user(caller).map_err(Errno::raw_os_error)?;
    }
    let answer = open_below(&root, name, access);
    if is_root && set_thread_res_uid(None::<Uid>, Uid::ROOT, None::<Uid>).is_err() {
        return Err(libc::EPERM);
    }
    answer.map_err(Errno::raw_os_error)
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

fn open_below(root: &OwnedFd, name: &[u8], access: u64) -> Result<OwnedFd, Errno> {
    let path = Path::new(std::ffi::OsStr::from_bytes(name));
    if !path.is_absolute() {
        return Err(Errno::INVAL);
    }
    let access = match access & (READ | WRITE) {
        READ => OFlags::RDONLY,
        WRITE => OFlags::WRONLY,
        _ => OFlags::RDWR,
    };
    // NONBLOCK: neither a FIFO nor a lease makes this thread wait.
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    // A magic link (/proc/self/fd/3) would lead to what this very process has open.
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags, Mode::empty(), within)
}

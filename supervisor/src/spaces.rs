//! Namespaces of a sealed program's own: its System V objects and message queues, and what lies at
//! `/tmp` and `/dev/shm`.
//!
//! A helper makes them and is gone; the program moves in. Who has no rights first gets a user
//! namespace, in which the helper has them. The supervisor stays outside, where users have the
//! numbers that they have for everybody, and reaches the files by the top of the tree there. What
//! lies in `/tmp` is memory, and gone with the last process that holds it, however that ends.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use heliostat_backend_seal::spaces::{join, leave, IPC, MOUNTS, USERS};
use heliostat_backend_seal::{fork_telling, Fork, Teller};
use heliostat_base::sys::Errno;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::process::{kill_process, waitpid, Pid, Signal, WaitOptions};

use crate::errno::errno;
use crate::proc::own_name;

/// Folders that are a program's own unless they are granted.
pub const OWN_PLACES: [&str; 2] = ["/tmp", "/dev/shm"];

const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// What is wanted.
#[derive(Debug, Default)]
pub struct Wanted<'a> {
    /// Folders that are to be the program's own, empty at first: `/tmp`, `/dev/shm`.
    pub places: &'a [&'static str],
    /// What is granted below them, and is there as it is outside. No links.
    pub granted: &'a [PathBuf],
    /// Bytes that they hold together; the kernel's half of the machine's memory if none.
    pub bytes: Option<u64>,
}

/// Namespaces, held open.
#[derive(Debug)]
pub struct Spaces {
    users: Option<OwnedFd>,
    ipc: OwnedFd,
    mounts: Option<OwnedFd>,
    /// The top of the file tree in there.
    top: OwnedFd,
    /// The folder of its message queues, if it has them.
    queues: Option<OwnedFd>,
}

impl Spaces {
    /// Makes them; `None` where that is not allowed. This process has one thread.
    pub fn make(wanted: &Wanted<'_>) -> Option<Self> {
        // Root's own rights are enough, and owners of files keep their numbers.
        let users = !rustix::process::geteuid().is_root();
        match fork_telling().ok()? {
            Fork::Child(teller) => help(wanted, users, &teller),
            Fork::Parent(child, hearer) => {
                let helper = Pid::from_raw(child)?;
                let made = hearer.hear().filter(|number| *number >= 0);
                let spaces =
                    made.map(|queues| Self::of(child, queues, users, !wanted.places.is_empty()));
                let _ = kill_process(helper, Signal::KILL);
                let _ = waitpid(Some(helper), WaitOptions::empty());
                spaces?.ok()
            }
        }
    }

    /// Those that a process is in.
    fn of(process: i32, queues: i32, users: bool, mounts: bool) -> io::Result<Self> {
        let open = |entry: &str, how: OFlags| {
            let path = format!("/proc/{process}/{entry}");
            rustix::fs::open(path, how | OFlags::CLOEXEC, Mode::empty())
        };
        let space = |kind: &str| open(&format!("ns/{kind}"), OFlags::RDONLY);
        Ok(Self {
            users: users.then(|| space("user")).transpose()?,
            ipc: space("ipc")?,
            mounts: mounts.then(|| space("mnt")).transpose()?,
            top: open("root", LOOK | OFlags::DIRECTORY)?,
            queues: if queues > 0 { open(&format!("fd/{queues}"), LOOK).ok() } else { None },
        })
    }

    /// Whether users other than the program's own are numbers of nobody's in there.
    pub fn hides_users(&self) -> bool {
        self.users.is_some()
    }

    /// The top of the file tree in there, where it is another than outside.
    pub fn top(&self) -> Option<&OwnedFd> {
        self.mounts.as_ref().map(|_| &self.top)
    }

    /// The folder of message queues, which the kernel's fence for files has to know.
    pub fn queues(&self) -> Option<&OwnedFd> {
        self.queues.as_ref()
    }

    /// Moves this process, which has one thread, into them. It stays in its folder, by name.
    ///
    /// # Errors
    /// Those of setns(2).
    pub fn enter(&self) -> Result<(), Errno> {
        if let Some(users) = &self.users {
            join(users, USERS)?;
        }
        join(&self.ipc, IPC)?;
        let Some(mounts) = &self.mounts else { return Ok(()) };
        let folder = std::env::current_dir();
        let held = rustix::fs::open(".", LOOK | OFlags::DIRECTORY, Mode::empty());
        join(mounts, MOUNTS)?;
        if folder.is_ok_and(|folder| std::env::set_current_dir(folder).is_ok()) {
            return Ok(());
        }
        // One that has no name any more, or that may not be gone to.
        rustix::process::fchdir(held.map_err(errno)?).map_err(errno)
    }
}

/// The helper: makes them, tells whether it could, and waits for its end.
fn help(wanted: &Wanted<'_>, users: bool, teller: &Teller) -> ! {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let queues = prepare(wanted, users);
    teller.tell(match &queues {
        Ok(Some(folder)) => std::os::fd::AsRawFd::as_raw_fd(folder),
        Ok(None) => 0,
        Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
    });
    loop {
        std::thread::park();
    }
}

/// Makes the namespaces; the folder of message queues, if it has one.
fn prepare(wanted: &Wanted<'_>, users: bool) -> io::Result<Option<OwnedFd>> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let mounts = if wanted.places.is_empty() { 0 } else { MOUNTS };
    let kinds = IPC | mounts | if users { USERS } else { 0 };
    leave(kinds).map_err(|Errno(number)| io::Error::from_raw_os_error(number))?;
    if users {
        // Who has no right over other groups gives that up first (user_namespaces(7)).
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{user} {user} 1", user = user.as_raw()))?;
        std::fs::write("/proc/self/gid_map", format!("{group} {group} 1", group = group.as_raw()))?;
    }
    if mounts == 0 {
        return Ok(None);
    }
    // Nothing of this is seen outside; what is mounted outside later is seen here.
    let follows = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", follows)?;
    furnish(wanted)
}

/// Puts memory at the places, one for all of them, and into it what is granted below.
fn furnish(wanted: &Wanted<'_>) -> io::Result<Option<OwnedFd>> {
    let folder = std::env::current_dir().ok();
    let open = |path: &Path| rustix::fs::open(path, LOOK, Mode::empty());
    // Covered in a moment.
    let granted: Vec<_> =
        wanted.granted.iter().filter_map(|path| Some((path, open(path).ok()?))).collect();
    let Some(first) = wanted.places.first() else { return Ok(None) };
    let size = wanted.bytes.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
    let options = std::ffi::CString::new(format!("mode=0755{size}"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", *first, "tmpfs", flags, options.as_c_str())?;
    let mut own = Vec::new();
    for (number, place) in wanted.places.iter().enumerate() {
        let path = Path::new(first).join(number.to_string());
        std::fs::create_dir(&path)?;
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o1777))?;
        own.push((place, open(&path)?));
    }
    let queues = mount_queues(&Path::new(first).join("queues"));
    for (place, folder) in &own {
        rustix::mount::mount_bind(own_name(folder), **place)?;
    }
    granted.iter().try_for_each(|(path, fd)| show(path, fd))?;
    // The folder that the program begins in is there, and empty.
    let is_below = |path: &&PathBuf| wanted.places.iter().any(|place| path.starts_with(place));
    folder.iter().filter(is_below).try_for_each(std::fs::create_dir_all)?;
    Ok(queues)
}

/// The folder of message queues, mounted where it is covered in a moment. Programs name queues, and
/// not this folder, which the kernel's fence for files has to know.
fn mount_queues(path: &Path) -> Option<OwnedFd> {
    std::fs::create_dir(path).ok()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("mqueue", path, "mqueue", flags, None).ok()?;
    rustix::fs::open(path, LOOK, Mode::empty()).ok()
}

/// Shows what is held at its own name.
fn show(path: &Path, held: &OwnedFd) -> io::Result<()> {
    let is_folder = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(held)?.st_mode)
        == rustix::fs::FileType::Directory;
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    match is_folder {
        true => std::fs::create_dir_all(path)?,
        false => drop(std::fs::File::options().append(true).create(true).open(path)?),
    }
    Ok(rustix::mount::mount_bind_recursive(own_name(held), path)?)
}

/// Whether namespaces of a program's own can be made here: tried, and gone again.
pub fn are_allowed() -> bool {
    Spaces::make(&Wanted { places: &["/tmp"], ..Wanted::default() }).is_some()
}

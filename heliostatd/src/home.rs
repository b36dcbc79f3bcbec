//! Where the daemon lives: the folder of its socket, the lock, the pid file.
//!
//! ```text
//! control.sock         the socket
//! control.sock.lock    flock of the one daemon that serves it; never removed, so that two
//!                      daemons can never hold locks on two files of the same name
//! control.sock.pid     its process number, for people
//! control.sock.log     its log, when it was started in the background
//! ```

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use heliostat_abi::place::{self, FolderFacts, Surroundings};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Why there is no home.
#[derive(Debug)]
pub enum HomeError {
    /// Another daemon serves this socket.
    Taken {
        /// The socket.
        socket: PathBuf,
        /// The other daemon, if it says.
        pid: String,
    },
    /// The folder is not safe.
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        fault: place::FolderFault,
    },
    /// The system refused.
    System {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
}

impl std::fmt::Display for HomeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Taken { socket, pid } => {
                write!(f, "another heliostatd (process {pid}) already serves {}", socket.display())
            }
            Self::Folder { path, fault } => {
                write!(f, "folder {} is not safe: {fault}", path.display())
            }
            Self::System { what, path, error } => {
                write!(f, "cannot {what} {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for HomeError {}

/// The daemon's place, held as long as this value lives.
pub struct Home {
    socket: PathBuf,
    _lock: OwnedFd,
}

impl Home {
    /// Makes the folder, checks it, and takes the lock.
    pub fn take(here: &Surroundings) -> Result<Home, HomeError> {
        let socket = here.socket_path();
        if let Some(folder) = socket.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            prepare_folder(folder, here)?;
        }
        let lock = take_lock(&socket)?;
        let home = Home { socket, _lock: lock };
        let text = format!("{}\n", std::process::id());
        let path = beside(&home.socket, "pid");
        fs::write(&path, text).map_err(system("write", &path))?;
        Ok(home)
    }

    /// Path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Removes socket and pid file. The lock stays until the process ends.
    pub fn leave(&self) {
        // Whatever is missing already is as gone as it should be.
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(beside(&self.socket, "pid"));
    }
}

/// Where the socket lies by default, for a daemon to which one was handed over.
pub fn default_socket() -> PathBuf {
    let socket = std::env::var_os(place::SOCKET_VARIABLE);
    let runtime = std::env::var_os(place::RUNTIME_VARIABLE);
    let uid = rustix::process::geteuid().as_raw();
    Surroundings { socket, runtime, uid }.socket_path()
}

/// A file beside the socket: `control.sock` gives `control.sock.EXTENSION`.
pub fn beside(socket: &Path, extension: &str) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}

fn prepare_folder(folder: &Path, here: &Surroundings) -> Result<(), HomeError> {
    let mode = place::folder_mode(here.uid);
    if fs::symlink_metadata(folder).is_err() {
        let made = fs::DirBuilder::new().recursive(true).mode(mode).create(folder);
        made.map_err(system("make folder", folder))?;
        if here.is_given() {
            return Ok(());
        }
        // The umask may have taken bits away that other users need to reach root's socket.
        let exact = fs::set_permissions(folder, fs::Permissions::from_mode(mode));
        exact.map_err(system("set the mode of", folder))?;
    }
    if here.is_given() {
        return Ok(());
    }
    let found = fs::symlink_metadata(folder).map_err(system("look at", folder))?;
    let facts =
        FolderFacts { is_folder: found.is_dir(), owner: found.uid(), mode: found.mode() & 0o7777 };
    place::judge_folder(facts, here.uid)
        .map_err(|fault| HomeError::Folder { path: folder.to_owned(), fault })
}

fn take_lock(socket: &Path) -> Result<OwnedFd, HomeError> {
    let path = beside(socket, "lock");
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| system("open", &path)(errno.into()))?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(Errno::WOULDBLOCK) => {
            let pid = fs::read_to_string(beside(socket, "pid")).unwrap_or_default();
            let pid = if pid.trim().is_empty() { "unknown".into() } else { pid.trim().to_owned() };
            Err(HomeError::Taken { socket: socket.to_owned(), pid })
        }
        Err(errno) => Err(system("lock", &path)(errno.into())),
    }
}

/// The error of a failed call, with what it was about.
pub fn system<'a>(what: &'static str, path: &'a Path) -> impl Fn(io::Error) -> HomeError + 'a {
    move |error| HomeError::System { what, path: path.to_owned(), error }
}

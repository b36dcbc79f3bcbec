//! Names of a session that may only show files: opened and changed by this program's own calls.
//!
//! So it is in a sealed program: its supervisor judges these calls as any others, and the server
//! works with the descriptors that come of them. Where a name leads, and what may be done with it,
//! is what the kernel and the supervisor say; the control plane's rules hold for what is shown.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{symlink, DirBuilderExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use heliostat_abi::file::delegated::{
    mode_of, OpKind, BUFFERED, CREATE, DIRECT, DIRECTORY, EXCLUSIVE, MODE_BITS, NOREPLACE, READ,
    TRUNCATE, WRITE,
};
use heliostat_base::call;
use heliostat_base::sys::Errno;

use super::{Delegated, DelegatedError, File};

/// How long a file that a lease keeps is asked for again, and how long between.
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);

impl Delegated {
    /// Whether files come by showing them only, and names are this program's own to open.
    pub(super) fn shows_only(&self) -> bool {
        self.server.is_some() && self.terms.shows_only
    }

    /// Opens a name as `access` says, and shows what was opened.
    pub(super) fn open_and_show(
        &mut self,
        name: &str,
        access: u64,
    ) -> Result<File, DelegatedError> {
        let file = open(name, access).map_err(errno_of)?;
        self.show(file.as_raw_fd(), access & (DIRECT | BUFFERED))
    }
}

/// Opens a name; waits for no FIFO, and for a lease no longer than the server would.
fn open(name: &str, access: u64) -> io::Result<std::fs::File> {
    check_absolute(name)?;
    let has = |bit: u64| access & bit != 0;
    let flags = [
        (CREATE, libc::O_CREAT),
        (EXCLUSIVE, libc::O_EXCL),
        (TRUNCATE, libc::O_TRUNC),
        (DIRECTORY, libc::O_DIRECTORY),
    ];
    let flags = flags.iter().filter(|(bit, _)| has(*bit)).fold(0, |all, (_, flag)| all | flag);
    let mut options = OpenOptions::new();
    options.read(has(READ)).write(has(WRITE)).mode(mode_of(access));
    options.custom_flags(flags | libc::O_NONBLOCK | libc::O_NOCTTY);
    let until = Instant::now() + PATIENCE;
    loop {
        match options.open(name) {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && Instant::now() < until => {
                std::thread::sleep(PAUSE);
            }
            answer => return answer,
        }
    }
}

/// Makes a change of names, as the server would for another program.
///
/// # Errors
/// `File` with what the kernel says.
pub(super) fn change(kind: OpKind, names: &[&str], argument: u64) -> Result<(), DelegatedError> {
    make(kind, names, argument).map_err(errno_of)
}

fn make(kind: OpKind, names: &[&str], argument: u64) -> io::Result<()> {
    match (kind, names) {
        (OpKind::Symlink, [_, name]) => check_absolute(name)?,
        _ => names.iter().try_for_each(|name| check_absolute(name))?,
    }
    match (kind, names) {
        (OpKind::Mkdir, [name]) => {
            DirBuilder::new().mode((argument & MODE_BITS) as u32).create(name)
        }
        (OpKind::Rmdir, [name]) => std::fs::remove_dir(name),
        (OpKind::Unlink, [name]) => std::fs::remove_file(name),
        (OpKind::Rename, [from, to]) if argument & NOREPLACE == 0 => std::fs::rename(from, to),
        (OpKind::Rename, [from, to]) => {
            call::rename_new(from, to).map_err(|errno| io::Error::from_raw_os_error(errno.0))
        }
        (OpKind::Symlink, [target, name]) => symlink(target, name),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Where a symbolic link leads.
///
/// # Errors
/// `File` with what readlink(2) says.
pub(super) fn readlink(name: &str) -> Result<Vec<u8>, DelegatedError> {
    let read = check_absolute(name).and_then(|()| std::fs::read_link(name));
    read.map(|target| target.into_os_string().into_vec()).map_err(errno_of)
}

fn check_absolute(name: &str) -> io::Result<()> {
    match name.starts_with('/') {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// An error that is not the kernel's is std's own: a name with a zero in it.
fn errno_of(error: io::Error) -> DelegatedError {
    DelegatedError::File(Errno(error.raw_os_error().unwrap_or(libc::EINVAL)))
}

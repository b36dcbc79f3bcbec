//! A file with a new log in it, which has a name only when it is whole.
//!
//! ```text
//! file without a name --zeroes, flushed--> log made in it --linked--> its name, flushed
//! ```
//!
//! So whoever is killed meanwhile leaves nothing. Where a file system has no files without names
//! (some network file systems), the file has its name from the beginning, and what a crash leaves of
//! it is no log.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, CWD};
use rustix::io::Errno;

use heliostat_backend_block::{Device, FileDevice, OpenError as DeviceError, Options as Driving};
use heliostat_backend_log::{Area, Log, Options};

use crate::error::Why;

const ZEROES_BYTES: u64 = 1 << 20;
/// A disk's page: files are made of whole ones.
const PAGE_BYTES: u64 = 4096;

/// Makes a file of so many bytes, and a log in it.
pub(crate) fn log_in_new_file(path: &Path, bytes: u64, options: Options) -> Result<Log, Why> {
    // Looked at before a gigabyte is written; what counts is that the name is free at the end.
    if rustix::fs::lstat(path).is_ok() {
        return Err(Why::Exists);
    }
    let bytes = bytes.next_multiple_of(PAGE_BYTES);
    match nameless(path) {
        Ok(file) => log_in_nameless(file, path, bytes, options),
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => log_in_named(path, bytes, options),
        Err(errno) => Err(system("open(O_TMPFILE)")(errno)),
    }
}

/// Opens the log that lies in a whole file or disk.
pub(crate) fn log_in_file(path: &Path, options: Options) -> Result<Log, Why> {
    let (device, area) = whole(path)?;
    Ok(Log::open(device, area, options)?)
}

/// A whole file or disk, of which nobody else may have the lock.
fn whole(path: &Path) -> Result<(Box<dyn Device>, Area), DeviceError> {
    Ok(whole_of(FileDevice::open(path, Driving::default())?))
}

/// The same, to be read only.
pub(crate) fn whole_to_read(path: &Path) -> Result<(Box<dyn Device>, Area), DeviceError> {
    Ok(whole_of(FileDevice::open_to_read(path, Driving::default())?))
}

fn whole_of(device: FileDevice) -> (Box<dyn Device>, Area) {
    let area = Area { offset: 0, bytes: device.geometry().bytes };
    (Box::new(device), area)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn nameless(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(folder(path), flags, Mode::from_raw_mode(0o666))
}

fn log_in_nameless(fd: OwnedFd, path: &Path, bytes: u64, options: Options) -> Result<Log, Why> {
    let mut file = File::from(fd);
    fill(&mut file, bytes).map_err(|error| io("write", &error))?;
    let its_own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let (device, area) = whole(&its_own)?;
    let log = Log::create(device, area, options)?;
    rustix::fs::linkat(CWD, &its_own, CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(|errno| {
        match errno {
            Errno::EXIST => Why::Exists,
            errno => system("linkat")(errno),
        }
    })?;
    // The name has to last as the bytes do.
    let synced = File::open(folder(path)).and_then(|folder| folder.sync_all());
    synced.map_err(|error| io("fsync", &error))?;
    Ok(log)
}

fn log_in_named(path: &Path, bytes: u64, options: Options) -> Result<Log, Why> {
    FileDevice::create(path, bytes)?;
    let made = whole(path)
        .map_err(Why::from)
        .and_then(|(device, area)| Log::create(device, area, options).map_err(Why::from));
    made.inspect_err(|_| {
        // It was made just now, and holds nothing.
        let _ = std::fs::remove_file(path);
    })
}

/// Zeroes, written one by one: a first write into what was only reserved takes a hundred times as long
/// as a second.
fn fill(file: &mut File, bytes: u64) -> std::io::Result<()> {
    let zeroes = vec![0; ZEROES_BYTES.min(bytes) as usize];
    let mut left = bytes;
    while left > 0 {
        let next = left.min(ZEROES_BYTES);
        file.write_all(&zeroes[..next as usize])?;
        left -= next;
    }
    file.sync_all()
}

fn system(call: &'static str) -> impl Fn(Errno) -> Why {
    move |errno| Why::System { call, errno: errno.raw_os_error() }
}

fn io(call: &'static str, error: &std::io::Error) -> Why {
    Why::System { call, errno: error.raw_os_error().unwrap_or(5) }
}

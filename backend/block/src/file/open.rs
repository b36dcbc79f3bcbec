//! How a file or disk is opened: for whom, past which caches, with which alignment.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;

use heliostat_backend_uring::By;

use super::{Driven, Durability};
use crate::namespace::Namespace;
use crate::Geometry;

mod namespace;

pub(super) use namespace::probe;

/// How a device is to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Operations at once, 1 at least.
    pub depth: usize,
    /// Past the page cache, where the file system can do that.
    pub direct: bool,
    /// By an io_uring or by threads; by what there is, if not said.
    pub by: Option<By>,
    /// How writes are made durable; by what the disk says of itself, if not said.
    pub durability: Option<Durability>,
    /// Whether a lone operation that is waited for is made by a system call of its own.
    pub lone_calls: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { depth: 64, direct: true, by: None, durability: None, lone_calls: true }
    }
}

/// Why a device could not be opened or made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// Somebody else has it open, or it is mounted.
    InUse,
    /// It is neither a file nor a disk, nor a namespace of an NVMe device.
    NotADevice,
    /// It has not even one sector.
    Empty,
    /// No memory.
    Memory,
    /// The kernel refused.
    System {
        /// What was asked for.
        call: &'static str,
        /// What it answered.
        errno: i32,
    },
}

impl OpenError {
    pub(super) fn system(call: &'static str, error: &std::io::Error) -> OpenError {
        OpenError::System { call, errno: error.raw_os_error().unwrap_or(super::EIO) }
    }

    pub(super) fn call(call: &'static str) -> impl Fn(Errno) -> OpenError {
        move |errno| OpenError::System { call, errno: errno.raw_os_error() }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::InUse => f.write_str("the device is in use"),
            OpenError::NotADevice => f.write_str("neither a file nor a disk nor an NVMe namespace"),
            OpenError::Empty => f.write_str("the device is smaller than one sector"),
            OpenError::Memory => f.write_str("no memory"),
            OpenError::System { call, errno } => {
                write!(f, "{call}: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// An open device.
pub(super) struct Opened {
    pub(super) file: OwnedFd,
    pub(super) geometry: Geometry,
    pub(super) is_direct: bool,
    pub(super) is_disk: bool,
    pub(super) namespace: Option<Namespace>,
    /// Of a namespace: its disk, held so that nobody mounts it.
    pub(super) beside: Option<OwnedFd>,
    pub(super) driven: Driven,
    pub(super) durability: Durability,
}

/// What a crash leaves whole, where nobody says more.
const SECTOR_BYTES: u32 = 512;
const SECTOR_BYTES_MAX: u32 = 4096;

pub(super) fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    match what_is_at(path)? {
        What::Namespace => namespace::open(path, options),
        what => open_alone(path, what, options),
    }
}

/// Opens a file or a disk, and takes its lock.
fn open_alone(path: &Path, what: What, options: &Options) -> Result<Opened, OpenError> {
    // Of a disk O_EXCL refuses one that is mounted.
    let exclusive = if what == What::Disk { OFlags::EXCL } else { OFlags::empty() };
    let file = open_as(path, OFlags::RDWR | exclusive, options)?;
    lock(&file)?;
    look_at_path(path, file, what)
}

/// Of a file or a disk that another process may have the lock of.
pub(super) fn open_to_read(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    match what_is_at(path)? {
        What::Namespace => namespace::open_to_read(path, options),
        what => look_at_path(path, open_as(path, OFlags::RDONLY, options)?, what),
    }
}

fn what_is_at(path: &Path) -> Result<What, OpenError> {
    let kind = rustix::fs::stat(path).map_err(OpenError::call("stat"))?;
    what(kind.st_mode)
}

fn open_as(path: &Path, flags: OFlags, options: &Options) -> Result<OwnedFd, OpenError> {
    let plain = flags | OFlags::CLOEXEC;
    let direct = if options.direct { OFlags::DIRECT } else { OFlags::empty() };
    let opened = match rustix::fs::open(path, plain | direct, Mode::empty()) {
        Err(Errno::INVAL) if options.direct => rustix::fs::open(path, plain, Mode::empty()),
        opened => opened,
    };
    opened.map_err(|errno| match errno {
        Errno::BUSY => OpenError::InUse,
        errno => OpenError::call("open")(errno),
    })
}

/// What was opened by somebody else.
pub(super) fn adopt(file: OwnedFd) -> Result<Opened, OpenError> {
    let kind = rustix::fs::fstat(&file).map_err(OpenError::call("fstat"))?;
    look_at(file, what(kind.st_mode)?)
}

/// What a device is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    File,
    Disk,
    /// Or another device of characters: it is asked when it is open.
    Namespace,
}

fn what(mode: u32) -> Result<What, OpenError> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(What::File),
        FileType::BlockDevice => Ok(What::Disk),
        FileType::CharacterDevice => Ok(What::Namespace),
        _ => Err(OpenError::NotADevice),
    }
}

fn look_at(file: OwnedFd, what: What) -> Result<Opened, OpenError> {
    if what == What::Namespace {
        return namespace::look_at(file);
    }
    let flags = rustix::fs::fcntl_getfl(&file).map_err(OpenError::call("fcntl"))?;
    let is_direct = flags.contains(OFlags::DIRECT);
    let geometry = geometry(&file, is_direct)?;
    let forced = super::measure::forced_unit_access(&file).unwrap_or(false);
    let durability = if forced { Durability::Dsync } else { Durability::DsyncAlone };
    let is_disk = what == What::Disk;
    let driven = if is_disk { Driven::Disk } else { Driven::File };
    let (namespace, beside) = (None, None);
    Ok(Opened { file, geometry, is_direct, is_disk, namespace, beside, driven, durability })
}

/// The same of what has a path, which tells a namespace's disk from others.
fn look_at_path(path: &Path, file: OwnedFd, what: What) -> Result<Opened, OpenError> {
    let opened = look_at(file, what)?;
    let driven = match (opened.driven, namespace::commands_of(path)) {
        (Driven::Disk, Some(_)) => Driven::DiskOfNamespace,
        (driven, _) => driven,
    };
    Ok(Opened { driven, ..opened })
}

fn lock(file: &OwnedFd) -> Result<(), OpenError> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
        Errno::WOULDBLOCK => OpenError::InUse,
        errno => OpenError::call("flock")(errno),
    })
}

fn geometry(file: &OwnedFd, is_direct: bool) -> Result<Geometry, OpenError> {
    let size = rustix::fs::seek(file, SeekFrom::End(0)).map_err(OpenError::call("lseek"))?;
    let (sector_bytes, memory_alignment) = alignment(file, is_direct);
    let bytes = size - size % u64::from(sector_bytes);
    match bytes {
        0 => Err(OpenError::Empty),
        bytes => Ok(Geometry { bytes, sector_bytes, memory_alignment, discard_zeroes: true }),
    }
}

/// What offsets, and what memory has to be aligned to. A kernel before 6.1 does not tell: then what
/// every disk takes.
fn alignment(file: &OwnedFd, is_direct: bool) -> (u32, u32) {
    if !is_direct {
        return (SECTOR_BYTES, 1);
    }
    let wanted = StatxFlags::DIOALIGN;
    let told = rustix::fs::statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, wanted)
        .ok()
        .filter(|told| told.stx_mask & wanted.bits() != 0 && told.stx_dio_offset_align != 0);
    match told {
        Some(told) if told.stx_dio_offset_align <= SECTOR_BYTES_MAX => {
            (told.stx_dio_offset_align.max(SECTOR_BYTES), told.stx_dio_mem_align.max(1))
        }
        _ => (SECTOR_BYTES_MAX, SECTOR_BYTES_MAX),
    }
}

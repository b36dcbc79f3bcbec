//! How a namespace of an NVMe device is opened: for its own commands, or else as its disk.
//!
//! ```text
//! /dev/ng0n1 -> opened, asked what it is, one sector read by a command in a ring -> driven by commands
//!               one of these is refused -> /dev/nvme0n1, by the kernel's block layer, and why
//! ```

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{lock, look_at as look_at_disk, open_alone, open_as, OpenError, Opened, Options, What};
use crate::file::{Driven, Durability, NoCommands};
use crate::namespace::{try_out, Namespace};
use crate::Geometry;

const IDENTIFY: &str = "ioctl(NVME_IOCTL_ADMIN_CMD)";
const COMMAND: &str = "io_uring (NVME_URING_CMD_IO)";
const ENOTTY: i32 = 25;
const ENOTSUP: i32 = 95;

/// Opens a namespace, or its disk, for this process alone.
pub(super) fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    let path = real(path)?;
    match open_commands(&path, OFlags::RDWR, options) {
        Ok(file) => {
            lock(&file)?;
            let beside = hold_disk_of(&path)?;
            Ok(Opened { beside, ..look_at(file)? })
        }
        Err(why) => {
            let disk = instead(&path, why)?;
            let opened = open_alone(&disk, What::Disk, options)?;
            Ok(Opened { driven: driven_instead(why), ..opened })
        }
    }
}

/// Opens it, or its disk, to read and flush it, whoever has it.
pub(super) fn open_to_read(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    let path = real(path)?;
    match open_commands(&path, OFlags::RDONLY, options) {
        Ok(file) => look_at(file),
        Err(why) => {
            let disk = instead(&path, why)?;
            let opened = look_at_disk(open_as(&disk, OFlags::RDONLY, options)?, What::Disk)?;
            Ok(Opened { driven: driven_instead(why), ..opened })
        }
    }
}

/// How what lies there would be driven, if it is a namespace; it is not taken, and nothing is written.
pub(in crate::file) fn probe(path: &Path) -> Result<Driven, OpenError> {
    let path = real(path)?;
    match open_commands(&path, OFlags::RDWR, &Options::default()) {
        Ok(_) => Ok(Driven::Commands),
        Err(why) => {
            let disk = instead(&path, why)?;
            open_as(&disk, OFlags::RDWR, &Options::default())?;
            Ok(driven_instead(why))
        }
    }
}

/// The path of a namespace's own commands, of a disk that is one: /dev/ng0n1 of /dev/nvme0n1.
pub(super) fn commands_of(disk: &Path) -> Option<PathBuf> {
    let disk = std::fs::canonicalize(disk).ok()?;
    let name = disk.file_name()?.to_str()?.strip_prefix("nvme")?.to_owned();
    Some(disk.with_file_name(format!("ng{name}"))).filter(|path| path.exists())
}

/// The disk that the kernel has for a namespace: /dev/nvme0n1 of /dev/ng0n1.
fn disk_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_prefix("ng")?;
    Some(path.with_file_name(format!("nvme{name}")))
}

fn real(path: &Path) -> Result<PathBuf, OpenError> {
    std::fs::canonicalize(path).map_err(|error| OpenError::system("open", &error))
}

/// Opens a namespace whose commands this process may send, by the ring that will carry them.
fn open_commands(path: &Path, access: OFlags, options: &Options) -> Result<OwnedFd, OpenError> {
    let file = open_as(path, access, options)?;
    let is = identify(&file)?;
    let refused = |errno| OpenError::System { call: COMMAND, errno };
    let file = Arc::new(file);
    try_out(&file, is).map_err(refused)?;
    Arc::into_inner(file).ok_or(OpenError::Memory)
}

/// The disk that is left where commands are refused; not where the device itself is none of ours.
fn instead(path: &Path, why: OpenError) -> Result<PathBuf, OpenError> {
    let is_ours = match why {
        OpenError::System { call, errno } => (call, errno) != (IDENTIFY, ENOTSUP),
        _ => false,
    };
    disk_of(path).filter(|disk| is_ours && disk.exists()).ok_or(why)
}

fn driven_instead(why: OpenError) -> Driven {
    match why {
        OpenError::System { call, errno } => Driven::InsteadOfCommands(NoCommands { call, errno }),
        _ => Driven::DiskOfNamespace,
    }
}

/// A namespace's disk, taken for us alone.
fn hold_disk_of(path: &Path) -> Result<Option<OwnedFd>, OpenError> {
    let Some(disk) = disk_of(path) else { return Ok(None) };
    match rustix::fs::open(disk, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::BUSY) => Err(OpenError::InUse),
        held => held.map(Some).map_err(OpenError::call("open")),
    }
}

fn identify(file: &OwnedFd) -> Result<Namespace, OpenError> {
    Namespace::of(file).map_err(|errno| match errno {
        ENOTTY => OpenError::NotADevice,
        errno => OpenError::System { call: IDENTIFY, errno },
    })
}

/// What an open namespace is.
pub(super) fn look_at(file: OwnedFd) -> Result<Opened, OpenError> {
    let is = identify(&file)?;
    let geometry = Geometry {
        bytes: is.sectors * u64::from(is.sector_bytes),
        sector_bytes: is.sector_bytes,
        // As the kernel has it for every device: words of four bytes.
        memory_alignment: 4,
        discard_zeroes: is.gives_back.is_some(),
    };
    if geometry.bytes == 0 {
        return Err(OpenError::Empty);
    }
    let (is_direct, is_disk, namespace, beside) = (true, true, Some(is), None);
    // Each command may have forced unit access.
    let (driven, durability) = (Driven::Commands, Durability::Dsync);
    Ok(Opened { file, geometry, is_direct, is_disk, namespace, beside, driven, durability })
}

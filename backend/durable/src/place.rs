//! Where a log lies: a file of its own, written past the page cache as an area of a store is.

use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;

use heliostat_backend_block::{Device, FileDevice, NewFile, OpenError};
use heliostat_backend_log::{Area, Log, LogError, Options};
use heliostat_backend_uring::By;
use heliostat_base::range_lock::is_locked;

/// Length of a log that nobody has made before.
pub const LOG_BYTES: u64 = 64 << 20;

const OWNERS: u32 = 0o600;

/// An open log.
pub struct Opened {
    /// The log.
    pub log: Log,
    /// Readable when the device has done something.
    pub ring: Option<i32>,
    /// Descriptors that are the log's own: the file's first.
    pub own: [Option<i32>; 2],
}

/// Why there is no log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaceError {
    /// The file.
    Device(OpenError),
    /// What is in it.
    Log(LogError),
}

/// Makes a log of so many bytes in a file that is not there yet, and has its name only when the log is
/// whole. Nobody else reads it: it has what the files have.
///
/// # Errors
/// It is there, or cannot be made.
pub fn create(path: &Path, bytes: u64) -> Result<(), PlaceError> {
    let made = NewFile::make(path, bytes, OWNERS).map_err(PlaceError::Device)?;
    let device = made.device(Default::default()).map_err(PlaceError::Device)?;
    let area = whole(&device);
    let log = Log::create(Box::new(device), area, Options::default()).map_err(PlaceError::Log)?;
    log.close().map_err(PlaceError::Log)?;
    made.publish().map_err(PlaceError::Device)
}

/// Opens the log in a file, for one process at a time; `by` says how the device is driven.
///
/// # Errors
/// It is not there, in use, no log, or damaged.
pub fn open(path: &Path, by: Option<By>) -> Result<Opened, PlaceError> {
    let options = heliostat_backend_block::Options { by, ..Default::default() };
    on_device(FileDevice::open(path, options).map_err(PlaceError::Device)?)
}

fn on_device(device: FileDevice) -> Result<Opened, PlaceError> {
    let (ring, own, area) = (device.descriptor(), device.own_descriptors(), whole(&device));
    let log = Log::open(Box::new(device), area, Options::default()).map_err(PlaceError::Log)?;
    Ok(Opened { log, ring, own })
}

/// Where who recovers a log says so in its file: beyond every device, and beside other claims.
const RECOVERING: u64 = (1 << 62) + (1 << 61);

/// As `open`, and says as long as it is open that it is recovered: who wants it meanwhile had better wait,
/// since its files are not what they will be.
///
/// # Errors
/// As `open`.
pub fn open_to_recover(path: &Path) -> Result<Opened, PlaceError> {
    let device = FileDevice::open(path, Default::default()).map_err(PlaceError::Device)?;
    // Without it others hear no more than that the log is in use.
    let _ = device.shared().leave_mark(RECOVERING);
    on_device(device)
}

/// Whether somebody recovers the log in this file.
pub fn is_being_recovered(path: &Path) -> bool {
    let asked = std::fs::File::open(path).map(|file| is_locked(file.as_fd(), RECOVERING, 1));
    asked.is_ok_and(|told| told.unwrap_or(false))
}

fn whole(device: &FileDevice) -> Area {
    Area { offset: 0, bytes: device.geometry().bytes }
}

impl PlaceError {
    /// Another process has it.
    pub fn is_in_use(self) -> bool {
        self == Self::Device(OpenError::InUse)
    }

    /// Somebody else has made something by this name.
    pub fn is_taken(self) -> bool {
        matches!(self, Self::Device(OpenError::System { errno: libc::EEXIST, .. }))
    }

    /// The kernel gives no io_uring.
    pub fn is_ringless(self) -> bool {
        matches!(self, Self::Device(OpenError::System { call: "io_uring_setup", .. }))
    }
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PlaceError {}

//! Where a log lies: a file of its own, written past the page cache as an area of a store is.

use std::fmt;
use std::path::Path;

use heliostat_backend_block::{Device, FileDevice, OpenError};
use heliostat_backend_log::{Area, Log, LogError, Options};
use heliostat_backend_uring::By;

/// Length of a log that nobody has made before.
pub const LOG_BYTES: u64 = 64 << 20;

/// An open log.
pub struct Opened {
    /// The log.
    pub log: Log,
    /// Readable when the device has done something.
    pub ring: Option<i32>,
    /// Descriptors that are the log's own.
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

/// Makes a log of so many bytes in a file that is not there yet.
///
/// # Errors
/// It is there, or cannot be made.
pub fn create(path: &Path, bytes: u64) -> Result<(), PlaceError> {
    FileDevice::create(path, bytes).map_err(PlaceError::Device)?;
    let device = FileDevice::open(path, Default::default()).map_err(PlaceError::Device)?;
    let area = whole(&device);
    let log = Log::create(Box::new(device), area, Options::default()).map_err(PlaceError::Log)?;
    log.close().map_err(PlaceError::Log)
}

/// Opens the log in a file, for one process at a time; `by` says how the device is driven.
///
/// # Errors
/// It is not there, in use, no log, or damaged.
pub fn open(path: &Path, by: Option<By>) -> Result<Opened, PlaceError> {
    let options = heliostat_backend_block::Options { by, ..Default::default() };
    let device = FileDevice::open(path, options).map_err(PlaceError::Device)?;
    let (ring, own, area) = (device.descriptor(), device.own_descriptors(), whole(&device));
    let log = Log::open(Box::new(device), area, Options::default()).map_err(PlaceError::Log)?;
    Ok(Opened { log, ring, own })
}

fn whole(device: &FileDevice) -> Area {
    Area { offset: 0, bytes: device.geometry().bytes }
}

impl PlaceError {
    /// Another process has it.
    pub fn is_in_use(self) -> bool {
        self == Self::Device(OpenError::InUse)
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

//! A file with a new log in it, which has its name only when the log is whole: whoever is killed meanwhile
//! leaves nothing by that name.

use std::path::Path;

use heliostat_backend_block::{
    Device, FileDevice, NewFile, OpenError as DeviceError, Options as Driving,
};
use heliostat_backend_log::{Area, Log, Options};

use crate::error::{Why, EEXIST};

/// Whoever may make files here may say by the umask who reads them.
const RIGHTS: u32 = 0o666;
/// A disk's page: files are made of whole ones.
const PAGE_BYTES: u64 = 4096;

/// Makes a file of so many bytes, and a log in it.
pub(crate) fn log_in_new_file(path: &Path, bytes: u64, options: Options) -> Result<Log, Why> {
    let made = NewFile::make(path, bytes.next_multiple_of(PAGE_BYTES), RIGHTS).map_err(not_made)?;
    let (device, area) = whole_of(made.device(Driving::default())?);
    let log = Log::create(device, area, options)?;
    made.publish().map_err(not_made)?;
    Ok(log)
}

fn not_made(error: DeviceError) -> Why {
    match error {
        DeviceError::System { errno: EEXIST, .. } => Why::Exists,
        error => error.into(),
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

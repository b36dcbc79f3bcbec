//! A log in an area, for a program whose every descriptor and thread is somebody else's.
//!
//! The stub of unmodified programs keeps durable files in such a log: it may start no thread there, looks
//! at the device in the program's own waits, and keeps the program from closing what it has open.

use heliostat_backend_block::Options as DeviceOptions;
use heliostat_backend_log::{Area, Log, LogError, Options};
use heliostat_stub_store::{AreaIo, Way};

use crate::area::{self, Hold};
use crate::error::OpenError;
use crate::place::Place;

/// An open log that nobody drives but who has it.
pub struct UndrivenLog {
    /// The log.
    pub log: Log,
    /// By which way its area is used, and why not by the direct one.
    pub way: Way,
    /// Readable when the device has done something. By the emulated way nothing is: who waits syncs.
    pub ring: Option<i32>,
    /// All descriptors that came with it.
    pub own: [Option<i32>; 4],
    /// Last: others may write when the log is gone.
    pub(crate) hold: Hold,
}

impl UndrivenLog {
    /// Opens the log in the area of this name. `driven` says how a device is driven that this process has
    /// directly.
    ///
    /// # Errors
    /// As for [`Log::open`](crate::Log::open).
    pub fn open(name: &str, driven: DeviceOptions) -> Result<UndrivenLog, OpenError> {
        let opened = area::to_drive(name, driven).and_then(|(device, hold)| Ok(of(device, hold)?));
        opened.map_err(|why| OpenError::new(&Place::Area(name.to_owned()), why))
    }

    /// Whether its area is still there for this process: the log of one that is not has failed, and may be
    /// opened again in the next session.
    pub fn is_kept(&self) -> bool {
        self.hold.area.is_kept()
    }
}

fn of(device: AreaIo, hold: Hold) -> Result<UndrivenLog, LogError> {
    let (ring, [file, queue]) = (device.descriptor(), device.own_descriptors());
    let own = [Some(hold.bell), hold.area.descriptor(), file, queue];
    let (way, whole) = (device.way(), Area { offset: 0, bytes: hold.area.bytes() });
    let log = Log::open(Box::new(device), whole, Options::default())?;
    Ok(UndrivenLog { log, way, ring, own, hold })
}

impl std::fmt::Debug for UndrivenLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UndrivenLog").field("way", &self.way).finish_non_exhaustive()
    }
}

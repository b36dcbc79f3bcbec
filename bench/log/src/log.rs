//! Our log, in a file; with a simulated flush, behind a device that takes so much longer.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use heliostat_backend_block::{
    Device, Durability, Extra, FileDevice, LatencyDevice, Options as FileOptions,
};
use heliostat_backend_log::{Area, Log, LogError, Options, Position};

use crate::way::{Failure, Way, SPACE_BYTES};

fn file(folder: &Path, bytes: u64) -> Result<FileDevice, Failure> {
    let path = folder.join("log");
    FileDevice::create(&path, bytes)?;
    let mut device = FileDevice::open(&path, FileOptions::default())?;
    if let Ok(way) = std::env::var("HELIOSTAT_BENCH_DURABILITY") {
        device.set_durability(match way.as_str() {
            "flush" => Durability::Flush,
            "dsync" => Durability::Dsync,
            _ => Durability::DsyncAlone,
        });
    }
    Ok(device)
}

/// The log, and a position to trim it to when it is full: about its middle.
pub struct Ours {
    log: Log,
    middle: std::sync::Mutex<Position>,
    appended: AtomicU64,
}

impl Ours {
    pub fn new(folder: &Path, extra: Duration) -> Result<Ours, Failure> {
        let area = Area { offset: 0, bytes: SPACE_BYTES };
        let device: Box<dyn Device> = match extra.is_zero() {
            true => Box::new(file(folder, area.bytes)?),
            false => {
                let inner = file(folder, area.bytes)?;
                Box::new(LatencyDevice::new(inner, Extra::durability(extra)))
            }
        };
        let in_flight =
            std::env::var("HELIOSTAT_BENCH_IN_FLIGHT").ok().and_then(|it| it.parse().ok());
        let standard = Options::default();
        let options = Options { in_flight: in_flight.unwrap_or(standard.in_flight), ..standard };
        let log = Log::create(device, area, options)?;
        let (middle, appended) = (std::sync::Mutex::new(log.end()), AtomicU64::new(0));
        Ok(Ours { log, middle, appended })
    }

    /// Trims now and then, as a program does that has dealt with what it logged.
    fn trim(&self, position: Position) -> Result<(), LogError> {
        let mut middle = self.middle.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if position.at > middle.at + self.log.capacity() / 4 {
            let before = std::mem::replace(&mut *middle, position);
            return self.log.trim(before);
        }
        Ok(())
    }
}

impl Way for Ours {
    fn append(&self, payload: &[u8]) -> Result<(), Failure> {
        let position = self.log.append_sync(payload)?;
        if self.appended.fetch_add(1, Ordering::Relaxed) % 64 == 0 {
            self.trim(position)?;
        }
        Ok(())
    }
}

//! What each way of a durable write costs on this device, measured on it.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::FileType;

use heliostat_backend_uring::{Direction, Manner};

use super::{FileDevice, EBUSY, EINVAL};
use crate::{BlockError, Buffer, Device, Request};

/// How a write is made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// By RWF_DSYNC: each write by itself.
    Dsync,
    /// By a flush afterwards, which all share that are written by then.
    Flush,
    /// By RWF_DSYNC if it is alone, else by a shared flush.
    DsyncAlone,
}

/// What was measured: medians.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A write that is not durable.
    pub write: Duration,
    /// A write by RWF_DSYNC.
    pub dsync: Duration,
    /// A write and a flush.
    pub flush: Duration,
    /// Writes that are under way at once, in the two lines below.
    pub together: usize,
    /// So many, each by RWF_DSYNC.
    pub together_dsync: Duration,
    /// So many, and one flush.
    pub together_flush: Duration,
    /// Whether the disk has forced unit access, by which a durable write needs no flush; unknown where
    /// the kernel does not tell.
    pub forced_unit_access: Option<bool>,
}

impl Costs {
    /// The way that costs least. A lone write that takes one call is preferred if it costs about the
    /// same as two.
    pub fn best(&self) -> Durability {
        let is_dsync_alone = self.dsync <= self.flush + self.flush / 20;
        let is_dsync_together = self.together_dsync <= self.together_flush;
        match (is_dsync_alone, is_dsync_together) {
            (true, true) => Durability::Dsync,
            (true, false) => Durability::DsyncAlone,
            (false, _) => Durability::Flush,
        }
    }
}

/// Writes under way at once when that is measured.
const TOGETHER: usize = 16;
/// What is written: what a page of a log or table has.
const BYTES: u64 = 4096;

pub(super) fn measure(
    device: &mut FileDevice,
    offset: u64,
    count: usize,
) -> Result<Costs, BlockError> {
    if device.under_way() > 0 {
        return Err(BlockError::Device { errno: EBUSY });
    }
    let together = TOGETHER.min(device.depth);
    let bytes = BYTES as usize * together;
    let all = Buffer::new(bytes)?;
    let read = Request::Read { offset, into: all.clone() };
    device.geometry.check(&read).map_err(|_| BlockError::Device { errno: EINVAL })?;
    device.transfer(Direction::Read, offset, &all, Manner::Plain)?;
    let one = all.part(0, BYTES as usize);
    let write = device
        .median(count, |device| device.transfer(Direction::Write, offset, &one, Manner::Plain))?;
    let dsync = device
        .median(count, |device| device.transfer(Direction::Write, offset, &one, Manner::Durable))?;
    let flush = device.median(count, |device| {
        device.transfer(Direction::Write, offset, &one, Manner::Plain)?;
        device.flush()
    })?;
    let before = device.durability;
    let mut by = |durability| {
        device.durability = durability;
        device.median(count, |device| write_together(device, offset, &all))
    };
    let (together_dsync, together_flush) = (by(Durability::Dsync), by(Durability::Flush));
    device.durability = before;
    Ok(Costs {
        write,
        dsync,
        flush,
        together,
        together_dsync: together_dsync?,
        together_flush: together_flush?,
        forced_unit_access: device.forced_unit_access(),
    })
}

impl FileDevice {
    fn median(
        &mut self,
        count: usize,
        once: impl Fn(&mut FileDevice) -> Result<(), BlockError>,
    ) -> Result<Duration, BlockError> {
        let mut each = Vec::new();
        for _ in 0..count.max(1) {
            let begun = Instant::now();
            once(self)?;
            each.push(begun.elapsed());
        }
        each.sort_unstable();
        Ok(each[each.len() / 2])
    }
}

/// Durable writes of each page of a buffer, all at once.
fn write_together(device: &mut FileDevice, offset: u64, all: &Buffer) -> Result<(), BlockError> {
    let (pages, mut completions) = (all.bytes / BYTES as usize, Vec::new());
    for page in 0..pages {
        let at = page * BYTES as usize;
        let from = all.part(at, BYTES as usize);
        let write = Request::Write { offset: offset + at as u64, from, durable: true };
        // The whole range was checked, and nothing else is under way.
        device.begin(page as u64, write).map_err(|_| BlockError::Device { errno: EINVAL })?;
    }
    while completions.len() < pages {
        device.reap(Some(Duration::from_secs(10)), &mut completions)?;
    }
    completions.iter().try_for_each(|completion| completion.result)
}

/// Whether the disk, or the disk under the file, has forced unit access.
pub(super) fn forced_unit_access(file: &OwnedFd) -> Option<bool> {
    told_by_queue(file, "fua").map(|told| told == "1")
}

/// Whether the disk takes bytes back.
pub(super) fn discards(file: &OwnedFd) -> bool {
    told_by_queue(file, "discard_max_bytes").is_some_and(|told| told != "0")
}

/// What the kernel tells of the disk, or of the disk under the file.
fn told_by_queue(file: &OwnedFd, what: &str) -> Option<String> {
    let stat = rustix::fs::fstat(file.as_fd()).ok()?;
    let is_disk = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let device = if is_disk { stat.st_rdev } else { stat.st_dev };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // A partition's queue is that of its disk, one folder up.
    let told = ["queue", "../queue"].iter().find_map(|folder| {
        std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{folder}/{what}")).ok()
    })?;
    Some(told.trim().to_owned())
}

//! What this process has spent: processor time of all its threads, and bytes that went to the disk.

use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::way::Failure;

/// What the kernel counts a disk's bytes in.
const SECTOR_BYTES: u64 = 512;
/// Of /sys/dev/block/*/stat: sectors written (Documentation/block/stat.rst).
const SECTORS_WRITTEN: usize = 6;

pub struct Spent {
    pub cpu: Duration,
    /// What was written to the disk of a folder, by whomever, the file system included; 0 of files in
    /// memory. (/proc/self/io counts a folio of the page cache as a whole.)
    pub disk_bytes: u64,
}

impl Spent {
    pub fn until_now(folder: &Path) -> Result<Spent, Failure> {
        // SAFETY: all zeroes are numbers of this type.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is what the call fills.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        let time = |it: libc::timeval| Duration::new(it.tv_sec as u64, it.tv_usec as u32 * 1000);
        let cpu = time(usage.ru_utime) + time(usage.ru_stime);
        Ok(Spent { cpu, disk_bytes: disk_bytes(folder)? })
    }

    pub fn since(self, before: &Spent) -> Spent {
        let disk_bytes = self.disk_bytes.saturating_sub(before.disk_bytes);
        Spent { cpu: self.cpu.saturating_sub(before.cpu), disk_bytes }
    }
}

fn disk_bytes(folder: &Path) -> Result<u64, Failure> {
    let device = std::fs::metadata(folder)?.st_dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let told = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat"));
    let told = told.unwrap_or_default();
    let sectors = told.split_whitespace().nth(SECTORS_WRITTEN).map_or(Ok(0), str::parse::<u64>)?;
    Ok(sectors * SECTOR_BYTES)
}

//! What this process has spent: processor time of all its threads, and bytes that it gave to the disk.

use std::time::Duration;

use crate::way::Failure;

pub struct Spent {
    pub cpu: Duration,
    /// What it had written to a disk, or will have: the kernel counts a page of its cache when it
    /// becomes dirty. Files in memory count nothing, and neither does what a file system adds.
    pub disk_bytes: u64,
}

impl Spent {
    pub fn until_now() -> Result<Spent, Failure> {
        // SAFETY: all zeroes are numbers of this type.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is what the call fills.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        let time = |it: libc::timeval| Duration::new(it.tv_sec as u64, it.tv_usec as u32 * 1000);
        let told = std::fs::read_to_string("/proc/self/io")?;
        let bytes = told.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        let disk_bytes = bytes.ok_or("/proc/self/io tells no write_bytes")?.parse()?;
        Ok(Spent { cpu: time(usage.ru_utime) + time(usage.ru_stime), disk_bytes })
    }

    pub fn since(self, before: &Spent) -> Spent {
        let disk_bytes = self.disk_bytes.saturating_sub(before.disk_bytes);
        Spent { cpu: self.cpu.saturating_sub(before.cpu), disk_bytes }
    }
}

//! Trials on memory of our own: whether tracking works here, and what this kernel overlooks.

use super::error::{HANDSHAKE, SCAN};
use super::kernel::{self, Wanted};
use super::{Pages, TrackError, WriteTracker};
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::PAGE_BYTES;
use heliostat_base::sys::{check, raw, Errno, Sysno};

/// What one page table covers: a range without any table is of this size and alignment.
const TABLE_BYTES: usize = 2 << 20;

/// Private memory that nothing else knows; unmapped on drop.
pub(super) struct Scratch(pub(super) Pages);

impl Scratch {
    pub(super) fn map(len: usize) -> Result<Scratch, TrackError> {
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
        // SAFETY: no address is asked for, so no existing mapping is touched.
        let answer = unsafe { raw(Sysno::mmap as usize, [0, len, access, flags, usize::MAX, 0]) };
        let start = check(answer).map_err(|errno| TrackError::System { call: "mmap", errno })?;
        Ok(Scratch(start..start + len))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let args = [self.0.start, self.0.len(), 0, 0, 0, 0];
        // SAFETY: the range was mapped by this value and nothing points into it.
        let _ = unsafe { raw(Sysno::munmap as usize, args) };
    }
}

/// Whether the scan for written pages reports a dropped stretch of which not even the page table
/// is left: a huge page, or a table that MADV_DONTNEED gave back. Kernels from 6.7 on did not,
/// until a correction that went to stable series too; so it is tried, not read off a version.
pub(super) fn sees_dropped_tables(uffd: &OwnedFd, pagemap: &OwnedFd) -> Result<bool, TrackError> {
    let scratch = Scratch::map(2 * TABLE_BYTES)?;
    let start = scratch.0.start.next_multiple_of(TABLE_BYTES);
    let table = start..start + TABLE_BYTES;
    // Registered and never protected is how a dropped stretch looks.
    kernel::register(uffd, &table).map_err(|errno| TrackError::refused(HANDSHAKE, errno))?;
    let mut found = 0;
    kernel::scan(pagemap, &table, Wanted::Written, false, |run| found += run.len())
        .map_err(|errno| TrackError::refused(SCAN, errno))?;
    Ok(found == TABLE_BYTES)
}

/// Whether this machine and sandbox allow write tracking: tried on three pages.
///
/// # Errors
/// `Unsupported` with what is in the way, or `System` where something ran short.
pub fn probe() -> Result<(), TrackError> {
    let tracker = WriteTracker::new()?;
    let scratch = Scratch::map(3 * PAGE_BYTES)?;
    tracker.watch(scratch.0.clone())?;
    let start = scratch.0.start + PAGE_BYTES;
    let middle = start..start + PAGE_BYTES;
    // SAFETY: the middle page is mapped writable, and `scratch` owns it alone.
    unsafe { (start as *mut u8).write_volatile(1) };
    let mut written = Vec::new();
    tracker.take(scratch.0.clone(), &mut written)?;
    match written[..] == [middle] {
        true => Ok(()),
        // An emulated kernel that says yes to everything.
        false => Err(TrackError::Unsupported { call: SCAN, errno: Errno(libc::ENODATA) }),
    }
}

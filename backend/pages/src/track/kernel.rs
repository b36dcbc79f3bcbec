//! The kernel's side of write tracking: the structures of userfaultfd(2) and PAGEMAP_SCAN.
//!
//! Sources: linux/userfaultfd.h and linux/fs.h of Linux 6.7. Which pages to ask for, and what an
//! error means, is decided by the caller.

use std::os::fd::{AsRawFd, RawFd};

use super::Pages;
use heliostat_base::fd::OwnedFd;
use heliostat_base::sys::{check, raw, Errno, Sysno};

const UFFDIO_API: usize = 0xc018_aa3f;
const UFFDIO_REGISTER: usize = 0xc020_aa00;
const UFFDIO_UNREGISTER: usize = 0x8010_aa01;
const UFFDIO_WRITEPROTECT: usize = 0xc018_aa06;
const PAGEMAP_SCAN: usize = 0xc060_6610;

/// The version of the interface, which never changed.
const UFFD_API: u64 = 0xaa;
/// Page faults of the kernel itself are never handed to us, so no privilege is needed. The
/// asynchronous mode resolves them in the kernel and notes them all the same.
const UFFD_USER_MODE_ONLY: usize = 1;
/// The argument of userfaultfd(2).
pub(crate) const FLAGS: usize =
    libc::O_CLOEXEC as usize | libc::O_NONBLOCK as usize | UFFD_USER_MODE_ONLY;
const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 1 << 1;
const WRITEPROTECT_MODE_WP: u64 = 1 << 0;

const PM_SCAN_WP_MATCHING: u64 = 1 << 0;
/// Refuse (EPERM) where a page is not watched, instead of skipping it in silence.
const PM_SCAN_CHECK_WPASYNC: u64 = 1 << 1;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;

/// Runs fetched by one call: 6 KiB of stack. The scan goes on where the vector was full.
const RUNS_PER_CALL: usize = 256;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `uffdio_register`; its first two words are a `uffdio_range`, its first three have the shape of
/// `uffdio_writeprotect`.
#[repr(C)]
struct Range {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Which pages a scan looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// Pages without protection. The masks are those for which the kernel has a fast loop.
    Written,
    /// Pages that are neither in memory nor swapped out nor marked as protected: dropped.
    Dropped,
}

impl Wanted {
    /// `category_inverted` and `category_mask`.
    const fn masks(self) -> (u64, u64) {
        match self {
            Wanted::Written => (0, PAGE_IS_WRITTEN),
            Wanted::Dropped => {
                (PAGE_IS_PRESENT | PAGE_IS_SWAPPED, PAGE_IS_PRESENT | PAGE_IS_SWAPPED)
            }
        }
    }
}

/// Makes a userfaultfd; it is not usable before [`shake_hands`].
pub(super) fn userfaultfd() -> Result<OwnedFd, Errno> {
    // SAFETY: userfaultfd takes no pointer.
    let fd = check(unsafe { raw(Sysno::userfaultfd as usize, [FLAGS, 0, 0, 0, 0, 0]) })?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::adopt(fd as RawFd) })
}

/// Asks for asynchronous write protection, which includes pages that do not exist yet.
pub(super) fn shake_hands(uffd: &OwnedFd) -> Result<(), Errno> {
    let mut api = Api { api: UFFD_API, features: UFFD_FEATURE_WP_ASYNC, ioctls: 0 };
    // SAFETY: UFFDIO_API reads and writes one `uffdio_api`, whose layout `Api` has.
    unsafe { ioctl(uffd, UFFDIO_API, &mut api) }.map(|_| ())
}

/// Opens this process's page map.
pub(super) fn pagemap() -> Result<OwnedFd, Errno> {
    let path = c"/proc/self/pagemap".as_ptr() as usize;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let args = [libc::AT_FDCWD as usize, path, flags, 0, 0, 0];
    // SAFETY: `path` is a C string with static lifetime.
    let fd = check(unsafe { raw(Sysno::openat as usize, args) })?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::adopt(fd as RawFd) })
}

/// Has writes to the mapped pages of the range noted from when they are protected.
pub(super) fn register(uffd: &OwnedFd, pages: &Pages) -> Result<(), Errno> {
    let mut range = range(pages, REGISTER_MODE_WP);
    // SAFETY: UFFDIO_REGISTER reads and writes one `uffdio_register`, whose layout `Range` has.
    // In this mode it changes no byte and no right of the pages, whoever owns them.
    unsafe { ioctl(uffd, UFFDIO_REGISTER, &mut range) }.map(|_| ())
}

/// Ends what [`register`] began and takes every protection away.
pub(super) fn unregister(uffd: &OwnedFd, pages: &Pages) -> Result<(), Errno> {
    let mut range = range(pages, 0);
    // SAFETY: UFFDIO_UNREGISTER reads a `uffdio_range`, the first two words of `Range`.
    unsafe { ioctl(uffd, UFFDIO_UNREGISTER, &mut range) }.map(|_| ())
}

/// Protects every page of a registered range: the next write to each is noted.
pub(super) fn protect(uffd: &OwnedFd, pages: &Pages) -> Result<(), Errno> {
    let mut range = range(pages, WRITEPROTECT_MODE_WP);
    // SAFETY: UFFDIO_WRITEPROTECT reads a `uffdio_writeprotect`, the first three words of
    // `Range`. A write to a page so protected succeeds as before, after a detour in the kernel.
    unsafe { ioctl(uffd, UFFDIO_WRITEPROTECT, &mut range) }.map(|_| ())
}

/// Whether every page of the range is mapped. MS_ASYNC does nothing but look (source: msync(2)).
pub(super) fn is_mapped(pages: &Pages) -> bool {
    let args = [pages.start, pages.len(), libc::MS_ASYNC as usize, 0, 0, 0];
    // SAFETY: msync with MS_ASYNC reads and writes no memory of ours.
    check(unsafe { raw(Sysno::msync as usize, args) }) != Err(Errno(libc::ENOMEM))
}

/// Calls `each` with every run of wanted pages in order of address, neighbours perhaps in two
/// runs; with `protecting`, each page is protected in the same step in which it is found.
pub(super) fn scan(
    pagemap: &OwnedFd,
    pages: &Pages,
    wanted: Wanted,
    protecting: bool,
    mut each: impl FnMut(Pages),
) -> Result<(), Errno> {
    let mut regions = [Region { start: 0, end: 0, categories: 0 }; RUNS_PER_CALL];
    let mut start = pages.start;
    while start < pages.end {
        let mut asked = question(start..pages.end, wanted, protecting, &mut regions);
        // SAFETY: PAGEMAP_SCAN reads and writes one `pm_scan_arg`, whose layout `ScanArguments`
        // has, and up to `vec_len` regions at `vec`, which are `regions`.
        let count = unsafe { ioctl(pagemap, PAGEMAP_SCAN, &mut asked) }?;
        for region in regions.iter().take(count) {
            each(region.start as usize..region.end as usize);
        }
        // The scan moves on or is over; one that stood still would go on for ever.
        if asked.walk_end as usize <= start {
            return Err(Errno(libc::EIO));
        }
        start = asked.walk_end as usize;
    }
    Ok(())
}

fn question(
    pages: Pages,
    wanted: Wanted,
    protecting: bool,
    into: &mut [Region; RUNS_PER_CALL],
) -> ScanArguments {
    let (category_inverted, category_mask) = wanted.masks();
    ScanArguments {
        size: std::mem::size_of::<ScanArguments>() as u64,
        flags: PM_SCAN_CHECK_WPASYNC | if protecting { PM_SCAN_WP_MATCHING } else { 0 },
        start: pages.start as u64,
        end: pages.end as u64,
        walk_end: 0,
        vec: into.as_mut_ptr() as u64,
        vec_len: RUNS_PER_CALL as u64,
        max_pages: 0,
        category_inverted,
        category_mask,
        category_anyof_mask: 0,
        return_mask: category_mask,
    }
}

fn range(pages: &Pages, mode: u64) -> Range {
    Range { start: pages.start as u64, len: pages.len() as u64, mode, ioctls: 0 }
}

/// # Safety
/// `argument` has the layout that `request` reads and writes, and every pointer in it is valid.
unsafe fn ioctl<T>(fd: &OwnedFd, request: usize, argument: &mut T) -> Result<usize, Errno> {
    let args = [fd.as_raw_fd() as usize, request, argument as *mut T as usize, 0, 0, 0];
    // SAFETY: the caller's promise; the reference keeps the argument alive for the call.
    check(unsafe { raw(Sysno::ioctl as usize, args) })
}

//! What the kernel must confirm of a descriptor from somebody we do not trust, before it is mapped.
//!
//! A file that shrinks is SIGBUS at any load behind its end. So is a page that cannot be had: memory
//! of huge pages is taken from a pool that may be empty, and its owner may punch holes into it.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};

use super::{MappingError, PAGE_BYTES, REGION_BYTES_MAX};
use crate::sys::{check, raw, Errno, Sysno};

/// What fstatfs says of memory of huge pages (source: linux/magic.h).
const HUGETLBFS: i64 = 0x958458f6;

/// Whether a descriptor is of memory of huge pages (memfd_create with MFD_HUGETLB, or hugetlbfs).
pub fn has_huge_pages(fd: &impl AsRawFd) -> Result<bool, Errno> {
    let mut found = MaybeUninit::<libc::statfs>::zeroed();
    let args = [fd.as_raw_fd() as usize, found.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: `found` is writable and has the kernel's size for fstatfs on this architecture.
    check(unsafe { raw(Sysno::fstatfs as usize, args) })?;
    // SAFETY: zeroed is a valid `statfs`, and the kernel has filled it.
    Ok(unsafe { found.assume_init() }.f_type == HUGETLBFS)
}

/// Confirms that `[offset, offset + len)` lies inside a file that can never shrink, of ordinary
/// pages.
pub(super) fn check_region(fd: RawFd, offset: usize, len: usize) -> Result<(), MappingError> {
    check_len(len)?;
    if offset % PAGE_BYTES != 0 || offset > REGION_BYTES_MAX {
        return Err(MappingError::Misaligned { offset });
    }
    // Seals first: once the shrink seal is seen the size read below is a lower bound for ever.
    let args = [fd as usize, libc::F_GET_SEALS as usize, 0, 0, 0, 0];
    // SAFETY: F_GET_SEALS takes no pointer.
    let seals = match check(unsafe { raw(Sysno::fcntl as usize, args) }) {
        Ok(seals) => seals as i32,
        Err(Errno(libc::EINVAL)) => -1,
        Err(errno) => return Err(MappingError::System { call: "fcntl(F_GET_SEALS)", errno }),
    };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return Err(MappingError::Unsealed { found: seals });
    }
    let (found, block) = size(fd)?;
    let wanted = offset + len;
    if found < wanted {
        return Err(MappingError::Short { wanted, found });
    }
    // Their block is their page, so that of all others nothing more is asked; tmpfs with huge pages
    // of its own accord has large blocks too, and falls back on small ones.
    let refused = |errno| MappingError::System { call: "fstatfs", errno };
    match block > PAGE_BYTES && has_huge_pages(&fd).map_err(refused)? {
        true => Err(MappingError::HugePages),
        false => Ok(()),
    }
}

pub(super) fn check_len(len: usize) -> Result<(), MappingError> {
    if len == 0 || len > REGION_BYTES_MAX {
        return Err(MappingError::Length { wanted: len, limit: REGION_BYTES_MAX });
    }
    Ok(())
}

/// The length of a file as the kernel knows it, and the bytes of its blocks.
fn size(fd: RawFd) -> Result<(usize, usize), MappingError> {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    let args = [fd as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: `stat` is writable and has the kernel's size for fstat on this architecture.
    check(unsafe { raw(Sysno::fstat as usize, args) })
        .map_err(|errno| MappingError::System { call: "fstat", errno })?;
    // SAFETY: zeroed is a valid `stat`, and the kernel has filled it.
    let stat = unsafe { stat.assume_init() };
    Ok((stat.st_size as usize, stat.st_blksize as usize))
}

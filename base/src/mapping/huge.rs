//! Huge pages for mappings of files: where they can lie, and asking for them.
//!
//! A page table maps 2 MiB by one entry only where address and place in the file agree in their
//! last 21 bits, so large mappings are placed by hand. Whether the file's memory then is of huge
//! pages is the kernel's decision; for memfds it is *no* by default (`shmem_enabled`), unless it
//! is asked range by range.

use std::os::fd::RawFd;
use std::ptr::NonNull;

use super::{mmap, protection, Access, MappingError, OutOfRange, SharedMapping, PAGE_BYTES};
use crate::sys::{check, raw, Sysno};

/// Bytes of a huge page (source: the architecture).
pub const HUGE_BYTES: usize = 2 << 20;
/// Bytes whose pages leave a page table at once: some milliseconds.
const DETACHED_BYTES: usize = 64 << 20;

/// A range of addresses in which nothing can be read yet, aligned to a huge page where that is
/// not more than its length. The caller unmaps it.
pub(super) fn reserve(len: usize) -> Result<NonNull<u8>, MappingError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let spare = if len < HUGE_BYTES { 0 } else { HUGE_BYTES };
    // SAFETY: no address is asked for, so no existing mapping is touched.
    let whole = unsafe { mmap(0, len + spare, libc::PROT_NONE, flags, -1, 0) }?;
    if spare == 0 {
        return Ok(whole);
    }
    let (first, end) = (whole.as_ptr() as usize, whole.as_ptr() as usize + len + spare);
    let start = first.next_multiple_of(HUGE_BYTES);
    unmap(first, start - first);
    let used = start + len.next_multiple_of(PAGE_BYTES);
    unmap(used, end.next_multiple_of(PAGE_BYTES).saturating_sub(used));
    // Inside what was just mapped, which is not at zero.
    Ok(NonNull::new(start as *mut u8).unwrap_or(whole))
}

/// Maps a part of a file, so that its huge pages can be huge pages of the mapping.
pub(super) fn map_file(
    fd: RawFd,
    offset: usize,
    len: usize,
    access: Access,
) -> Result<NonNull<u8>, MappingError> {
    let is_large = len >= HUGE_BYTES && offset % HUGE_BYTES == 0;
    if !is_large {
        // SAFETY: no address is asked for, so no existing mapping is touched.
        return unsafe { mmap(0, len, protection(access), libc::MAP_SHARED, fd, offset) };
    }
    let at = reserve(len)?.as_ptr() as usize;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: MAP_FIXED replaces what was just reserved and nobody knows of.
    let mapped = unsafe { mmap(at, len, protection(access), flags, fd, offset) };
    if mapped.is_err() {
        unmap(at, len);
    }
    mapped
}

impl SharedMapping {
    /// Asks the kernel to make a huge page of those at `offset` (MADV_COLLAPSE, Linux 6.1), which
    /// changes no byte. Memory that is not there yet is made. True when it is one now; refused, or
    /// short of memory, everything stays as it is. Takes some 100 us.
    ///
    /// # Errors
    /// The huge page lies outside the mapping, or not where one can be.
    pub fn gather(&self, offset: usize) -> Result<bool, OutOfRange> {
        let at = self.writable_at(offset, HUGE_BYTES)? as usize;
        if at % HUGE_BYTES != 0 {
            return Err(OutOfRange { offset, len: HUGE_BYTES, limit: self.len() });
        }
        // Where there is no page at all the kernel refuses.
        Ok(advise(at, PAGE_BYTES, libc::MADV_POPULATE_WRITE)
            && advise(at, HUGE_BYTES, libc::MADV_COLLAPSE))
    }

    /// Takes the pages out of this process's page table, piece by piece. The bytes stay what they are,
    /// and whoever touches them has them again. For the end of a large mapping: unmapped at once, many
    /// gigabytes keep other threads from mapping anything for seconds, after this for no longer than one
    /// piece takes.
    pub fn detach_pages(&self) {
        let start = self.as_ptr() as usize;
        for offset in (0..self.len()).step_by(DETACHED_BYTES) {
            let len = DETACHED_BYTES.min(self.len() - offset);
            advise(start + offset, len, libc::MADV_DONTNEED);
        }
    }
}

/// madvise(2) with advice that changes no byte, for memory of a mapping that processes share.
fn advise(at: usize, len: usize, advice: i32) -> bool {
    // SAFETY: the call takes no pointer to data, and the advices given here keep every byte of shared memory.
    check(unsafe { raw(Sysno::madvise as usize, [at, len, advice as usize, 0, 0, 0]) }).is_ok()
}

/// Ends a range that this module has just mapped.
fn unmap(at: usize, len: usize) {
    if len > 0 {
        // SAFETY: the range is part of a mapping that was made here and handed to nobody.
        let _ = unsafe { raw(Sysno::munmap as usize, [at, len, 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn pages_that_leave_the_page_table_keep_their_bytes() {
        let (_fd, file) = SharedMapping::create(c"detached", DETACHED_BYTES + PAGE_BYTES).unwrap();
        let places = [0, DETACHED_BYTES - 1, DETACHED_BYTES, file.len() - 1];
        places.iter().for_each(|at| file.copy_in(*at, &[7]).unwrap());
        file.detach_pages();
        for at in places {
            let mut byte = [0];
            file.copy_out(at, &mut byte).unwrap();
            assert_eq!(byte, [7], "{at}");
        }
    }

    #[test]
    fn a_large_mapping_begins_where_a_huge_page_can() {
        for len in [HUGE_BYTES, HUGE_BYTES + 1, 5 * HUGE_BYTES - PAGE_BYTES] {
            let (fd, file) = SharedMapping::create(c"huge", len).unwrap();
            assert_eq!(file.as_ptr() as usize % HUGE_BYTES, 0, "{len}");
            file.copy_in(len - 1, &[7]).unwrap();
            let other = SharedMapping::from_fd(fd.as_raw_fd(), len, Access::Read).unwrap();
            let mut byte = [0];
            other.copy_out(len - 1, &mut byte).unwrap();
            assert_eq!((byte[0], other.as_ptr() as usize % HUGE_BYTES), (7, 0), "{len}");
        }
    }

    #[test]
    fn what_is_reserved_beyond_its_length_is_given_back() {
        let is_mapped = |at: usize| {
            let args = [at, PAGE_BYTES, libc::MS_ASYNC as usize, 0, 0, 0];
            // SAFETY: msync with MS_ASYNC reads and writes no memory.
            check(unsafe { raw(Sysno::msync as usize, args) }).is_ok()
        };
        let is_given_back = || {
            let at = reserve(HUGE_BYTES + PAGE_BYTES).unwrap().as_ptr() as usize;
            assert!(is_mapped(at) && is_mapped(at + HUGE_BYTES));
            unmap(at, HUGE_BYTES + PAGE_BYTES);
            !is_mapped(at)
        };
        // Another thread may take the place between two looks, but not every time.
        assert!((0..10).any(|_| is_given_back()));
    }

    #[test]
    fn gathering_keeps_every_byte_and_the_rest_is_zeros() {
        let (_fd, file) = SharedMapping::create(c"huge", 3 * HUGE_BYTES).unwrap();
        file.copy_in(HUGE_BYTES + 5000, b"kept").unwrap();
        // Whether it is granted is the machine's to say; that nothing changes is not.
        let _ = file.gather(HUGE_BYTES).unwrap();
        let mut bytes = [1; 8];
        file.copy_out(HUGE_BYTES + 4998, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0kept\0\0");
    }

    #[test]
    fn only_a_huge_page_of_a_writable_mapping_is_gathered() {
        let (fd, file) = SharedMapping::create(c"huge", 2 * HUGE_BYTES - PAGE_BYTES).unwrap();
        assert!(file.gather(PAGE_BYTES).is_err());
        assert!(file.gather(HUGE_BYTES).is_err());
        let read = SharedMapping::from_fd(fd.as_raw_fd(), HUGE_BYTES, Access::Read).unwrap();
        assert!(read.gather(0).is_err());
    }
}

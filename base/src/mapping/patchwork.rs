//! One range of addresses whose pieces are different parts of a file, read-only: what lies apart
//! in the file looks contiguous here.

use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;

use super::foreign::{check_len, check_region};
use super::{mmap, settle, MappingError, OutOfRange, PAGE_BYTES};
use crate::sys::{raw, Sysno};

/// A reserved range of addresses; pieces of it show a file. Unmapped on drop.
#[derive(Debug)]
pub struct Patchwork {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value owns an address range, not thread-bound state; reads are copies.
unsafe impl Send for Patchwork {}
// SAFETY: as for Send; only `&mut self` changes what is mapped.
unsafe impl Sync for Patchwork {}

impl Patchwork {
    /// Reserves `len` bytes, whole pages, of which nothing can be read yet.
    pub fn reserve(len: usize) -> Result<Self, MappingError> {
        check_len(len)?;
        if len % PAGE_BYTES != 0 {
            return Err(MappingError::Misaligned { offset: len });
        }
        Ok(Self { start: super::huge::reserve(len)?, len })
    }

    /// Lets `len` bytes at `at` show the file from `offset` on, instead of what they showed. All
    /// three are whole pages. The kernel must confirm that the file cannot shrink.
    pub fn show(
        &mut self,
        at: usize,
        fd: &impl AsRawFd,
        offset: usize,
        len: usize,
    ) -> Result<(), MappingError> {
        let fd: RawFd = fd.as_raw_fd();
        check_region(fd, offset, len)?;
        if at % PAGE_BYTES != 0 || len % PAGE_BYTES != 0 {
            return Err(MappingError::Misaligned { offset: at | len });
        }
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(MappingError::Length { wanted: len, limit: self.len });
        }
        let address = self.start.as_ptr() as usize + at;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: MAP_FIXED replaces pages inside the range that this value reserved (checked), and
        // no reference into it exists: reads copy, and `&mut self` keeps them away meanwhile.
        unsafe { mmap(address, len, libc::PROT_READ, flags, fd, offset) }.map(|_| ())
    }

    /// First byte; good for `len()` bytes while this value lives, where something is shown.
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Reserved bytes.
    #[allow(clippy::len_without_is_empty)] // a range is never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies bytes out. The caller has shown something there: a hole is a fault.
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        let len = into.len();
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(OutOfRange { offset, len, limit: self.len });
        }
        // SAFETY: in bounds of one live mapping (checked); `into` is private memory.
        unsafe {
            let from = self.start.as_ptr().add(offset);
            std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), len);
        }
        settle(into.as_mut_ptr());
        Ok(())
    }
}

impl Drop for Patchwork {
    fn drop(&mut self) {
        let args = [self.start.as_ptr() as usize, self.len, 0, 0, 0, 0];
        // SAFETY: the range was reserved by this value, which nobody uses any more.
        let _ = unsafe { raw(Sysno::munmap as usize, args) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::SharedMapping;
    use super::*;

    #[test]
    fn pieces_of_a_file_look_contiguous_in_any_order() {
        let (fd, file) = SharedMapping::create(c"patchwork", 3 * PAGE_BYTES).unwrap();
        for page in 0..3u8 {
            file.copy_in(page as usize * PAGE_BYTES, &[page + 1; PAGE_BYTES]).unwrap();
        }
        let mut shown = Patchwork::reserve(2 * PAGE_BYTES).unwrap();
        shown.show(0, &fd, 2 * PAGE_BYTES, PAGE_BYTES).unwrap();
        shown.show(PAGE_BYTES, &fd, 0, PAGE_BYTES).unwrap();
        let mut bytes = [0; 2];
        shown.copy_out(PAGE_BYTES - 1, &mut bytes).unwrap();
        assert_eq!(bytes, [3, 1]);
        shown.show(0, &fd, PAGE_BYTES, PAGE_BYTES).unwrap();
        shown.copy_out(PAGE_BYTES - 1, &mut bytes).unwrap();
        assert_eq!(bytes, [2, 1]);
    }

    #[test]
    fn nothing_is_shown_outside_the_range_or_the_file() {
        let (fd, _file) = SharedMapping::create(c"patchwork", PAGE_BYTES).unwrap();
        let mut shown = Patchwork::reserve(PAGE_BYTES).unwrap();
        assert!(shown.show(PAGE_BYTES, &fd, 0, PAGE_BYTES).is_err());
        assert!(shown.show(0, &fd, PAGE_BYTES, PAGE_BYTES).is_err());
        assert!(shown.show(0, &fd, 0, 2 * PAGE_BYTES).is_err());
        assert!(shown.show(1, &fd, 0, PAGE_BYTES).is_err());
        assert!(Patchwork::reserve(100).is_err());
    }
}

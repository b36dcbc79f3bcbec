//! Payload memory that both sides map, and the allocator of the side that owns it.
//!
//! Elements of a ring carry small things; large ones lie in a window, and the element carries
//! their [`RawExtent`]. An extent from the other side is an allegation until [`Window::check`] has
//! seen that it lies inside. Offsets, never pointers, cross the border.

mod slab;

use std::os::fd::RawFd;

use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::{Access, MappingError, OutOfRange, SharedMapping};

pub use slab::{Slab, SlabError};

/// Bytes of a window as the other side names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct RawExtent {
    /// First byte, counted from the start of the window.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// Bytes that are known to lie inside a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    offset: usize,
    len: usize,
}

impl Extent {
    /// First byte.
    pub fn offset(self) -> usize {
        self.offset
    }

    /// Number of bytes.
    #[allow(clippy::len_without_is_empty)] // an extent of no bytes is a valid one
    pub fn len(self) -> usize {
        self.len
    }

    /// The form that may be sent to the other side.
    pub fn to_raw(self) -> RawExtent {
        RawExtent { offset: self.offset as u64, len: self.len as u64 }
    }
}

/// Mapped payload memory.
#[derive(Debug)]
pub struct Window {
    mapping: SharedMapping,
}

impl Window {
    /// Creates a window of `len` bytes.
    pub fn create(name: &std::ffi::CStr, len: usize) -> Result<(OwnedFd, Window), MappingError> {
        let (fd, mapping) = SharedMapping::create(name, len)?;
        Ok((fd, Window { mapping }))
    }

    /// Maps a window that somebody else created, `[offset, offset + len)` of a region.
    pub fn attach(
        fd: RawFd,
        offset: usize,
        len: usize,
        access: Access,
    ) -> Result<Window, MappingError> {
        Ok(Window { mapping: SharedMapping::map(fd, offset, len, access)? })
    }

    /// Bytes of the window.
    #[allow(clippy::len_without_is_empty)] // a mapping is never empty
    pub fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Accepts an extent that lies inside.
    pub fn check(&self, raw: RawExtent) -> Result<Extent, OutOfRange> {
        let limit = self.len();
        let refuse = OutOfRange { offset: raw.offset as usize, len: raw.len as usize, limit };
        match raw.offset.checked_add(raw.len) {
            Some(end) if end <= limit as u64 => {
                Ok(Extent { offset: raw.offset as usize, len: raw.len as usize })
            }
            _ => Err(refuse),
        }
    }

    /// Copies bytes to `at` of an extent.
    pub fn copy_in(&self, extent: Extent, at: usize, bytes: &[u8]) -> Result<(), OutOfRange> {
        let into = self.place(extent, at, bytes.len())?;
        if self.mapping.access() == Access::Read {
            return Err(OutOfRange { offset: at, len: bytes.len(), limit: 0 });
        }
        // SAFETY: `into` is valid for the length (checked), writable (checked), and no reference
        // into the mapping exists that `bytes` could overlap.
        unsafe { crate::copy::move_bytes(into, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies bytes from `at` of an extent.
    pub fn copy_out(&self, extent: Extent, at: usize, into: &mut [u8]) -> Result<(), OutOfRange> {
        let from = self.place(extent, at, into.len())?;
        // SAFETY: as in `copy_in`, the other way round.
        unsafe { crate::copy::move_bytes(into.as_mut_ptr(), from, into.len()) };
        Ok(())
    }

    /// Address of an extent, for engines and system calls; valid for its length.
    pub fn as_ptr(&self, extent: Extent) -> Result<*mut u8, OutOfRange> {
        self.mapping.bytes_at(extent.offset, extent.len)
    }

    fn place(&self, extent: Extent, at: usize, len: usize) -> Result<*mut u8, OutOfRange> {
        if at > extent.len || len > extent.len - at {
            return Err(OutOfRange { offset: at, len, limit: extent.len });
        }
        // An extent may have been checked by another, larger window; the mapping has the last word.
        self.mapping.bytes_at(extent.offset + at, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn both_sides_see_the_bytes_of_an_extent() {
        let (fd, ours) = Window::create(c"window", 8192).expect("created");
        let theirs = Window::attach(fd.as_raw_fd(), 0, 8192, Access::Read).expect("attached");
        let extent = ours.check(RawExtent { offset: 100, len: 50 }).expect("inside");
        ours.copy_in(extent, 10, b"bytes").expect("inside");
        let mut back = [0; 5];
        theirs.copy_out(theirs.check(extent.to_raw()).expect("inside"), 10, &mut back).expect("ok");
        assert_eq!(&back, b"bytes");
        assert!(theirs.copy_in(extent, 0, b"x").is_err(), "mapped for reading");
    }

    #[test]
    fn extents_that_do_not_lie_inside_are_refused() {
        let (_fd, window) = Window::create(c"window", 4096).expect("created");
        for (offset, len) in [(0, 4097), (4096, 1), (u64::MAX, 2), (1, u64::MAX)] {
            assert!(window.check(RawExtent { offset, len }).is_err(), "{offset} {len}");
        }
        let whole = window.check(RawExtent { offset: 0, len: 4096 }).expect("inside");
        assert!(window.copy_in(whole, 4096, b"x").is_err());
    }

    #[test]
    fn an_extent_of_a_larger_window_does_not_reach_out_of_a_smaller_one() {
        let (_a, large) = Window::create(c"window", 8192).expect("created");
        let (_b, small) = Window::create(c"window", 4096).expect("created");
        let extent = large.check(RawExtent { offset: 4096, len: 10 }).expect("inside");
        assert!(small.copy_in(extent, 0, b"x").is_err());
    }
}

//! A range of this process's own memory that the program goes on writing: what a snapshot is
//! taken of.
//!
//! Its bytes are never referenced, only copied: other threads may write them at any time, and a
//! copy that tears is the program's answer to having published at the wrong moment.

use crate::mapping::{settle, OutOfRange, SharedMapping};

/// Memory of this process, by address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveMemory {
    start: usize,
    len: usize,
}

impl LiveMemory {
    /// The `len` bytes at `start`.
    ///
    /// # Safety
    /// The range stays mapped readable for as long as this value, or a copy of it, is used.
    pub const unsafe fn new(start: usize, len: usize) -> Self {
        Self { start, len }
    }

    /// Address of the first byte.
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes at all.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `len` bytes at `offset` to `at` in `target`.
    pub fn copy_to(
        &self,
        offset: usize,
        target: &SharedMapping,
        at: usize,
        len: usize,
    ) -> Result<(), OutOfRange> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(OutOfRange { offset, len, limit: self.len });
        }
        let into = target.writable_at(at, len)?;
        // SAFETY: `into` is valid for `len` writable bytes (just checked); the source lies inside
        // the range whose readability `new`'s caller promised. They may overlap only if somebody
        // publishes the pool itself, and `copy` allows that.
        unsafe { std::ptr::copy((self.start + offset) as *const u8, into, len) };
        settle(into);
        Ok(())
    }

    /// True when the bytes at `offset` differ from those at `at` of `target`.
    pub fn differs(
        &self,
        offset: usize,
        target: &SharedMapping,
        at: usize,
        len: usize,
    ) -> Result<bool, OutOfRange> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(OutOfRange { offset, len, limit: self.len });
        }
        let other = target.bytes_at(at, len)?;
        // SAFETY: both ranges are readable for `len` bytes: the first by `new`'s promise, the
        // second as checked. memcmp reads each byte and keeps no reference.
        let order = unsafe { libc::memcmp((self.start + offset) as *const _, other.cast(), len) };
        Ok(order != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_and_compared_inside_the_range_only() {
        let bytes: Vec<u8> = (0..=255).collect();
        // SAFETY: `bytes` outlives every use below.
        let memory = unsafe { LiveMemory::new(bytes.as_ptr() as usize, bytes.len()) };
        let (_fd, target) = SharedMapping::create(c"live", 4096).unwrap();
        memory.copy_to(10, &target, 100, 20).unwrap();
        let mut copied = [0; 20];
        target.copy_out(100, &mut copied).unwrap();
        assert_eq!(copied[..], bytes[10..30]);
        assert_eq!(memory.differs(10, &target, 100, 20), Ok(false));
        assert_eq!(memory.differs(11, &target, 100, 20), Ok(true));
        assert!(memory.copy_to(250, &target, 0, 7).is_err());
        assert!(memory.copy_to(usize::MAX, &target, 0, 2).is_err());
        assert!(memory.copy_to(0, &target, 4090, 7).is_err());
    }
}

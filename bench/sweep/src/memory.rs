//! Memory for a flux: private, or seen by both processes.

use std::io::Error;

use crate::Failure;

/// Mapped memory of 64-bit floats, zero at first; unmapped on drop.
pub struct Floats {
    start: *mut f64,
    len: usize,
}

impl Floats {
    /// Private memory. A forked child does not get it: the parent would pay for copies of its
    /// pages that nobody asked for.
    pub fn private(len: usize) -> Result<Self, Failure> {
        let it = Self::map(len, libc::MAP_PRIVATE)?;
        // SAFETY: the range is this value's own; the advice concerns children only.
        match unsafe { libc::madvise(it.start.cast(), len * 8, libc::MADV_DONTFORK) } {
            0 => Ok(it),
            _ => Err(Error::last_os_error().into()),
        }
    }

    /// Memory that a forked child shares.
    pub fn shared(len: usize) -> Result<Self, Failure> {
        Self::map(len, libc::MAP_SHARED)
    }

    fn map(len: usize, flags: i32) -> Result<Self, Failure> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_ANONYMOUS);
        // SAFETY: no address is asked for, so no existing mapping is touched.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len * 8, access, flags, -1, 0) };
        match start == libc::MAP_FAILED {
            true => Err(Error::last_os_error().into()),
            false => Ok(Self { start: start.cast(), len }),
        }
    }

    /// Address of the first value.
    pub fn start(&self) -> usize {
        self.start as usize
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.len * 8
    }

    /// The values, for reading.
    ///
    /// # Safety
    /// Nobody writes them as long as the answer lives, in no process.
    pub unsafe fn values(&self) -> &[f64] {
        // SAFETY: mapped for `len` values, aligned to a page, any bits are a float; the rest is
        // the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// The values, for writing.
    ///
    /// # Safety
    /// Nobody else reads or writes them as long as the answer lives, in no process.
    #[allow(clippy::mut_from_ref)] // Two processes take turns by a lock that Rust does not know.
    pub unsafe fn values_mut(&self) -> &mut [f64] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Floats {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this value, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.len * 8) };
    }
}

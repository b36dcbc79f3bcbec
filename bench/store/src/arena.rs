//! The store's memory, and a page of words that all processes see.

use std::io::Error;
use std::sync::atomic::AtomicU64;

use crate::Failure;

/// Mapped memory, zero at first; unmapped on drop.
pub struct Arena {
    start: *mut u8,
    len: usize,
}

impl Arena {
    /// Private memory; `forks` says whether a forked child has it too, and so makes the parent
    /// copy the pages that it writes.
    pub fn private(len: usize, forks: bool) -> Result<Self, Failure> {
        let arena = Self::map(len, libc::MAP_PRIVATE)?;
        // SAFETY: the range is this value's own; the advice concerns children only.
        if !forks && unsafe { libc::madvise(arena.start.cast(), len, libc::MADV_DONTFORK) } != 0 {
            return Err(Error::last_os_error().into());
        }
        Ok(arena)
    }

    /// Memory that forked children share.
    pub fn shared(len: usize) -> Result<Self, Failure> {
        Self::map(len, libc::MAP_SHARED)
    }

    fn map(len: usize, flags: i32) -> Result<Self, Failure> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_ANONYMOUS);
        // SAFETY: no address is asked for, so no existing mapping is touched.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, -1, 0) };
        match start == libc::MAP_FAILED {
            true => Err(Error::last_os_error().into()),
            false => Ok(Self { start: start.cast(), len }),
        }
    }

    /// Address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// All of it.
    ///
    /// # Safety
    /// Nothing else refers to it as long as the answer lives, but for what copies it while the
    /// holder stands still.
    #[allow(clippy::mut_from_ref)] // A mapping, not a value: the promise is the caller's.
    pub unsafe fn bytes(&self) -> &mut [u8] {
        // SAFETY: mapped for `len` bytes; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// The word `at`, for atomic use by several processes.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!((at + 1) * 8 <= self.len, "a word outside the memory");
        // SAFETY: inside the mapping (just checked), aligned, and only ever used atomically.
        unsafe { &*self.start.cast::<AtomicU64>().add(at) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this value, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

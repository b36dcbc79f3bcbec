//! Words of this process that a child of its fork finds zero (MADV_WIPEONFORK, Linux 4.14).
//!
//! A child of a fork has everything that its parent has, and may have been made by a raw system call,
//! of which no handler hears. What belongs to the parent alone is told by such a word: one load.

use std::ptr::NonNull;

use crate::sync::{from_ptr_u64, shared_u64, AtomicU64};
use crate::sys::{check, raw, Errno, Sysno};

const PAGE_BYTES: usize = 4096;
/// How many words there are.
pub const WORDS: usize = PAGE_BYTES / 8;

/// A page of them, zero at first. Unmapped on drop.
#[derive(Debug)]
pub struct Unforked(NonNull<u8>);

// SAFETY: the value owns an address range, and gives access to it by atomics only.
unsafe impl Send for Unforked {}
// SAFETY: as for Send.
unsafe impl Sync for Unforked {}

impl Unforked {
    /// Makes a page.
    ///
    /// # Errors
    /// ENOMEM; EINVAL from a kernel that has no such pages.
    pub fn new() -> Result<Self, Errno> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let args = [0, PAGE_BYTES, protection, flags, usize::MAX, 0];
        // SAFETY: without MAP_FIXED the kernel maps only where nothing is mapped.
        let at = check(unsafe { raw(Sysno::mmap as usize, args) })?;
        let page = Self(NonNull::new(at as *mut u8).ok_or(Errno(libc::ENOMEM))?);
        let args = [at, PAGE_BYTES, libc::MADV_WIPEONFORK as usize, 0, 0, 0];
        // SAFETY: the page is this value's own, and nothing is in it yet.
        check(unsafe { raw(Sysno::madvise as usize, args) })?;
        Ok(page)
    }

    /// Returns one of the [`WORDS`].
    #[inline(always)]
    pub fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < WORDS);
        // SAFETY: in the page and aligned, which lives as long as `self`; all accesses are atomic.
        shared_u64(unsafe { from_ptr_u64(self.0.as_ptr().add(number * 8).cast()) })
    }
}

impl Drop for Unforked {
    fn drop(&mut self) {
        let args = [self.0.as_ptr() as usize, PAGE_BYTES, 0, 0, 0, 0];
        // SAFETY: the page is this value's own, and no reference into it outlives it.
        let _ = unsafe { raw(Sysno::munmap as usize, args) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;

    #[test]
    fn a_child_of_a_fork_finds_zero_and_the_parent_what_it_wrote() {
        let page = Unforked::new().expect("Linux 4.14");
        page.word(3).store(7, Relaxed);
        // SAFETY: the child loads one word and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends this process without anything else being run.
            unsafe { libc::_exit(page.word(3).load(Relaxed) as i32) };
        }
        let mut status = -1;
        // SAFETY: the status is this function's own.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((status, page.word(3).load(Relaxed)), (0, 7));
    }
}

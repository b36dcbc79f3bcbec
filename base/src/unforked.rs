//! Words of this process that a child of its fork finds zero (MADV_WIPEONFORK, Linux 4.14).
//!
//! A child of a fork has everything that its parent has, and may have been made by a raw system call,
//! of which no handler hears. What belongs to the parent alone is told by such a word: one load.

use std::ptr::NonNull;

use crate::sync::{from_ptr_u32, from_ptr_u64, shared_u32, shared_u64, AtomicU32, AtomicU64};
use crate::sys::{check, raw, Errno, Sysno};

const PAGE_BYTES: usize = 4096;
/// How many words there are in a page.
pub const WORDS: usize = PAGE_BYTES / 8;

/// Pages of them, zero at first. Unmapped on drop.
#[derive(Debug)]
pub struct Unforked {
    at: NonNull<u8>,
    bytes: usize,
}

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
        Self::with_words(WORDS)
    }

    /// Makes pages for so many words.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_words(words: usize) -> Result<Self, Errno> {
        let bytes = words.saturating_mul(8).next_multiple_of(PAGE_BYTES);
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let args = [0, bytes, protection, flags, usize::MAX, 0];
        // SAFETY: without MAP_FIXED the kernel maps only where nothing is mapped.
        let at = check(unsafe { raw(Sysno::mmap as usize, args) })?;
        let page = Self { at: NonNull::new(at as *mut u8).ok_or(Errno(libc::ENOMEM))?, bytes };
        let args = [at, bytes, libc::MADV_WIPEONFORK as usize, 0, 0, 0];
        // SAFETY: the pages are this value's own, and nothing is in them yet.
        check(unsafe { raw(Sysno::madvise as usize, args) })?;
        Ok(page)
    }

    /// Returns one of the words.
    #[inline(always)]
    pub fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < self.bytes / 8);
        // SAFETY: in the pages and aligned, which live as long as `self`; all accesses are atomic.
        shared_u64(unsafe { from_ptr_u64(self.at.as_ptr().add(number * 8).cast()) })
    }

    /// Returns one of the halves of words, of which there are twice as many; none of a word that is also
    /// used whole.
    #[inline(always)]
    pub fn half(&self, number: usize) -> &AtomicU32 {
        // SAFETY: as above, by `half_at`.
        shared_u32(unsafe { from_ptr_u32(self.half_at(number)) })
    }

    /// Where that half lies.
    #[inline(always)]
    pub(crate) fn half_at(&self, number: usize) -> *mut u32 {
        assert!(number < self.bytes / 4);
        // SAFETY: in the pages.
        unsafe { self.at.as_ptr().add(number * 4).cast() }
    }
}

impl Drop for Unforked {
    fn drop(&mut self) {
        let args = [self.at.as_ptr() as usize, self.bytes, 0, 0, 0, 0];
        // SAFETY: the pages are this value's own, and no reference into them outlives it.
        let _ = unsafe { raw(Sysno::munmap as usize, args) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;

    #[test]
    fn many_words_have_halves_of_their_own() {
        let pages = Unforked::with_words(WORDS + 1).expect("Linux 4.14");
        pages.half(2 * WORDS).store(1, Relaxed);
        pages.half(2 * WORDS + 1).store(2, Relaxed);
        assert_eq!(pages.word(WORDS).load(Relaxed), 2 << 32 | 1);
        assert_eq!(pages.word(2 * WORDS - 1).load(Relaxed), 0);
    }

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

//! Memory that the arms write and read, and the sets of pages they write.

use std::collections::BTreeMap;
use std::io::Error;
use std::os::fd::RawFd;

use crate::Failure;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Bytes of a chunk, the grain of remapping and of hotness.
pub const CHUNK_BYTES: usize = 2 << 20;

/// Words from one write of a page to the next, so that each version differs from the last.
const STORES: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mapped memory; unmapped on drop if it is one's own.
pub struct Memory {
    start: *mut u8,
    len: usize,
    is_lent: bool,
}

impl Memory {
    /// Private memory, every page of it written once. A fork does not take it along unless
    /// `forks`: page tables of the other arms would be copied on the account of fork.
    pub fn private(len: usize, forks: bool) -> Result<Self, Failure> {
        let memory = Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, true)?;
        if !forks {
            // SAFETY: the range is this value's own; the advice concerns children only.
            let answer = unsafe { libc::madvise(memory.start.cast(), len, libc::MADV_DONTFORK) };
            check(answer)?;
        }
        memory.write(&Dirty::all(len), 1);
        Ok(memory)
    }

    /// Shared memory of `fd`; `may_write` maps it for writing as well.
    pub fn shared(fd: RawFd, len: usize, may_write: bool) -> Result<Self, Failure> {
        Self::map(len, libc::MAP_SHARED, fd, may_write)
    }

    /// Zeros that forked children share.
    pub fn anonymous_shared(len: usize) -> Result<Self, Failure> {
        Self::map(len, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, true)
    }

    /// Memory that somebody else has mapped.
    ///
    /// # Safety
    /// `start` is aligned to pages, and readable and writable for `len` bytes as long as this is
    /// used.
    pub unsafe fn lent(start: *mut u8, len: usize) -> Self {
        Self { start, len, is_lent: true }
    }

    fn map(len: usize, flags: i32, fd: RawFd, may_write: bool) -> Result<Self, Failure> {
        let access = libc::PROT_READ | if may_write { libc::PROT_WRITE } else { 0 };
        // SAFETY: no address is asked for, so no existing mapping is touched.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, 0) };
        match start == libc::MAP_FAILED {
            true => Err(Error::last_os_error().into()),
            false => Ok(Self { start: start.cast(), len, is_lent: false }),
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

    /// One store of 8 bytes into each page of the set. Only for memory mapped for writing.
    pub fn write(&self, dirty: &Dirty, round: u64) {
        for page in &dirty.pages {
            let at = *page as usize * PAGE;
            assert!(at + PAGE <= self.len, "a page outside the memory");
            let value = round.wrapping_mul(STORES) ^ at as u64;
            // SAFETY: the page lies inside this memory (just checked), which is aligned to pages
            // and to which nobody holds a reference while it is written.
            unsafe { self.start.add(at).cast::<u64>().write_volatile(value) };
        }
    }

    /// Sum of all words: reads everything, and cannot be left out.
    pub fn sum(&self) -> u64 {
        // SAFETY: the whole memory is mapped readable and is this value's own.
        unsafe { sum(self.start, self.len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.is_lent {
            return;
        }
        // SAFETY: the range was mapped by this value, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// Sum of the words of some memory.
///
/// # Safety
/// `start` is aligned to 8 and readable for `len` bytes, which nobody writes meanwhile.
pub unsafe fn sum(start: *const u8, len: usize) -> u64 {
    // SAFETY: the caller's promise.
    let words = unsafe { std::slice::from_raw_parts(start.cast::<u64>(), len / 8) };
    std::hint::black_box(words.iter().fold(0, |sum, word| sum.wrapping_add(*word)))
}

/// Turns the -1 of a C call into its error.
pub fn check(answer: i32) -> Result<i32, Failure> {
    match answer {
        -1 => Err(Error::last_os_error().into()),
        answer => Ok(answer),
    }
}

/// Pages that one cycle writes.
#[derive(Clone)]
pub struct Dirty {
    /// Their numbers, in the order of writing.
    pub pages: Vec<u32>,
}

impl Dirty {
    /// Every page.
    pub fn all(len: usize) -> Self {
        Self { pages: (0..(len / PAGE) as u32).collect() }
    }

    /// The first `share` of the pages.
    pub fn contiguous(len: usize, share: f64) -> Self {
        let count = (len / PAGE) as f64 * share;
        Self { pages: (0..count as u32).collect() }
    }

    /// `share` of the pages, drawn all over the memory; another set for each `seed`.
    pub fn scattered(len: usize, share: f64, seed: u64) -> Self {
        let mut pages: Vec<u32> = (0..(len / PAGE) as u32).collect();
        let mut state = seed.wrapping_add(1).wrapping_mul(STORES);
        let count = (pages.len() as f64 * share).max(1.0) as usize;
        for at in 0..count {
            // xorshift64: good enough to scatter, and the same on every machine.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let other = at + (state % (pages.len() - at) as u64) as usize;
            pages.swap(at, other);
        }
        pages.truncate(count);
        Self { pages }
    }

    /// Pages of the set in each chunk of 2 MiB that has any.
    pub fn by_chunk(&self) -> BTreeMap<usize, usize> {
        let mut found = BTreeMap::new();
        self.pages.iter().for_each(|page| {
            *found.entry(*page as usize / (CHUNK_BYTES / PAGE)).or_insert(0) += 1;
        });
        found
    }

    /// Bytes of these pages.
    pub fn bytes(&self) -> usize {
        self.pages.len() * PAGE
    }
}

//! Memory to be watched: pages of our own, written with the program's and with the kernel's hand.

use std::sync::atomic::{AtomicU64, Ordering};

use heliostat_backend_pages::track::{probe, Pages, TrackError, WriteTracker};

pub const PAGE: usize = 4096;

/// A tracker, or a printed line where this machine has none.
pub fn tracker() -> Option<WriteTracker> {
    match probe() {
        Ok(()) => Some(WriteTracker::new().expect("probed")),
        Err(error @ TrackError::Unsupported { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Private zeroed pages; unmapped on drop.
pub struct Memory(Pages);

impl Memory {
    pub fn of_pages(count: usize) -> Memory {
        Memory(map(0, count * PAGE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS))
    }

    /// Pages of an unnamed shared file.
    pub fn shared_of_pages(count: usize) -> Memory {
        Memory(map(0, count * PAGE, libc::MAP_SHARED | libc::MAP_ANONYMOUS))
    }

    pub fn all(&self) -> Pages {
        self.0.clone()
    }

    /// Pages `from..to`, counted from the start.
    pub fn pages(&self, from: usize, to: usize) -> Pages {
        self.0.start + from * PAGE..self.0.start + to * PAGE
    }

    /// Word `word` (of 512) of a page.
    pub fn word(&self, page: usize, word: usize) -> &AtomicU64 {
        assert!((page + 1) * PAGE <= self.0.len() && word < PAGE / 8);
        // SAFETY: the word lies inside the mapping, is aligned, and is only accessed atomically.
        unsafe { &*((self.0.start + page * PAGE + word * 8) as *const AtomicU64) }
    }

    pub fn store(&self, page: usize) {
        self.word(page, 7).fetch_add(1, Ordering::Relaxed);
    }

    pub fn fill(&self) {
        (0..self.0.len() / PAGE).for_each(|page| self.store(page));
    }

    pub fn advise(&self, pages: Pages, advice: i32) {
        assert!(self.0.start <= pages.start && pages.end <= self.0.end);
        let at = pages.start as *mut libc::c_void;
        // SAFETY: the range is ours; dropped content reads as zeros, which atomics allow.
        assert_eq!(unsafe { libc::madvise(at, pages.len(), advice) }, 0);
    }

    pub fn allow(&self, access: i32) {
        let at = self.0.start as *mut libc::c_void;
        // SAFETY: the range is ours, and the tests store only while they may.
        assert_eq!(unsafe { libc::mprotect(at, self.0.len(), access) }, 0);
    }

    /// Puts fresh pages in the place of some, in one step, so that no other thread's mapping can
    /// slip in between.
    pub fn replace(&self, pages: Pages) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        assert!(self.0.start <= pages.start && pages.end <= self.0.end);
        map(pages.start, pages.len(), flags);
    }

    /// Unmaps some pages, and leaks the rest: another thread may get the addresses.
    pub fn leave_without(self, pages: Pages) {
        // SAFETY: the range is ours and nothing refers to it.
        assert_eq!(unsafe { libc::munmap(pages.start as *mut libc::c_void, pages.len()) }, 0);
        std::mem::forget(self);
    }

    /// What `take` finds in all of it.
    pub fn taken(&self, tracker: &WriteTracker) -> Vec<Pages> {
        let mut written = Vec::new();
        tracker.take(self.all(), &mut written).expect("takes");
        written
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this value and no reference outlives it.
        unsafe { libc::munmap(self.0.start as *mut libc::c_void, self.0.len()) };
    }
}

fn map(at: usize, len: usize, flags: i32) -> Pages {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: either no address is asked for, or `replace` has checked that the range is ours.
    let start = unsafe { libc::mmap(at as *mut libc::c_void, len, access, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start as usize..start as usize + len
}

/// Runs `body` in a forked child and says whether it answered true.
pub fn in_a_fork(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `body`, which takes no lock that another thread may hold, and ends
    // without running anything of the test harness.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let status = i32::from(!body());
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(status) };
    }
    assert!(child > 0);
    let mut status = -1;
    // SAFETY: `status` is a writable word, and the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

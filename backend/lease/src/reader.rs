//! A mapped file that may be read while words of shared memory keep their values.
//!
//! A sequence lock whose writer is somebody else: the one who promised that the file stays as it
//! is ends the promise by changing a word, and waits for nobody. A reader copies first and looks
//! at the words afterwards; what it copied counts only if they still say what they said when the
//! file was mapped. Readers store nothing, so any number of them share the lines.
//!
//! Orders (labels stand beside each release and its acquire; `models` shows them under loom):
//! - `P1` the word changes before the file does: who ends a promise stores first, and the kernel, which
//!   held whoever wants to write, lets him go afterwards. Against it the copy before the look at the
//!   words: a copy of changed bytes meets a changed word.
//! - `P2` the version is odd after all that belongs to a mapping, and even before anything of it is
//!   taken apart or replaced (a fence, since what follows are plain stores); against it the copy and
//!   the words before the second look at the version.

use std::io::IoSliceMut;

use heliostat_base::guarded::{Fault, FileView};
use heliostat_base::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use heliostat_base::sync::{fence, AtomicPtr, AtomicU32};
use heliostat_base::sys::Errno;

/// A word, and the value that it must keep.
#[derive(Clone, Copy)]
pub struct Promise {
    /// Lies in memory that is never unmapped.
    pub word: &'static AtomicU32,
    /// What it says as long as the promise holds.
    pub value: u32,
}

impl Promise {
    /// Ends the promise, if it holds, by another value of its word. Whoever waits until it has ended
    /// is let go afterwards.
    pub fn end(self, ended: u32) {
        // Where it does not hold there is nothing to end.
        let _ = self.word.compare_exchange(self.value, ended, AcqRel, Relaxed); // P1
    }

    /// Whether it has held until now: what was copied before this was copied under it.
    #[inline]
    pub fn has_held(self) -> bool {
        fence(Acquire); // P1
        self.word.load(Acquire) == self.value
    }
}

/// What may be mapped and read; the kernel's mapping of a file in production.
pub trait View {
    /// Maps the first `bytes` of a file, when nothing is mapped.
    ///
    /// # Errors
    /// The kernel's; the view stays empty.
    fn map(&self, fd: i32, bytes: usize) -> Result<(), Errno>;
    /// Ends the mapping; readers may be in it.
    fn unmap(&self);
    /// Copies from byte `at` on; how many, fewer than `into` has at the end of the view.
    ///
    /// # Errors
    /// A fault; part of `into` may be written.
    fn read(&self, at: usize, into: &mut [u8]) -> Result<usize, Fault>;
}

impl View for FileView {
    fn map(&self, fd: i32, bytes: usize) -> Result<(), Errno> {
        FileView::map(self, fd, bytes)
    }

    fn unmap(&self) {
        FileView::unmap(self);
    }

    #[inline(always)]
    fn read(&self, at: usize, into: &mut [u8]) -> Result<usize, Fault> {
        FileView::read(self, at, into)
    }
}

/// A place for a promise that many threads look at without a lock.
struct Kept {
    word: AtomicPtr<AtomicU32>,
    value: AtomicU32,
}

impl Kept {
    #[cfg(not(loom))]
    const fn empty() -> Self {
        Self { word: AtomicPtr::new(std::ptr::null_mut()), value: AtomicU32::new(0) }
    }

    #[cfg(all(test, loom))]
    fn empty() -> Self {
        Self { word: AtomicPtr::new(std::ptr::null_mut()), value: AtomicU32::new(0) }
    }

    fn set(&self, promise: Promise) {
        self.value.store(promise.value, Relaxed);
        self.word.store(std::ptr::from_ref(promise.word).cast_mut(), Relaxed);
    }

    #[inline(always)]
    fn holds(&self) -> bool {
        let word = self.word.load(Relaxed);
        // SAFETY: null, or a reference for ever (`set` takes no other).
        let word = unsafe { word.as_ref() };
        word.is_some_and(|word| word.load(Relaxed) == self.value.load(Relaxed))
    }
}

/// What was copied does not count: the file is not mapped, a promise has ended, or a byte was not
/// there, on either side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost;

/// A mapping and the promises under which its bytes are the file's. Const, for static tables.
#[repr(align(64))]
pub struct LeasedView<V: View = FileView> {
    /// Odd while mapped; never the same again for another mapping (2^31 of them).
    version: AtomicU32,
    view: V,
    lease: Kept,
    life: Kept,
}

impl LeasedView {
    /// Nothing is mapped.
    #[cfg(not(loom))]
    pub const fn empty() -> Self {
        let (lease, life) = (Kept::empty(), Kept::empty());
        Self { version: AtomicU32::new(0), view: FileView::empty(), lease, life }
    }

    /// Bytes of the file; they hold if a later look at `holds` says so.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.view.bytes()
    }

    /// The share of pages that are in memory, of a sample, in percent; 100 where the kernel does
    /// not tell. Only by the thread that mapped it, before others read it.
    pub fn percent_in_memory(&self) -> u32 {
        self.view.percent_in_memory()
    }
}

impl<V: View> LeasedView<V> {
    /// Maps the first `bytes` of `fd` under two promises. One thread at a time, and only when
    /// nothing is mapped.
    ///
    /// # Errors
    /// The kernel's, as for [`FileView::map`]; the view stays empty.
    pub fn map(&self, fd: i32, bytes: usize, lease: Promise, life: Promise) -> Result<(), Errno> {
        fence(Release); // P2: of the mapping before
        self.view.map(fd, bytes)?;
        self.lease.set(lease);
        self.life.set(life);
        self.version.fetch_add(1, AcqRel); // P2
        Ok(())
    }

    /// Ends the mapping, if there is one. One thread at a time; readers may be in it.
    pub fn unmap(&self) {
        if self.is_mapped() {
            self.version.fetch_add(1, AcqRel);
            fence(Release); // P2
            self.view.unmap();
        }
    }

    /// True between `map` and `unmap`, whether or not the promises hold.
    #[inline(always)]
    pub fn is_mapped(&self) -> bool {
        self.version.load(Acquire) & 1 == 1
    }

    /// True while it is mapped and both promises hold.
    #[inline]
    pub fn holds(&self) -> bool {
        let version = self.version.load(Acquire);
        self.still(version) && version & 1 == 1
    }

    /// Copies from byte `at` on into `into`: how many, fewer than it has at the end of the file.
    ///
    /// # Errors
    /// `Lost`: part of `into` may be written with anything.
    #[inline(always)]
    pub fn read(&self, at: usize, into: &mut [u8]) -> Result<usize, Lost> {
        let version = self.version.load(Acquire); // P2
        if version & 1 == 0 {
            return Err(Lost);
        }
        let bytes = self.view.read(at, into).map_err(|_| Lost)?;
        match self.still(version) {
            true => Ok(bytes),
            false => Err(Lost),
        }
    }

    /// The same into several buffers, one after the other, all from one state of the file.
    ///
    /// # Errors
    /// As for `read`.
    pub fn read_many(&self, at: usize, into: &mut [IoSliceMut<'_>]) -> Result<usize, Lost> {
        let version = self.version.load(Acquire);
        if version & 1 == 0 {
            return Err(Lost);
        }
        let mut total = 0;
        for buffer in into {
            let bytes = self.view.read(at.saturating_add(total), buffer).map_err(|_| Lost)?;
            total += bytes;
            if bytes < buffer.len() {
                break;
            }
        }
        match self.still(version) {
            true => Ok(total),
            false => Err(Lost),
        }
    }

    /// True when everything that was loaded before this came from that mapping, and held.
    #[inline(always)]
    fn still(&self, version: u32) -> bool {
        fence(Acquire); // P1
        let holds = self.lease.holds() && self.life.holds();
        fence(Acquire); // P2: whose words these were
        holds && self.version.load(Relaxed) == version
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    fn promise() -> Promise {
        Promise { word: Box::leak(Box::new(AtomicU32::new(5))), value: 5 }
    }

    fn file(bytes: &[u8]) -> std::fs::File {
        let name = format!("heliostat-leased-{}-{:p}", std::process::id(), &bytes);
        let path = std::env::temp_dir().join(name);
        let mut options = std::fs::File::options();
        let mut file = options.read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn bytes_count_only_while_both_words_say_what_they_said() {
        let file = file(b"0123456789");
        let view = LeasedView::empty();
        let mut into = [0; 4];
        assert_eq!(view.read(0, &mut into), Err(Lost));
        let (lease, life) = (promise(), promise());
        view.map(file.as_raw_fd(), 10, lease, life).unwrap();
        assert!(view.holds());
        assert_eq!((view.read(8, &mut into), &into[..2]), (Ok(2), &b"89"[..]));
        for word in [lease.word, life.word] {
            word.store(6, Relaxed);
            assert_eq!(view.read(0, &mut into), Err(Lost));
            assert!(view.is_mapped() && !view.holds());
            word.store(5, Relaxed);
            assert_eq!(view.read(0, &mut into), Ok(4));
        }
        view.unmap();
        assert!(!view.holds() && !view.is_mapped());
        assert_eq!(view.read(0, &mut into), Err(Lost));
    }

    #[test]
    fn a_file_just_written_is_in_memory() {
        let file = file(&[1; 40_960]);
        let view = LeasedView::empty();
        view.map(file.as_raw_fd(), 40_960, promise(), promise()).unwrap();
        assert_eq!(view.percent_in_memory(), 100);
        view.unmap();
        view.unmap();
    }
}

//! Which pages of this process's own memory were written since it was last asked.
//!
//! The kernel notes it (userfaultfd in its asynchronous mode, Linux 6.7): a watched page is
//! write-protected, the first write to it is let through after the kernel has taken the
//! protection away, and the pages without protection are the written ones. No signal, no handler
//! and no thread is involved, and writes that the kernel makes for the program, such as read(2)
//! into the range, are noted as well.
//!
//! ```text
//! watch   | P | P | P | P |        P: protected
//! store       x
//! take    | P | w | P | P |  ->  the second page, protected again in the same step
//! ```
//!
//! Not noted, because no page table of this process sees it: a device that writes to pages pinned
//! before they were protected (registered io_uring buffers, RDMA, GPUs), and writes through
//! another mapping of the same file. What is done with the pages is left to others.

mod error;
mod kernel;
mod trial;

pub use error::TrackError;
pub(crate) use kernel::FLAGS as FOREIGN_FLAGS;
pub use trial::probe;

use error::{HANDSHAKE, OPEN, SCAN, USERFAULTFD};
use heliostat_base::fd::OwnedFd;
use heliostat_base::mapping::PAGE_BYTES;
use heliostat_base::process;
use heliostat_base::sys::Errno;
use kernel::Wanted;

/// Consecutive pages of this process, as addresses; both ends page-aligned.
pub type Pages = std::ops::Range<usize>;

/// Notes writes to the ranges it watches. Dropping it ends the watch on all of them.
///
/// Threads may share it. A page that two of them take at once is reported to one.
#[derive(Debug)]
pub struct WriteTracker {
    uffd: OwnedFd,
    pagemap: OwnedFd,
    /// The process that asks: this one, and no fork of it.
    pid: i32,
    /// The memory is another process's. What is mapped of it is for the caller to know.
    is_foreign: bool,
    /// False where dropped pages need a scan of their own.
    sees_dropped_tables: bool,
}

impl WriteTracker {
    /// Makes a tracker that watches nothing yet. Needs no privilege.
    ///
    /// # Errors
    /// `Unsupported` where the kernel or a sandbox refuses, `System` where something ran short.
    pub fn new() -> Result<Self, TrackError> {
        let step = |call| move |errno| TrackError::refused(call, errno);
        let uffd = kernel::userfaultfd().map_err(step(USERFAULTFD))?;
        kernel::shake_hands(&uffd).map_err(step(HANDSHAKE))?;
        let pagemap = kernel::pagemap().map_err(step(OPEN))?;
        let sees_dropped_tables = trial::sees_dropped_tables(&uffd, &pagemap)?;
        Ok(Self { uffd, pagemap, pid: process::pid(), is_foreign: false, sees_dropped_tables })
    }

    /// Makes a tracker of another process's memory from a userfaultfd made in its name and its
    /// page map. All ranges are the other's, and must be mapped in it: a gap is passed over in
    /// silence, as memory that nobody wrote.
    pub(crate) fn of_other(uffd: OwnedFd, pagemap: OwnedFd) -> Result<Self, TrackError> {
        kernel::shake_hands(&uffd).map_err(|errno| TrackError::refused(HANDSHAKE, errno))?;
        // Tried on memory of our own; where that cannot be, the second scan costs time only.
        let sees_dropped_tables = Self::new().is_ok_and(|own| own.sees_dropped_tables);
        Ok(Self { uffd, pagemap, pid: process::pid(), is_foreign: true, sees_dropped_tables })
    }

    /// Whether every page of the range is mapped, as far as this process can tell.
    fn is_mapped(&self, pages: &Pages) -> bool {
        self.is_foreign || kernel::is_mapped(pages)
    }

    /// Protects every page of the range: from the return on, first writes are noted.
    ///
    /// Not unsafe although the addresses may be anybody's: no byte, no access right and no
    /// lifetime changes, and every access does what it did before, the first write to a page more
    /// slowly. Watching a range again forgets what was written to it.
    ///
    /// # Errors
    /// `Lost` where a page is not mapped, `System` with EBUSY where another userfaultfd has the
    /// range and with EPERM where the memory can never be written.
    pub fn watch(&self, pages: Pages) -> Result<(), TrackError> {
        if !self.admit(&pages)? {
            return Ok(());
        }
        // A range with a gap would be registered without the gap and without a word.
        if !self.is_mapped(&pages) {
            return Err(TrackError::Lost { start: pages.start });
        }
        let step = |call| move |errno| TrackError::System { call, errno };
        kernel::register(&self.uffd, &pages).map_err(step("ioctl(UFFDIO_REGISTER)"))?;
        kernel::protect(&self.uffd, &pages).map_err(step("ioctl(UFFDIO_WRITEPROTECT)"))
    }

    /// Ends the watch on the range; what is not mapped any more is not watched any more.
    ///
    /// # Errors
    /// `System` with EBUSY where another userfaultfd has the range.
    pub fn unwatch(&self, pages: Pages) -> Result<(), TrackError> {
        if !self.admit(&pages)? {
            return Ok(());
        }
        // Older kernels let one userfaultfd unregister the memory of another, which would then
        // read as zeros where its owner meant to fill it. Registering first is refused there.
        let ended = kernel::register(&self.uffd, &pages)
            .and_then(|()| kernel::unregister(&self.uffd, &pages));
        match ended {
            Err(Errno(libc::EINVAL | libc::ENOMEM)) if !self.is_mapped(&pages) => Ok(()),
            other => other
                .map_err(|errno| TrackError::System { call: "ioctl(UFFDIO_UNREGISTER)", errno }),
        }
    }

    /// Appends the runs of pages written since the last take, in order of address, and protects
    /// them again in the same step: a write is in this take or in the next one, never in none.
    ///
    /// Pages whose content was dropped (MADV_DONTNEED) count as written. Runs are never adjacent.
    ///
    /// # Errors
    /// `Lost` where a page is not watched. After any error `written` is as it was, and every page
    /// of the range must be taken for written: what was found before the error is not found again.
    pub fn take(&self, pages: Pages, written: &mut Vec<Pages>) -> Result<(), TrackError> {
        self.find(pages, written, true)
    }

    /// The same without protecting again: the next take or peek reports these pages too.
    ///
    /// # Errors
    /// As for [`WriteTracker::take`], but nothing is forgotten.
    pub fn peek(&self, pages: Pages, written: &mut Vec<Pages>) -> Result<(), TrackError> {
        self.find(pages, written, false)
    }

    fn find(
        &self,
        pages: Pages,
        written: &mut Vec<Pages>,
        protecting: bool,
    ) -> Result<(), TrackError> {
        if !self.admit(&pages)? {
            return Ok(());
        }
        let before = written.len();
        let mut found = self.scan(&pages, Wanted::Written, protecting, written, before);
        if found.is_ok() && !self.sees_dropped_tables {
            let middle = written.len();
            found = self.scan(&pages, Wanted::Dropped, protecting, written, middle);
            merge(written, before, middle);
        }
        // The scan passes over a gap without a word.
        if found.is_ok() && !self.is_mapped(&pages) {
            found = Err(TrackError::Lost { start: pages.start });
        }
        if found.is_err() {
            written.truncate(before);
        }
        found
    }

    /// Appends the runs that one scan finds; those from `first` on may be joined.
    fn scan(
        &self,
        pages: &Pages,
        wanted: Wanted,
        protecting: bool,
        into: &mut Vec<Pages>,
        first: usize,
    ) -> Result<(), TrackError> {
        kernel::scan(&self.pagemap, pages, wanted, protecting, |run| append(into, first, run))
            .map_err(|errno| match errno {
                Errno(libc::EPERM) => TrackError::Lost { start: pages.start },
                errno => TrackError::System { call: SCAN, errno },
            })
    }

    /// Whether there is anything to do for a range that may be asked about in this process.
    fn admit(&self, pages: &Pages) -> Result<bool, TrackError> {
        // In a forked child the page map still shows the parent's memory.
        if process::pid() != self.pid {
            return Err(TrackError::Forked);
        }
        let &Pages { start, end } = pages;
        if start % PAGE_BYTES != 0 || end % PAGE_BYTES != 0 || end < start {
            return Err(TrackError::Misaligned { start, end });
        }
        Ok(start < end)
    }
}

/// Appends a run, or lengthens the last one from `first` on if it reaches this one.
fn append(runs: &mut Vec<Pages>, first: usize, run: Pages) {
    if runs.len() > first {
        if let Some(last) = runs.last_mut().filter(|last| last.end >= run.start) {
            last.end = last.end.max(run.end);
            return;
        }
    }
    runs.push(run);
}

/// Makes one ordered list of the two that lie from `first` to `middle` and from there on.
fn merge(runs: &mut Vec<Pages>, first: usize, middle: usize) {
    if runs.len() == middle {
        return;
    }
    let mut both = runs.split_off(first);
    both.sort_unstable_by_key(|run| run.start);
    for run in both {
        append(runs, first, run);
    }
}

#[cfg(test)]
#[path = "track/tests.rs"]
mod tests;

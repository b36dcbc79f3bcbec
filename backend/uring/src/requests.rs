//! Requests to the kernel by an io_uring, or by threads where the kernel gives none.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use heliostat_base::mapping::SharedMapping;

use crate::threads::{ThreadRing, WATCHED_MAX};
use crate::{Allocation, Flight, Manner, NotPrepared, Range, Uring};

/// How requests are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// By an io_uring.
    Uring,
    /// By threads.
    Threads,
}

impl By {
    /// By an io_uring where the kernel gives one with all that is needed, else by threads.
    pub fn available() -> By {
        match Uring::<()>::create(2, 2) {
            Ok(_) => By::Uring,
            Err(_) => By::Threads,
        }
    }

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            By::Uring => "io_uring",
            By::Threads => "threads",
        }
    }

    /// Words that may be waited for at once.
    pub const fn words_max(self) -> usize {
        match self {
            By::Uring => usize::MAX,
            By::Threads => WATCHED_MAX,
        }
    }
}

/// Requests that come back with an `aim`. The methods are those of [`Uring`] and [`ThreadRing`].
#[allow(clippy::large_enum_variant)] // one for each server loop
pub enum Requests<T> {
    /// By an io_uring.
    Uring(Uring<T>),
    /// By threads.
    Threads(ThreadRing<T>),
}

impl<T> Requests<T> {
    /// Requests made in the given way: `most` at once, of which `entries` go to the kernel in one
    /// call. For one thread, which is the one that calls this.
    ///
    /// # Errors
    /// As [`Uring::create`] and [`ThreadRing::create`].
    pub fn create(by: By, entries: u32, most: u32) -> io::Result<Requests<T>> {
        match by {
            By::Uring => Uring::create(entries, most).map(Requests::Uring),
            By::Threads => ThreadRing::create(most).map(Requests::Threads),
        }
    }

    /// The same for transfers only, and for any thread, one at a time.
    ///
    /// # Errors
    /// As [`Uring::create_for_transfers`] and [`ThreadRing::create`].
    pub fn create_for_transfers(by: By, entries: u32, most: u32) -> io::Result<Requests<T>> {
        match by {
            By::Uring => Uring::create_for_transfers(entries, most).map(Requests::Uring),
            By::Threads => ThreadRing::create(most).map(Requests::Threads),
        }
    }

    /// How they are made.
    pub fn by(&self) -> By {
        match self {
            Requests::Uring(_) => By::Uring,
            Requests::Threads(_) => By::Threads,
        }
    }

    /// A descriptor that is readable while there is a completion to take. Threads have none.
    pub fn event(&self) -> Option<OwnedFd> {
        match self {
            Requests::Uring(ring) => ring.event().ok(),
            Requests::Threads(_) => None,
        }
    }

    /// Readable when something has completed that nobody has reaped; threads have none.
    pub fn descriptor(&self) -> Option<i32> {
        match self {
            Requests::Uring(ring) => Some(ring.descriptor()),
            Requests::Threads(_) => None,
        }
    }

    /// The next requests are for this owner. Threads make one of each owner's in turn; a kernel with
    /// an io_uring has an order of its own.
    #[inline]
    pub fn act_for(&mut self, owner: u32) {
        if let Requests::Threads(ring) = self {
            ring.act_for(owner);
        }
    }

    /// Requests under way or prepared.
    #[inline]
    pub fn under_way(&self) -> usize {
        match self {
            Requests::Uring(ring) => ring.under_way(),
            Requests::Threads(ring) => ring.under_way(),
        }
    }

    /// Whether another request can be prepared.
    #[inline]
    pub fn has_room(&self) -> bool {
        match self {
            Requests::Uring(ring) => ring.has_room(),
            Requests::Threads(ring) => ring.has_room(),
        }
    }

    /// Lets go of a mapping that nobody will read into any more.
    #[inline]
    pub fn forget(&mut self, memory: &Arc<SharedMapping>) {
        match self {
            Requests::Uring(ring) => ring.forget(memory),
            Requests::Threads(_) => {}
        }
    }

    /// Asks for a request's end; it completes in any case, perhaps as if nobody had asked.
    #[inline]
    pub fn cancel(&mut self, flight: Flight) {
        match self {
            Requests::Uring(ring) => ring.cancel(flight),
            Requests::Threads(ring) => ring.cancel(flight),
        }
    }

    /// Brings a file's bytes and what describes it to the disk.
    ///
    /// # Errors
    /// Full.
    #[inline]
    pub fn fsync(&mut self, aim: T, file: &Arc<OwnedFd>) -> Result<Flight, NotPrepared> {
        match self {
            Requests::Uring(ring) => ring.fsync(aim, file),
            Requests::Threads(ring) => ring.fsync(aim, file),
        }
    }

    /// Brings a file's bytes to the disk, and of what describes it what it takes to read them.
    ///
    /// # Errors
    /// Full.
    #[inline]
    pub fn fdatasync(&mut self, aim: T, file: &Arc<OwnedFd>) -> Result<Flight, NotPrepared> {
        match self {
            Requests::Uring(ring) => ring.fdatasync(aim, file),
            Requests::Threads(ring) => ring.fdatasync(aim, file),
        }
    }

    /// Gives a range of a file back, or makes it read as zero.
    ///
    /// # Errors
    /// Full.
    #[inline]
    pub fn allocate(
        &mut self,
        aim: T,
        file: &Arc<OwnedFd>,
        range: (u64, u64),
        what: Allocation,
    ) -> Result<Flight, NotPrepared> {
        match self {
            Requests::Uring(ring) => ring.allocate(aim, file, range, what),
            Requests::Threads(ring) => ring.allocate(aim, file, range, what),
        }
    }

    /// Makes a file so many bytes long.
    ///
    /// # Errors
    /// Full.
    #[inline]
    pub fn truncate(
        &mut self,
        aim: T,
        file: &Arc<OwnedFd>,
        bytes: u64,
    ) -> Result<Flight, NotPrepared> {
        match self {
            Requests::Uring(ring) => ring.truncate(aim, file, bytes),
            Requests::Threads(ring) => ring.truncate(aim, file, bytes),
        }
    }

    /// Completes when there is something to read from a descriptor.
    ///
    /// # Errors
    /// Full.
    #[inline]
    pub fn readable(&mut self, aim: T, fd: &Arc<OwnedFd>) -> Result<Flight, NotPrepared> {
        match self {
            Requests::Uring(ring) => ring.readable(aim, fd),
            Requests::Threads(ring) => ring.readable(aim, fd),
        }
    }

    /// Whether there is a completion to take.
    #[inline]
    pub fn has_completions(&mut self) -> bool {
        match self {
            Requests::Uring(ring) => ring.has_completions(),
            Requests::Threads(ring) => ring.has_completions(),
        }
    }

    /// Takes one completion: what it was for, and its result or minus an errno.
    #[inline]
    pub fn reap(&mut self) -> Option<(T, i32)> {
        match self {
            Requests::Uring(ring) => ring.reap(),
            Requests::Threads(ring) => ring.reap(),
        }
    }

    /// Submits and sleeps until something completes, `limit` at most.
    ///
    /// # Errors
    /// What the kernel answers; an interrupted or timed out sleep is none.
    #[inline]
    pub fn sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Requests::Uring(ring) => ring.sleep(limit),
            Requests::Threads(ring) => ring.sleep(limit),
        }
    }

    /// Gives the kernel what is prepared.
    ///
    /// # Errors
    /// EBUSY and the like: what is prepared stays so, and the next call tries again.
    #[inline]
    pub fn submit(&mut self) -> io::Result<()> {
        match self {
            Requests::Uring(ring) => ring.submit(),
            Requests::Threads(ring) => {
                ring.submit();
                Ok(())
            }
        }
    }

    /// Completes when the word at `offset` does not hold `value`, or somebody changes it and wakes
    /// its sleepers.
    ///
    /// # Errors
    /// Full, also when [`By::words_max`] words are waited for.
    pub fn wait_word(
        &mut self,
        aim: T,
        memory: &Arc<SharedMapping>,
        offset: usize,
        value: u32,
    ) -> Result<Flight, NotPrepared> {
        match self {
            Requests::Uring(ring) => ring.wait_word(aim, memory, offset, value),
            Requests::Threads(ring) => ring.wait_word(aim, memory, offset, value),
        }
    }

    /// Reads from `offset` of a file into ranges of a mapping, in order.
    ///
    /// # Errors
    /// Full, or a range that does not lie in the mapping.
    #[inline]
    pub fn read(
        &mut self,
        aim: T,
        file: &Arc<OwnedFd>,
        offset: u64,
        into: (&Arc<SharedMapping>, &[Range]),
        manner: Manner,
    ) -> Result<Flight, NotPrepared> {
        match self {
            Requests::Uring(ring) => ring.read(aim, file, offset, into, manner),
            Requests::Threads(ring) => ring.read(aim, file, offset, into, manner),
        }
    }

    /// Writes ranges of a mapping to `offset` of a file, in order.
    ///
    /// # Errors
    /// Full, or a range that does not lie in the mapping.
    #[inline]
    pub fn write(
        &mut self,
        aim: T,
        file: &Arc<OwnedFd>,
        offset: u64,
        from: (&Arc<SharedMapping>, &[Range]),
        manner: Manner,
    ) -> Result<Flight, NotPrepared> {
        match self {
            Requests::Uring(ring) => ring.write(aim, file, offset, from, manner),
            Requests::Threads(ring) => ring.write(aim, file, offset, from, manner),
        }
    }
}

#[cfg(test)]
mod tests;

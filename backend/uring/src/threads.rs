//! The requests of [`Uring`](crate::Uring) made by a few threads, where the kernel gives no io_uring.
//!
//! Transfers go to threads that start when there is something to do (`threads/workers.rs`), and
//! descriptors are watched by one thread with epoll (`threads/watcher.rs`). Words are looked at by
//! whoever takes completions, and slept on together (futex_waitv(2)); so a word that changes ends a
//! sleep as a completion does.
//!
//! ```text
//! read, write, ... --submit--> queue -> worker --.
//! readable ------------------> epoll -> watcher ---+--> done --reap--> (aim, result)
//! wait_word --------------------------- looked at by reap and sleep
//! ```
//!
//! A request that a worker has holds its file and memory itself: both outlive the ring.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering::Acquire};
use std::sync::Arc;
use std::time::Duration;

use heliostat_base::futex::{self, WORDS_MAX};
use heliostat_base::mapping::SharedMapping;

use crate::{pieces_of, Allocation, Flight, Manner, NotPrepared, Range};

mod lines;
mod watcher;
mod workers;

use watcher::Watcher;
pub(crate) use workers::make_transfer;
use workers::{Done, Job, Transfer, Work, Workers};

/// Words that may be watched at once: as many as one sleep can be on, without the bell of the
/// completions.
pub const WATCHED_MAX: usize = WORDS_MAX - 1;

/// A word that somebody waits for.
struct Watched {
    index: u32,
    memory: Arc<SharedMapping>,
    offset: usize,
    value: u32,
}

impl Watched {
    fn word(&self) -> (&AtomicU32, u32) {
        (self.memory.atomic_u32(self.offset), self.value)
    }

    fn has_changed(&self) -> bool {
        // What is published before the word is changed must be seen by whoever sees the change.
        self.word().0.load(Acquire) != self.value
    }
}

/// Requests that come back with an `aim`, which says what they were for; made by threads.
pub struct ThreadRing<T> {
    aims: Vec<Option<T>>,
    /// For whom the next requests are.
    owner: u32,
    free: Vec<u32>,
    prepared: Vec<Job>,
    words: Vec<Watched>,
    taken: VecDeque<Done>,
    workers: Arc<Workers>,
    watcher: Option<Watcher>,
}

impl<T> ThreadRing<T> {
    /// A ring for `most` requests at once. It starts no thread yet.
    ///
    /// # Errors
    /// Unsupported where the kernel cannot sleep on several words (futex_waitv(2), Linux 5.16).
    pub fn create(most: u32) -> io::Result<ThreadRing<T>> {
        if !futex::can_wait_for_any() {
            let why = "the kernel cannot wait for several words (futex_waitv, Linux 5.16)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Ok(ThreadRing {
            aims: (0..most).map(|_| None).collect(),
            owner: 0,
            free: (0..most).rev().collect(),
            prepared: Vec::new(),
            words: Vec::new(),
            taken: VecDeque::new(),
            workers: Arc::new(Workers::default()),
            watcher: None,
        })
    }

    /// The next requests are for this owner: each has its turn, and not all threads.
    pub fn act_for(&mut self, owner: u32) {
        self.owner = owner;
    }

    /// Requests under way or prepared.
    pub fn under_way(&self) -> usize {
        self.aims.len() - self.free.len()
    }

    /// Whether another request can be prepared.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Reads from `offset` of a file into ranges of a mapping, in order.
    ///
    /// # Errors
    /// Full, or a range that does not lie in the mapping.
    pub fn read(
        &mut self,
        aim: T,
        file: &Arc<OwnedFd>,
        offset: u64,
        into: (&Arc<SharedMapping>, &[Range]),
        manner: Manner,
    ) -> Result<Flight, NotPrepared> {
        let pieces = pieces_of(into.0, into.1, SharedMapping::writable_at)?;
        let _memory = into.0.clone();
        self.prepare(aim, file, Work::Read(Transfer { pieces, offset, manner, _memory }))
    }

    /// Writes ranges of a mapping to `offset` of a file, in order.
    ///
    /// # Errors
    /// As `read`.
    pub fn write(
        &mut self,
        aim: T,
        file: &Arc<OwnedFd>,
        offset: u64,
        from: (&Arc<SharedMapping>, &[Range]),
        manner: Manner,
    ) -> Result<Flight, NotPrepared> {
        let pieces = pieces_of(from.0, from.1, SharedMapping::bytes_at)?;
        let _memory = from.0.clone();
        self.prepare(aim, file, Work::Write(Transfer { pieces, offset, manner, _memory }))
    }

    /// Brings a file's bytes and what describes it to the disk.
    ///
    /// # Errors
    /// Full.
    pub fn fsync(&mut self, aim: T, file: &Arc<OwnedFd>) -> Result<Flight, NotPrepared> {
        self.prepare(aim, file, Work::Fsync)
    }

    /// Brings a file's bytes to the disk, and of what describes it what it takes to read them.
    ///
    /// # Errors
    /// Full.
    pub fn fdatasync(&mut self, aim: T, file: &Arc<OwnedFd>) -> Result<Flight, NotPrepared> {
        self.prepare(aim, file, Work::Fdatasync)
    }

    /// Gives a range of a file back, or makes it read as zero.
    ///
    /// # Errors
    /// Full.
    pub fn allocate(
        &mut self,
        aim: T,
        file: &Arc<OwnedFd>,
        (offset, bytes): (u64, u64),
        what: Allocation,
    ) -> Result<Flight, NotPrepared> {
        self.prepare(aim, file, Work::Allocate { offset, bytes, what })
    }

    /// Makes a file so many bytes long.
    ///
    /// # Errors
    /// Full.
    pub fn truncate(
        &mut self,
        aim: T,
        file: &Arc<OwnedFd>,
        bytes: u64,
    ) -> Result<Flight, NotPrepared> {
        self.prepare(aim, file, Work::Truncate(bytes))
    }

    /// Completes when the word at `offset` does not hold `value`. Whoever wakes its sleepers has to
    /// change it first, as bells do.
    ///
    /// # Errors
    /// Full, also when [`WATCHED_MAX`] words are waited for.
    ///
    /// Panics when the word does not lie in the mapping: the offset is the caller's own constant.
    pub fn wait_word(
        &mut self,
        aim: T,
        memory: &Arc<SharedMapping>,
        offset: usize,
        value: u32,
    ) -> Result<Flight, NotPrepared> {
        if self.words.len() >= WATCHED_MAX {
            return Err(NotPrepared::Full);
        }
        let index = self.place(aim)?;
        let watched = Watched { index, memory: memory.clone(), offset, value };
        // Looked at once now, so that an offset outside is found here.
        let _ = watched.has_changed();
        self.words.push(watched);
        Ok(Flight::of(index))
    }

    /// Completes when there is something to read from a descriptor.
    ///
    /// # Errors
    /// Full, also when the thread that watches cannot be started.
    pub fn readable(&mut self, aim: T, fd: &Arc<OwnedFd>) -> Result<Flight, NotPrepared> {
        if self.watcher.is_none() {
            self.watcher = Watcher::start(&self.workers.done).ok();
        }
        let index = self.place(aim)?;
        let watched = self.watcher.as_mut().map(|watcher| watcher.watch(index, fd));
        if !matches!(watched, Some(Ok(()))) {
            self.give_back(index);
            return Err(NotPrepared::Full);
        }
        Ok(Flight::of(index))
    }

    /// Asks for a request's end. One that no worker has begun ends with ECANCELED, every other one
    /// as if nobody had asked.
    pub fn cancel(&mut self, flight: Flight) {
        let Some(index) = flight.index() else { return };
        let words = self.words.len();
        self.words.retain(|word| word.index != index);
        let prepared = self.prepared.len();
        self.prepared.retain(|job| job.index != index);
        let is_waiting = words > self.words.len() || prepared > self.prepared.len();
        if is_waiting || self.workers.take_back(index) {
            self.taken.push_back((index, -libc::ECANCELED));
        }
    }

    /// Gives the workers what is prepared.
    pub fn submit(&mut self) {
        if !self.prepared.is_empty() {
            self.workers.put(&mut self.prepared);
        }
    }

    /// Submits and sleeps until something completes or a word changes, `limit` at most.
    ///
    /// # Errors
    /// What futex_waitv(2) answers; an interrupted or timed out sleep is none.
    pub fn sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.submit();
        let bell = &self.workers.done;
        let armed = bell.arm();
        if !self.has_completions() {
            let mut words = vec![(bell.word(), armed)];
            words.extend(self.words.iter().map(Watched::word));
            let slept = futex::wait_any(&words, limit);
            slept.map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        }
        self.workers.done.disarm();
        Ok(())
    }

    /// Whether there is a completion to take.
    pub fn has_completions(&self) -> bool {
        !self.taken.is_empty()
            || !self.workers.done.is_empty()
            || self.words.iter().any(Watched::has_changed)
    }

    /// Takes one completion: what it was for, and its result or minus an errno.
    pub fn reap(&mut self) -> Option<(T, i32)> {
        loop {
            if self.taken.is_empty() {
                self.collect();
            }
            let (index, result) = self.taken.pop_front()?;
            if let Some(aim) = self.give_back(index) {
                return Some((aim, result));
            }
        }
    }

    /// Looks for completions, of words too.
    fn collect(&mut self) {
        self.workers.done.take_into(&mut self.taken);
        let taken = &mut self.taken;
        self.words.retain(|word| {
            let has_changed = word.has_changed();
            if has_changed {
                taken.push_back((word.index, 0));
            }
            !has_changed
        });
    }

    fn prepare(&mut self, aim: T, file: &Arc<OwnedFd>, work: Work) -> Result<Flight, NotPrepared> {
        let index = self.place(aim)?;
        self.prepared.push(Job { index, owner: self.owner, file: file.clone(), work });
        Ok(Flight::of(index))
    }

    fn place(&mut self, aim: T) -> Result<u32, NotPrepared> {
        let index = self.free.pop().ok_or(NotPrepared::Full)?;
        // `index` came from `free`, which holds places of `aims` only.
        self.aims[index as usize] = Some(aim);
        Ok(index)
    }

    fn give_back(&mut self, index: u32) -> Option<T> {
        let aim = self.aims.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(aim)
    }
}

impl<T> Drop for ThreadRing<T> {
    /// Workers end after what they are in, which keeps its own file and memory.
    fn drop(&mut self) {
        self.workers.end();
    }
}

#[cfg(test)]
mod tests;

//! What this process knows of an open file: one entry for all descriptors that share its offset.
//!
//! Entries are never freed memory, and a reader that comes late finds a valid one, of another file
//! perhaps: it looks at the descriptor's word after the copy, which leads there no more then.

use std::collections::LinkedList;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use heliostat_abi::code::Unmapped;
use heliostat_abi::name::ObjectId;
use heliostat_backend_lease::reader::LeasedView;
use heliostat_base::fd::OwnedFd;
use heliostat_base::lock::Lock;

use super::position::Position;
use super::READS_FIRST;

/// Open files with a description in one process; further ones stay the kernel's. As many as there
/// can be leases, so that the limit is reached there first.
pub const FILES_MAX: usize = 4096;

static FILES: [File; FILES_MAX] = [const { File::new() }; FILES_MAX];
static FREE: Lock<FreeList> = Lock::new(FreeList { back: Vec::new(), fresh: 0 });

struct FreeList {
    back: Vec<u32>,
    fresh: u32,
}

/// A lease that this process has asked for.
pub struct LeaseState {
    /// The lease, and the session that it belongs to.
    pub lease: Option<(ObjectId, u64)>,
    /// When it was mapped (monotonic ns).
    pub since_ns: u64,
    /// Why it is not mapped; `None` before the first refusal.
    pub reason: Unmapped,
    /// The pause after a refusal is this often doubled.
    pub doublings: u32,
    /// Descriptors that may not be closed before the program closes its own: see `lease::let_go`.
    /// Empty it is all zeros, as the whole table: no room in the library's file.
    pub kept: LinkedList<OwnedFd>,
    /// Reads that a mapping of all its pages costs, in eighths; 0 before the first question.
    pub pages_cost: u32,
}

/// An open file.
pub struct File {
    /// Its bytes, while there is a lease. Readers only load from this line.
    pub view: LeasedView,
    /// Its offset, on a line of its own.
    pub position: Apart<Position>,
    /// Taken to map, unmap, and to take the offset over.
    pub held: Lock<LeaseState>,
    /// Descriptors of this process that refer to it.
    descriptors: AtomicU32,
    /// Reads by the kernel since the last question.
    pub reads: AtomicU32,
    /// So many are to be before the next one.
    pub wanted: AtomicU32,
}

/// Keeps a value on cache lines of its own.
#[repr(align(64))]
pub struct Apart<T>(pub T);

impl LeaseState {
    const fn new() -> Self {
        let kept = LinkedList::new();
        let reason = Unmapped::None;
        Self { lease: None, since_ns: 0, reason, doublings: 0, kept, pages_cost: 0 }
    }
}

impl File {
    const fn new() -> Self {
        Self {
            view: LeasedView::empty(),
            position: Apart(Position::new()),
            held: Lock::new(LeaseState::new()),
            descriptors: AtomicU32::new(0),
            reads: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
        }
    }

    /// One more descriptor refers to it.
    pub fn retain(&self) {
        self.descriptors.fetch_add(1, AcqRel);
    }

    /// One less; true when it was the last.
    pub fn release(&self) -> bool {
        self.descriptors.fetch_sub(1, AcqRel) == 1
    }

    /// Counts a read by the kernel; true when it is time to ask (again).
    pub fn count_read(&self, weight: u32) -> bool {
        let reads = self.reads.fetch_add(weight, Relaxed);
        reads.saturating_add(weight) >= self.wanted.load(Relaxed)
    }

    /// The next question comes after so many more reads.
    pub fn ask_after(&self, reads: u32) {
        self.reads.store(0, Relaxed);
        self.wanted.store(reads, Relaxed);
    }
}

/// The description at `index`; indices come from the descriptor table and are always in range.
#[inline(always)]
pub fn at(index: u32) -> &'static File {
    &FILES[index as usize % FILES_MAX]
}

/// A fresh one with `descriptors` of this process, or `None` when all are used. In a critical
/// section.
pub fn allocate(descriptors: u32, is_shared: bool) -> Option<u32> {
    let mut free = FREE.lock();
    let index = match free.back.pop() {
        Some(index) => index,
        None if (free.fresh as usize) < FILES_MAX => {
            free.fresh += 1;
            free.fresh - 1
        }
        None => return None,
    };
    let file = at(index);
    *file.held.lock() = LeaseState::new();
    file.position.0.begin(is_shared);
    file.descriptors.store(descriptors, Release);
    file.ask_after(READS_FIRST);
    Some(index)
}

/// Gives one back that is not mapped. In a critical section.
pub fn free(index: u32) {
    FREE.lock().back.push(index);
}

/// In the child of a fork: frees what other threads held.
pub fn reset_in_forked_child() {
    FREE.reset_in_forked_child();
    let fresh = FREE.lock().fresh;
    (0..fresh).for_each(|index| at(index).held.reset_in_forked_child());
}

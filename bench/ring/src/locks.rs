//! The locks of the comparison: MCS and ticket, as published, and as one would use them today.
//!
//! The published locks only spin. With more threads than cores that hands the lock to threads
//! that do not run, so each lock also comes in a kind that gives up its core while it waits.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use heliostat_base::spin::{pause, yield_now, PAUSES_PER_YIELD};

/// A lock that runs a closure while it is held.
pub trait Lock: Default + Sync {
    /// Runs `work` alone.
    fn with<R>(&self, work: impl FnOnce() -> R) -> R;
}

/// Waits until `done`; with `YIELD` it gives up the core after every eighth pause.
#[inline]
fn wait<const YIELD: bool>(done: impl Fn() -> bool) {
    let mut turns = 0u32;
    while !done() {
        turns = turns.wrapping_add(1);
        if YIELD && turns % PAUSES_PER_YIELD == 0 {
            yield_now();
        } else {
            pause();
        }
    }
}

/// Tickets: one line that all waiters look at.
#[derive(Default)]
#[repr(align(128))]
pub struct Ticket<const YIELD: bool> {
    next: AtomicU32,
    serving: AtomicU32,
}

impl<const YIELD: bool> Lock for Ticket<YIELD> {
    #[inline]
    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        wait::<YIELD>(|| self.serving.load(Ordering::Acquire) == mine);
        let result = work();
        self.serving.store(mine.wrapping_add(1), Ordering::Release);
        result
    }
}

/// Mellor-Crummey and Scott: a queue in which each waits on a line of its own.
#[derive(Default)]
#[repr(align(128))]
pub struct Mcs<const YIELD: bool> {
    last: AtomicPtr<Node>,
}

#[derive(Default)]
#[repr(align(128))]
struct Node {
    next: AtomicPtr<Node>,
    granted: AtomicBool,
}

impl<const YIELD: bool> Lock for Mcs<YIELD> {
    #[inline]
    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let node = Node::default();
        let own = ptr::from_ref(&node).cast_mut();
        let before = self.last.swap(own, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: the owner of `before` waits below until this link is there.
            unsafe { (*before).next.store(own, Ordering::Release) };
            wait::<YIELD>(|| node.granted.load(Ordering::Acquire));
        }
        let result = work();
        let (null, free) = (ptr::null_mut(), Ordering::AcqRel);
        if node.next.load(Ordering::Acquire).is_null() {
            if self.last.compare_exchange(own, null, free, Ordering::Relaxed).is_ok() {
                return result;
            }
            wait::<YIELD>(|| !node.next.load(Ordering::Acquire).is_null());
        }
        // SAFETY: the next owner waits for exactly this store.
        unsafe { (*node.next.load(Ordering::Acquire)).granted.store(true, Ordering::Release) };
        result
    }
}

/// The two-lock queue: one lock for putting, one for taking, 64 B copied under the lock.
pub struct TwoLockQueue<L: Lock> {
    put: L,
    take: L,
    head: Padded<UnsafeCell<usize>>,
    tail: Padded<UnsafeCell<usize>>,
    slots: Vec<Slot>,
}

#[repr(align(128))]
struct Padded<T>(T);

#[repr(align(64))]
struct Slot {
    bytes: UnsafeCell<[u8; 64]>,
    full: AtomicBool,
}

// SAFETY: `head` is used under `put`, `tail` under `take`, and the bytes of a slot by whoever the
// slot's flag says.
unsafe impl<L: Lock> Sync for TwoLockQueue<L> {}

impl<L: Lock> TwoLockQueue<L> {
    /// A queue of that many slots, a power of two.
    pub fn new(slots: usize) -> TwoLockQueue<L> {
        let empty = || Slot { bytes: UnsafeCell::new([0; 64]), full: AtomicBool::new(false) };
        TwoLockQueue {
            put: L::default(),
            take: L::default(),
            head: Padded(UnsafeCell::new(0)),
            tail: Padded(UnsafeCell::new(0)),
            slots: (0..slots).map(|_| empty()).collect(),
        }
    }

    /// Puts 64 bytes; false if the queue is full.
    #[inline]
    pub fn put(&self, bytes: &[u8; 64]) -> bool {
        self.put.with(|| {
            // SAFETY: under `put`; the slot is empty, so no taker touches its bytes.
            unsafe {
                let head = self.head.0.get();
                let slot = &self.slots[*head & (self.slots.len() - 1)];
                if slot.full.load(Ordering::Acquire) {
                    return false;
                }
                *slot.bytes.get() = *bytes;
                slot.full.store(true, Ordering::Release);
                *head += 1;
            }
            true
        })
    }

    /// Takes 64 bytes; false if the queue is empty.
    #[inline]
    pub fn take(&self, into: &mut [u8; 64]) -> bool {
        self.take.with(|| {
            // SAFETY: under `take`; the slot is full, so no putter touches its bytes.
            unsafe {
                let tail = self.tail.0.get();
                let slot = &self.slots[*tail & (self.slots.len() - 1)];
                if !slot.full.load(Ordering::Acquire) {
                    return false;
                }
                *into = *slot.bytes.get();
                slot.full.store(false, Ordering::Release);
                *tail += 1;
            }
            true
        })
    }
}

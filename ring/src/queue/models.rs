//! Loom: the orders Q1 to Q3 of the queue, explored over all interleavings.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p heliostat-ring --lib --release queue::models`. It
//! is the production code over loom's atomics; a slot is a loom cell that holds its item's number.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::sync::UnsafeCell;

const SLOTS: usize = 2;

struct Memory<const C: usize> {
    head: AtomicU64,
    marks: [AtomicU64; SLOTS],
    items: [UnsafeCell<u64>; SLOTS],
    seats: [Page; C],
}

struct Page(AtomicU64, AtomicU64);

// SAFETY: loom runs one thread at a time and checks every cell access for an ordering.
unsafe impl<const C: usize> Send for Memory<C> {}
// SAFETY: as above.
unsafe impl<const C: usize> Sync for Memory<C> {}

impl<const C: usize> Words for Memory<C> {
    fn head(&self) -> &AtomicU64 {
        &self.head
    }
    fn mark(&self, slot: usize) -> &AtomicU64 {
        &self.marks[slot]
    }
    fn slots(&self) -> usize {
        SLOTS
    }
}

impl Seat for Page {
    fn cursor(&self) -> &AtomicU64 {
        &self.0
    }
    fn hold(&self) -> &AtomicU64 {
        &self.1
    }
}

impl<const C: usize> Memory<C> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            head: AtomicU64::new(0),
            marks: std::array::from_fn(|_| AtomicU64::new(0)),
            items: std::array::from_fn(|_| UnsafeCell::new(0)),
            seats: std::array::from_fn(|_| Page(AtomicU64::new(0), AtomicU64::new(0))),
        })
    }

    /// Overwrites the oldest that nobody reads with the next number that fits; that number.
    fn push(&self, from: u64) -> Option<u64> {
        let fits = |n: &u64| retire(self, *n as usize % SLOTS, &self.seats);
        let number = (from..from + SLOTS as u64).find(fits)?;
        // SAFETY: loom checks that nobody reads the cell meanwhile.
        self.items[number as usize % SLOTS].with_mut(|item| unsafe { *item = number });
        commit(self, number as usize % SLOTS, number);
        Some(number)
    }

    /// Takes at most one item; its number.
    fn pop(&self, seat: usize, cursor: &mut u64) -> Option<u64> {
        let slot = take(self, &self.seats[seat], cursor, |_| true)?;
        // SAFETY: loom checks that nobody writes the cell meanwhile.
        let item = self.items[slot].with(|item| unsafe { *item });
        assert_eq!(item, *cursor, "another item than the mark said");
        *cursor += 1;
        release(&self.seats[seat], *cursor);
        Some(item)
    }
}

fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(f);
}

#[test]
fn loom_what_is_read_is_never_written_and_comes_in_order() {
    model(2, || {
        let memory = Memory::<1>::new();
        let consumer = memory.clone();
        let reader = thread::spawn(move || {
            let mut cursor = 0;
            let first = consumer.pop(0, &mut cursor);
            let second = consumer.pop(0, &mut cursor);
            assert!(second.is_none() || first < second);
        });
        let mut next = 0;
        for _ in 0..3 {
            // The reader may go from one slot to the other while the producer looks, but not back.
            let pushed = memory.push(next).or_else(|| memory.push(next));
            next = pushed.expect("one slot at most is read") + 1;
        }
        reader.join().unwrap();
    });
}

#[test]
fn loom_two_consumers_hold_different_slots() {
    model(2, || {
        let memory = Memory::<2>::new();
        memory.push(0);
        let readers = [0, 1].map(|seat| {
            let consumer = memory.clone();
            thread::spawn(move || consumer.pop(seat, &mut 0))
        });
        memory.push(1);
        // Both may read one slot each, and then nothing can be written.
        memory.push(2);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn loom_nothing_is_lost_by_a_producer_that_waits_for_the_cursor() {
    model(2, || {
        let memory = Memory::<1>::new();
        let consumer = memory.clone();
        let reader = thread::spawn(move || {
            let mut cursor = 0;
            let mut seen = Vec::new();
            seen.extend(consumer.pop(0, &mut cursor));
            seen.extend(consumer.pop(0, &mut cursor));
            (seen, cursor)
        });
        let mut standing = Standing { cursor: 0, counts: true };
        let mut pushed = 0;
        for _ in 0..4 {
            standing.follow(&memory.seats[0], pushed);
            if pushed < standing.cursor + SLOTS as u64 {
                assert_eq!(memory.push(pushed), Some(pushed), "nobody reads what is behind it");
                pushed += 1;
            }
        }
        let (mut seen, mut cursor) = reader.join().unwrap();
        while let Some(item) = memory.pop(0, &mut cursor) {
            seen.push(item);
        }
        assert!(standing.counts && seen.into_iter().eq(0..pushed));
    });
}

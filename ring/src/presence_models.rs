//! A program that writes in a region while the control plane moves it, over all interleavings.
//!
//! Loom has no fences that one thread makes in another. What the kernel promises of them is that each
//! thread of the program passes a full fence at some point of its own while the control plane waits in
//! the call: where it runs by an interrupt, else by its switch. So that is what is modelled: for each
//! point in the writer's steps there is a model in which it is asked there and answers. Code that holds
//! in all of them holds wherever the interrupt comes. The light fence itself is nothing in a model.

use heliostat_abi::memory::page::State;
use heliostat_abi::name::ObjectId;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::region_page::{look, tell};
use crate::rows::Taken;
use crate::sync::{fence, Condvar, Mutex, Ordering, UnsafeCell};

const REGION: ObjectId = ObjectId { index: 0, generation: 1 };
/// Points of a writer at which the kernel's fence may find it.
const POINTS: usize = 4;

/// A fence that one thread asks for and another makes, at a point of its own.
struct Kernel {
    /// Asked for, made.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Kernel {
    fn new() -> Self {
        Self { state: Mutex::new((false, false)), changed: Condvar::new() }
    }

    /// The one that asks returns when it is made.
    fn heavy_fence(&self) {
        fence(Ordering::SeqCst);
        let mut state = self.state.lock().unwrap();
        state.0 = true;
        self.changed.notify_all();
        while !state.1 {
            state = self.changed.wait(state).unwrap();
        }
        drop(state);
        fence(Ordering::SeqCst);
    }

    /// The other waits here until it is asked.
    fn interrupt(&self) {
        let mut state = self.state.lock().unwrap();
        while !state.0 {
            state = self.changed.wait(state).unwrap();
        }
        fence(Ordering::SeqCst);
        state.1 = true;
        self.changed.notify_all();
    }
}

struct Memory {
    word: AtomicU64,
    rows: AtomicU64,
    counters: [AtomicU64; 2],
    /// Where the bytes lie at first, and where they go.
    old: UnsafeCell<u32>,
    new: UnsafeCell<u32>,
    kernel: Kernel,
}

// SAFETY: loom runs one thread at a time and checks every cell access for an ordering.
unsafe impl Send for Memory {}
// SAFETY: as above: the model has both words, and ends after its threads.
unsafe impl Sync for Memory {}

impl Memory {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            word: AtomicU64::new(heliostat_abi::memory::page::word(REGION, State::Live, 1)),
            rows: AtomicU64::new(0),
            counters: [AtomicU64::new(0), AtomicU64::new(0)],
            old: UnsafeCell::new(0),
            new: UnsafeCell::new(0),
            kernel: Kernel::new(),
        })
    }

    /// Adds one to the bytes where the word says that they lie; whether it did.
    fn add(&self) -> bool {
        let found = look(&self.word, REGION);
        // SAFETY: loom checks that nobody copies the cell meanwhile; a model has one writer.
        match found {
            (State::Live, 1) => self.old.with_mut(|cell| unsafe { *cell += 1 }),
            (State::Live, _) => self.new.with_mut(|cell| unsafe { *cell += 1 }),
            _ => {}
        }
        found.0 == State::Live
    }

    /// The same by a writer who adds to a counter without a lock. It is interrupted at a point, if any.
    fn add_alone(&self, interrupted: Option<usize>) -> bool {
        let point = |number| {
            if interrupted == Some(number) {
                self.kernel.interrupt();
            }
        };
        point(0);
        self.rows.fetch_max(1, AcqRel); // V3
        begin_alone(&self.counters[0], 1);
        point(1);
        let added = self.add();
        point(2);
        end_alone(&self.counters[0]);
        point(3);
        added
    }

    /// The same with locked additions.
    fn add_locked(&self) -> bool {
        begin_shared(&self.counters[1]);
        let added = self.add();
        end_shared(&self.counters[1]);
        added
    }

    /// Moves the bytes if nobody is in them; whether it did.
    fn relocate(&self, fence: impl FnOnce(&Self)) -> bool {
        tell(&self.word, REGION, State::Moving, 1);
        fence(self);
        let rows = self.rows.load(Acquire); // V3
        let is_quiet = (rows == 0 || is_zero(&self.counters[0])) && is_zero(&self.counters[1]);
        if is_quiet {
            // SAFETY: loom checks that nobody writes either cell meanwhile.
            let bytes = self.old.with(|cell| unsafe { *cell });
            // SAFETY: as above.
            self.new.with_mut(|cell| unsafe { *cell = bytes });
        }
        tell(&self.word, REGION, State::Live, if is_quiet { 2 } else { 1 });
        is_quiet
    }

    fn bytes(&self, has_moved: bool) -> u32 {
        let place = if has_moved { &self.new } else { &self.old };
        // SAFETY: whoever asks has waited for the writer's end.
        place.with(|cell| unsafe { *cell })
    }
}

/// A writer's two additions, of which the kernel's fence finds one at a point, and a move.
fn move_beside(point: usize, fence: fn(&Memory)) {
    loom::model(move || {
        let memory = Memory::new();
        let writer = {
            let memory = memory.clone();
            thread::spawn(move || {
                let first = (point < POINTS).then_some(point);
                let second = point.checked_sub(POINTS);
                u32::from(memory.add_alone(first)) + u32::from(memory.add_alone(second))
            })
        };
        let has_moved = memory.relocate(fence);
        assert_eq!(memory.bytes_after(writer, has_moved), (has_moved, true));
    });
}

impl Memory {
    fn bytes_after(&self, writer: thread::JoinHandle<u32>, has_moved: bool) -> (bool, bool) {
        let written = writer.join().unwrap();
        (has_moved, self.bytes(has_moved) == written)
    }
}

/// Whether some model finds a write that is lost, or a race.
fn is_found(model: impl Fn() + Send + 'static) -> bool {
    thread_of_its_own(model).is_err()
}

/// Loom leaves its thread unusable once a model has failed.
fn thread_of_its_own(model: impl Fn() + Send + 'static) -> std::thread::Result<()> {
    std::thread::spawn(move || model()).join()
}

#[test]
fn loom_no_write_is_lost_by_a_move_with_locked_additions() {
    loom::model(|| {
        let memory = Memory::new();
        let writer = {
            let memory = memory.clone();
            thread::spawn(move || u32::from(memory.add_locked()) + u32::from(memory.add_locked()))
        };
        let has_moved = memory.relocate(|_| full_fence()); // V1
        assert_eq!(memory.bytes_after(writer, has_moved), (has_moved, true));
    });
}

#[test]
fn loom_no_write_is_lost_wherever_the_kernels_fence_finds_the_writer() {
    for point in 0..2 * POINTS {
        move_beside(point, |memory| memory.kernel.heavy_fence()); // V1
    }
}

#[test]
fn loom_without_the_kernels_fence_a_write_is_lost() {
    // The writer is never asked, and the mover's own fence is none of the writer's.
    assert!(is_found(|| move_beside(usize::MAX - POINTS, |_| full_fence())));
}

#[test]
fn loom_a_count_that_ends_without_an_order_is_found() {
    assert!(is_found(|| loom::model(|| {
        let memory = Memory::new();
        let writer = {
            let memory = memory.clone();
            thread::spawn(move || {
                begin_shared(&memory.counters[1]);
                let added = memory.add();
                memory.counters[1].fetch_sub(1, Relaxed); // not V2
                u32::from(added)
            })
        };
        let has_moved = memory.relocate(|_| full_fence());
        assert_eq!(memory.bytes_after(writer, has_moved), (has_moved, true));
    })));
}

#[test]
fn loom_a_word_that_is_looked_at_before_the_count_is_found() {
    assert!(is_found(|| loom::model(|| {
        let memory = Memory::new();
        let writer = {
            let memory = memory.clone();
            thread::spawn(move || {
                let found = look(&memory.word, REGION); // not V1
                begin_shared(&memory.counters[1]);
                if found == (State::Live, 1) {
                    // SAFETY: loom finds the copy that goes on meanwhile.
                    memory.old.with_mut(|cell| unsafe { *cell += 1 });
                }
                end_shared(&memory.counters[1]);
                u32::from(found == (State::Live, 1))
            })
        };
        let has_moved = memory.relocate(|_| full_fence());
        assert_eq!(memory.bytes_after(writer, has_moved), (has_moved, true));
    })));
}

#[test]
fn loom_a_row_that_its_thread_gave_back_has_what_that_counted() {
    loom::model(|| {
        let rows = Arc::new((Taken::new(), AtomicU64::new(0)));
        let one = {
            let rows = rows.clone();
            thread::spawn(move || count_in_a_row(&rows))
        };
        let all = count_in_a_row(&rows) + one.join().unwrap();
        // Whoever found no row of its own had the other one.
        assert_eq!((all, rows.1.load(Relaxed)), (2, 2));
    });
}

/// Takes the first row and counts one more in it, which stays; as often as it takes until it has it.
fn count_in_a_row(rows: &(Taken, AtomicU64)) -> u64 {
    loop {
        let row = rows.0.take().expect("a row");
        if row == 0 {
            begin_alone(&rows.1, 1);
        }
        rows.0.give_back(row);
        if row == 0 {
            return 1;
        }
        thread::yield_now();
    }
}

//! Values that are replaced while a thread reads them, over all interleavings.
//!
//! The kernel's fence is modelled as in `presence_models`: the reader makes it at a point of its own,
//! and for each point there is a model. A value marks its end, so that one that is read after that, or
//! meanwhile, is found as the data race it is.

use loom::sync::Arc as Shared;
use loom::thread;

use super::*;
use crate::sync::{fence, Condvar, Ordering, Watched};

/// What is read: 1 as long as it is there.
struct Value(Shared<Watched<u32>>);

impl Drop for Value {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

struct World {
    words: Words,
    value: Replaced<Value>,
    /// Asked for, made.
    kernel: (Mutex<(bool, bool)>, Condvar),
}

fn value() -> Value {
    Value(Shared::new(Watched::new(1)))
}

impl World {
    fn new() -> Shared<Self> {
        let words = Words(std::array::from_fn(|_| Line(AtomicU64::new(0))));
        let kernel = (Mutex::new((false, false)), Condvar::new());
        Shared::new(Self { words, value: Replaced::new(value()), kernel })
    }

    fn heavy_fence(&self) -> bool {
        fence(Ordering::SeqCst);
        let mut state = self.kernel.0.lock().unwrap();
        state.0 = true;
        self.kernel.1.notify_all();
        while !state.1 {
            state = self.kernel.1.wait(state).unwrap();
        }
        drop(state);
        fence(Ordering::SeqCst);
        true
    }

    fn interrupt(&self) {
        let mut state = self.kernel.0.lock().unwrap();
        while !state.0 {
            state = self.kernel.1.wait(state).unwrap();
        }
        fence(Ordering::SeqCst);
        state.1 = true;
        self.kernel.1.notify_all();
    }

    /// Reads the value once; the kernel's fence finds the reader at a point, if any.
    fn read(&self, row: Row, interrupted: Option<usize>) {
        let point = |number| {
            if interrupted == Some(number) {
                self.interrupt();
            }
        };
        point(0);
        let section = self.words.begin(row);
        point(1);
        let value = self.value.get(&section);
        point(2);
        assert_eq!(value.0.get(), 1, "it is gone");
        point(3);
        drop(section);
        point(4);
    }
}

const POINTS: usize = 5;

/// Two reads, of which the kernel's fence finds one at a point, while the value is replaced.
fn replace_beside(point: usize, row: fn() -> Row, heavy_fence: fn(&World) -> bool) {
    loom::model(move || {
        let world = World::new();
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                world.read(row(), (point < POINTS).then_some(point));
                world.read(row(), point.checked_sub(POINTS));
            })
        };
        world.value.replace_in(&world.words, value(), || heavy_fence(&world));
        reader.join().unwrap();
    });
}

fn own() -> Row {
    Row::of_model(0)
}

#[test]
fn loom_a_value_stays_as_long_as_it_is_read_wherever_the_kernels_fence_finds_the_reader() {
    for point in 0..2 * POINTS {
        replace_beside(point, own, World::heavy_fence);
    }
}

#[test]
fn loom_a_value_stays_as_long_as_it_is_read_in_the_shared_row() {
    // Its additions are locked, and a full fence: none of the kernel's is needed.
    replace_beside(
        usize::MAX - POINTS,
        || Row::SHARED,
        |_| {
            fence(Ordering::SeqCst);
            true
        },
    );
}

#[test]
fn loom_without_the_kernels_fence_a_value_goes_while_it_is_read() {
    let without = || {
        replace_beside(usize::MAX - POINTS, own, |_| {
            fence(Ordering::SeqCst);
            true
        })
    };
    assert!(std::thread::spawn(without).join().is_err());
}

#[test]
fn loom_where_the_fence_is_refused_values_stay() {
    replace_beside(usize::MAX - POINTS, own, |_| false);
}

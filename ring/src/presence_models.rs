//! A program that writes in a region while the control plane moves it, over all interleavings.

use heliostat_abi::memory::page::State;
use heliostat_abi::name::ObjectId;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::region_page::{look, tell};
use crate::sync::UnsafeCell;

const REGION: ObjectId = ObjectId { index: 0, generation: 1 };

struct Memory {
    word: AtomicU64,
    counters: [AtomicU64; 2],
    /// Where the bytes lie at first, and where they go.
    old: UnsafeCell<u32>,
    new: UnsafeCell<u32>,
}

// SAFETY: loom runs one thread at a time and checks every cell access for an ordering.
unsafe impl Send for Memory {}
// SAFETY: as above: the model has both words, and ends after its threads.
unsafe impl Sync for Memory {}

/// Adds one to the bytes where they lie, if it may; whether it did.
fn write(memory: &Memory, row: usize) -> bool {
    begin(&memory.counters[row]);
    let found = look(&memory.word, REGION);
    // SAFETY: loom checks that nobody copies the cell meanwhile; each writer has a model of its own.
    match found {
        (State::Live, 1) => memory.old.with_mut(|cell| unsafe { *cell += 1 }),
        (State::Live, _) => memory.new.with_mut(|cell| unsafe { *cell += 1 }),
        _ => {}
    }
    end(&memory.counters[row]);
    found.0 == State::Live
}

#[test]
fn loom_no_write_is_lost_by_a_move() {
    loom::model(|| {
        let counters = [AtomicU64::new(0), AtomicU64::new(0)];
        let word = AtomicU64::new(heliostat_abi::memory::page::word(REGION, State::Live, 1));
        let (old, new) = (UnsafeCell::new(0), UnsafeCell::new(0));
        let memory = Arc::new(Memory { word, counters, old, new });
        let writer = {
            let memory = memory.clone();
            thread::spawn(move || u32::from(write(&memory, 0)) + u32::from(write(&memory, 0)))
        };
        tell(&memory.word, REGION, State::Moving, 1);
        full_fence(); // V1
        let is_quiet = memory.counters.iter().all(is_zero);
        if is_quiet {
            // SAFETY: loom checks that nobody writes either cell meanwhile.
            let bytes = memory.old.with(|cell| unsafe { *cell });
            // SAFETY: as above.
            memory.new.with_mut(|cell| unsafe { *cell = bytes });
        }
        tell(&memory.word, REGION, State::Live, if is_quiet { 2 } else { 1 });
        let written = writer.join().unwrap();
        let place = if is_quiet { &memory.new } else { &memory.old };
        // SAFETY: the writer has ended.
        assert_eq!(place.with(|cell| unsafe { *cell }), written);
    });
}

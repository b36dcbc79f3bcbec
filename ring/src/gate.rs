//! A gate: threads that write pass it at the cost of one cache line of their own, and one that
//! wants all of them out shuts it, waits until they are, and opens it again.
//!
//! Each writer has a *line* that says out, inside or asking. Nobody but its writer touches it while
//! the gate stays open. Fair to both: a writer that asks at a shut gate is let in by the opening
//! itself, before the gate can be shut again, and a shut gate lets nobody new in.
//!
//! Orders: `G1` line inside, full fence, look at SHUT; against SHUT set, full fence, look at the
//! lines: one of both sees the other, so nobody is inside a gate that counts as empty. `G2` what was
//! written inside before the line says out (release); whoever shut the gate acquires. The same the
//! other way round for asking and opening.

use std::time::Duration;

use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{fence_after_locked, full_fence, futex_wait, futex_wake_all, now_ns, AtomicU32};

const OUT: u32 = 0;
const INSIDE: u32 = 1;
const ASKING: u32 = 2;

/// One writer's word, alone on its cache lines.
#[repr(align(128))]
struct Line(AtomicU32);

/// A gate for a fixed number of lines. Each line belongs to one thread at a time, and one thread at
/// a time shuts and opens; the callers see to both.
pub struct Gate {
    shut: AtomicU32,
    left: AtomicU32,
    lines: Box<[Line]>,
}

impl Gate {
    /// An open gate.
    pub fn new(lines: usize) -> Self {
        let lines = (0..lines).map(|_| Line(AtomicU32::new(OUT))).collect();
        Self { shut: AtomicU32::new(0), left: AtomicU32::new(0), lines }
    }

    /// Goes in; waits while the gate is shut. Not again before [`Gate::leave`].
    pub fn enter(&self, line: usize) {
        let word = &self.lines[line].0;
        loop {
            word.swap(INSIDE, SeqCst); // G1
            fence_after_locked();
            if self.shut.load(Acquire) == 0 {
                return;
            }
            word.swap(ASKING, SeqCst); // G1, G2
            fence_after_locked();
            self.tell_left();
            // The gate may have opened before it could see who asks. It must not be entered by
            // taking the word back to inside: it may be shut again by now, and counted as empty.
            let opened = self.shut.load(Acquire) == 0;
            if opened && word.compare_exchange(ASKING, OUT, SeqCst, Relaxed).is_ok() {
                continue;
            }
            while word.load(Acquire) == ASKING {
                futex_wait(word, ASKING, None);
            }
            return;
        }
    }

    /// Goes out.
    pub fn leave(&self, line: usize) {
        self.lines[line].0.swap(OUT, SeqCst); // G2
        fence_after_locked();
        if self.shut.load(Relaxed) != 0 {
            self.tell_left();
        }
    }

    fn tell_left(&self) {
        self.left.fetch_add(1, SeqCst);
        futex_wake_all(&self.left);
    }

    /// Shuts the gate and waits until nobody is inside, `limit` at most; false when somebody still
    /// is, and the gate is open again.
    pub fn shut(&self, limit: Option<Duration>) -> bool {
        let ns = |limit: Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let ends = limit.map(|limit| now_ns().saturating_add(ns(limit)));
        self.shut.store(1, Relaxed);
        full_fence(); // G1
        loop {
            let rung = self.left.load(SeqCst);
            if (0..self.lines.len()).all(|line| !self.is_inside(line)) {
                return true;
            }
            let left = ends.map(|ends| Duration::from_nanos(ends.saturating_sub(now_ns())));
            if left == Some(Duration::ZERO) {
                self.open();
                return false;
            }
            futex_wait(&self.left, rung, left);
        }
    }

    /// Whether the writer of `line` is inside.
    pub fn is_inside(&self, line: usize) -> bool {
        self.lines[line].0.load(Acquire) == INSIDE // G2
    }

    /// Opens the gate and lets in who asks.
    pub fn open(&self) {
        self.shut.store(0, Release); // G2
        full_fence(); // G1
        for Line(word) in &self.lines {
            if word.compare_exchange(ASKING, INSIDE, SeqCst, Relaxed).is_ok() {
                futex_wake_all(word);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::UnsafeCell;
    use loom::{sync::Arc, thread};

    struct Memory {
        gate: Gate,
        cells: [UnsafeCell<u32>; 2],
    }

    // SAFETY: loom runs one thread at a time and checks every cell access for an ordering.
    unsafe impl Send for Memory {}
    // SAFETY: as above.
    unsafe impl Sync for Memory {}

    fn play(writers: usize, turns: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let cells = [UnsafeCell::new(0), UnsafeCell::new(0)];
            let memory = Arc::new(Memory { gate: Gate::new(writers), cells });
            let threads: Vec<_> = (0..writers)
                .map(|line| {
                    let memory = memory.clone();
                    thread::spawn(move || {
                        memory.gate.enter(line);
                        // SAFETY: loom checks that nobody reads the cell meanwhile.
                        memory.cells[line].with_mut(|cell| unsafe { *cell += 1 });
                        memory.gate.leave(line);
                    })
                })
                .collect();
            for _ in 0..turns {
                assert!(memory.gate.shut(None));
                for cell in &memory.cells {
                    // SAFETY: loom checks that nobody writes the cell meanwhile.
                    assert!(cell.with(|cell| unsafe { *cell }) <= 1);
                }
                memory.gate.open();
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn loom_nobody_writes_while_the_gate_is_shut_and_nobody_sleeps_for_ever() {
        play(1, 2);
    }

    #[test]
    fn loom_two_writers_pass_one_shutting() {
        play(2, 1);
    }
}

//! Histories of programs that go on where a node is lost: a call of which nobody knows whether it was
//! done has no response, and what the program calls afterwards is another process's.
//!
//! The lines are those of `recorded`, and two more: `x`, the last call was not done; `n`, another process
//! from here on.

use std::path::Path;
use std::time::{Duration, Instant};

use heliostat_base::clock::monotonic_ns;
use heliostat_stub_lock::{Held, LockError, Locks, ReaderWriterLock};
use heliostat_stub_memory::{Memory, MemoryError, NodeFailure, Region, Rights};
use heliostat_verify_linearizability::Call;

use super::recorded::{Dice, NextCall};

/// Numbers of one program's processes.
const PROCESSES: u64 = 1000;
/// Between two calls: what is wanted is a history over some seconds, and not a long one.
const PAUSE: Duration = Duration::from_millis(8);
/// Between two tries to reach what is lost.
const AGAIN: Duration = Duration::from_millis(50);

/// Lines of one program, written at its end.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn put(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn begins(&mut self, what: &str) {
        self.put(&format!("i {} {what}", monotonic_ns()));
    }

    fn responds(&mut self, answer: &str) {
        self.put(&format!("r {} {answer}", monotonic_ns()));
    }

    fn write(&self, path: &str) {
        std::fs::write(path, &self.0).unwrap();
    }
}

/// The calls that a program has recorded.
pub fn read<O, A>(
    path: &Path,
    program: u64,
    operation: impl Fn(&[&str]) -> O,
    answer: impl Fn(&[&str]) -> A,
) -> Vec<Call<O, A>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut calls: Vec<Call<O, A>> = Vec::new();
    let mut process = program * PROCESSES;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "x" => drop(calls.pop().unwrap()),
            "n" => process += 1,
            "i" => calls.push(Call {
                process,
                invoked_ns: words[1].parse().unwrap(),
                responded: None,
                operation: operation(&words[2..]),
            }),
            _ => {
                let at = words[1].parse().unwrap();
                calls.last_mut().unwrap().responded = Some((at, answer(&words[2..])));
            }
        }
    }
    assert!(process < (program + 1) * PROCESSES);
    calls
}

/// Whether what failed was certainly not done.
fn was_not_done(error: &MemoryError) -> bool {
    match error {
        MemoryError::Node { why, .. } => *why == NodeFailure::Down,
        MemoryError::Stale { .. } | MemoryError::Unreachable { .. } => true,
        other => panic!("{other:?}"),
    }
}

/// Maps a region, as soon as it can be.
fn mapped(memory: &Memory, name: &str, until: Instant) -> Option<Region> {
    while Instant::now() < until {
        match memory.map(name, Rights::DATA) {
            Ok(region) => return Some(region),
            Err(MemoryError::Unreachable { .. } | MemoryError::Control(_)) => {
                std::thread::sleep(AGAIN);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    None
}

/// Changes words of a region by chance for so many milliseconds, whatever becomes of nodes.
pub fn change_words(memory: &Memory, name: &str, path: &str, (ms, words, seed): (u64, u64, u64)) {
    let until = Instant::now() + Duration::from_millis(ms);
    let (mut lines, mut dice) = (Lines::default(), Dice::new(seed));
    let (mut seen, mut step) = (vec![0; words as usize], seed << 32);
    while let Some(region) = mapped(memory, name, until) {
        let lost = loop {
            if Instant::now() >= until {
                break false;
            }
            step += 1;
            let next = NextCall::draw(&mut dice, &seen, step);
            lines.begins(&next.to_string());
            match next.make(&region) {
                Ok(old) => {
                    lines.responds(&old.to_string());
                    seen[next.word as usize] = old;
                }
                Err(error) => {
                    lines.put(if was_not_done(&error) { "x" } else { "n" });
                    break true;
                }
            }
            std::thread::sleep(PAUSE);
        };
        if !lost {
            break;
        }
    }
    lines.write(path);
}

/// Opens a lock, as soon as it can be.
fn opened(locks: &Locks, name: &str, until: Instant) -> Option<ReaderWriterLock> {
    while Instant::now() < until {
        match locks.named(name).reader_writer() {
            Ok(lock) => return Some(lock),
            Err(LockError::Unreachable { .. }) => std::thread::sleep(AGAIN),
            Err(other) => panic!("{other:?}"),
        }
    }
    None
}

/// Reads and writes under a lock by chance for so many milliseconds, whatever becomes of nodes.
pub fn use_lock(locks: &Locks, name: &str, path: &str, (ms, seed): (u64, u64)) {
    let until = Instant::now() + Duration::from_millis(ms);
    let (mut lines, mut dice) = (Lines::default(), Dice::new(seed));
    while let Some(lock) = opened(locks, name, until) {
        let mut is_lost = false;
        while !is_lost && Instant::now() < until {
            is_lost = hold_once(&lock, &mut lines, &mut dice);
            std::thread::sleep(PAUSE);
        }
        if !is_lost {
            break;
        }
    }
    lines.write(path);
}

/// One claim and its release; whether the node was lost.
fn hold_once(lock: &ReaderWriterLock, lines: &mut Lines, dice: &mut Dice) -> bool {
    let patience = Duration::from_millis(300);
    let writes = dice.below(2) == 0;
    lines.begins(if writes { "write" } else { "read" });
    let held = match (writes, dice.below(3)) {
        (true, 0) => lock.try_write(),
        (true, _) => lock.write_within(patience),
        (false, 0) => lock.try_read(),
        (false, _) => lock.read_within(patience),
    };
    match held {
        Ok(Some(held)) => {
            lines.responds(&format!("granted {}", held.token()));
            release(held, lines)
        }
        Ok(None) => {
            lines.responds("busy");
            false
        }
        // What was granted to one that does not hear of it ends as its node is lost.
        Err(LockError::Unreachable { may_have_happened, .. }) => {
            lines.put(if may_have_happened { "n" } else { "x" });
            true
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// What was held is released by this call, or was before it, when that node lost this one.
fn release(held: Held, lines: &mut Lines) -> bool {
    let granted_ns = monotonic_ns();
    std::thread::sleep(PAUSE / 4);
    let began_ns = monotonic_ns();
    match held.release() {
        Ok(()) => {
            lines.put(&format!("i {began_ns} release"));
            lines.responds("done");
            false
        }
        Err(_) => {
            lines.put(&format!("i {granted_ns} release"));
            lines.put("n");
            true
        }
    }
}

//! Histories: what a process called, when, and what was answered, in a file that outlives it.
//!
//! A line for each invocation (`i`, nanoseconds, what) and for each response (`r`, nanoseconds, answer).
//! The invocation is written before the call is made, so that it is known of a process that is killed.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use heliostat_base::clock::monotonic_ns;
use heliostat_stub_lock::{Held, LockError, ReaderWriterLock, Semaphore};
use heliostat_stub_memory::{MemoryError, Region};
use heliostat_verify_linearizability::model::WordOperation;
use heliostat_verify_linearizability::Call;

/// Writes one process's calls.
pub struct Recorder {
    file: File,
    /// Lines that are written at the end: calls that take no longer than writing one.
    kept: Option<String>,
}

impl Recorder {
    pub fn new(path: &str, is_kept: bool) -> Recorder {
        Recorder { file: File::create(path).unwrap(), kept: is_kept.then(String::new) }
    }

    fn put(&mut self, line: &str) {
        match &mut self.kept {
            Some(kept) => kept.push_str(line),
            None => self.file.write_all(line.as_bytes()).unwrap(),
        }
    }

    fn call<T>(
        &mut self,
        what: &str,
        call: impl FnOnce() -> T,
        answer: impl FnOnce(&T) -> String,
    ) -> T {
        let begin = monotonic_ns();
        self.put(&format!("i {begin} {what}\n"));
        let result = call();
        let end = monotonic_ns();
        self.put(&format!("r {end} {}\n", answer(&result)));
        result
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.file.write_all(kept.as_bytes()).unwrap();
        }
    }
}

/// The calls that a process has recorded.
pub fn read<O, A>(
    path: &Path,
    process: u64,
    operation: impl Fn(&[&str]) -> O,
    answer: impl Fn(&[&str]) -> A,
) -> Vec<Call<O, A>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut calls: Vec<Call<O, A>> = Vec::new();
    // A line that was not finished says nothing.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let at = words[1].parse().unwrap();
        match words[0] {
            "i" => {
                let operation = operation(&words[2..]);
                calls.push(Call { process, invoked_ns: at, responded: None, operation });
            }
            _ => calls.last_mut().unwrap().responded = Some((at, answer(&words[2..]))),
        }
    }
    calls
}

/// Numbers by chance, the same for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// How a word is changed next.
pub struct NextCall {
    /// Which word.
    pub word: u64,
    operation: WordOperation,
}

impl NextCall {
    /// As chance has it: by what was seen in each word before, and a number that nobody else stores.
    pub fn draw(dice: &mut Dice, seen: &[u64], own: u64) -> NextCall {
        let word = dice.below(seen.len() as u64);
        let operation = match dice.below(4) {
            0 => WordOperation::FetchAdd(1),
            1 => WordOperation::FetchAdd(0),
            2 => WordOperation::Swap(own),
            _ => WordOperation::CompareSwap(seen[word as usize], own),
        };
        NextCall { word, operation }
    }

    /// Makes it; what the word was.
    pub fn make(&self, region: &Region) -> Result<u64, MemoryError> {
        let at = self.word * 8;
        match self.operation {
            WordOperation::FetchAdd(more) => region.fetch_add(at, more),
            WordOperation::Swap(new) => region.swap(at, new),
            WordOperation::CompareSwap(expected, new) => region.compare_swap(at, expected, new),
            ref other => panic!("{other:?}"),
        }
    }
}

impl std::fmt::Display for NextCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.operation {
            WordOperation::FetchAdd(more) => write!(f, "{} add {more}", self.word),
            WordOperation::Swap(new) => write!(f, "{} swap {new}", self.word),
            WordOperation::CompareSwap(expected, new) => {
                write!(f, "{} compare_swap {expected} {new}", self.word)
            }
            ref other => panic!("{other:?}"),
        }
    }
}

/// Changes words of a region, as chance has it.
pub fn change_words(
    region: &Region,
    path: &str,
    (count, words, seed): (u64, u64, u64),
) -> Result<(), MemoryError> {
    let (mut recorder, mut dice) = (Recorder::new(path, true), Dice::new(seed));
    let mut seen = vec![0; words as usize];
    for step in 0..count {
        let next = NextCall::draw(&mut dice, &seen, seed << 32 | step);
        let tell = |old: &Result<u64, MemoryError>| format!("{}", old.as_ref().unwrap_or(&0));
        let old = recorder.call(&next.to_string(), || next.make(region), tell);
        seen[next.word as usize] = old?;
    }
    Ok(())
}

fn tell_held(held: &Result<Option<Held>, LockError>) -> String {
    match held {
        Ok(Some(held)) => format!("granted {}", held.token()),
        _ => "busy".into(),
    }
}

/// Reads and writes under a lock, as chance has it.
pub fn use_lock(
    lock: &ReaderWriterLock,
    path: &str,
    (count, seed): (u64, u64),
) -> Result<(), LockError> {
    let (mut recorder, mut dice) = (Recorder::new(path, false), Dice::new(seed));
    for _ in 0..count {
        let held = match dice.below(5) {
            0 => recorder.call("write", || lock.try_write(), tell_held),
            1 => recorder.call("read", || lock.try_read(), tell_held),
            2 => recorder.call("read", || lock.read().map(Some), tell_held),
            _ => recorder.call("write", || lock.write().map(Some), tell_held),
        };
        if let Some(held) = held? {
            recorder.call("release", || held.release(), |_| "done".into())?;
        }
    }
    Ok(())
}

/// Takes permits of a semaphore, as chance has it.
pub fn use_semaphore(
    semaphore: &Semaphore,
    path: &str,
    (count, seed): (u64, u64),
) -> Result<(), LockError> {
    let (mut recorder, mut dice) = (Recorder::new(path, false), Dice::new(seed));
    for _ in 0..count {
        let permits = 1 + dice.below(u64::from(semaphore.permits())) as u32;
        let what = format!("acquire {permits}");
        let held = match dice.below(4) {
            0 => recorder.call(&what, || semaphore.try_acquire(permits), tell_held),
            _ => recorder.call(&what, || semaphore.acquire(permits).map(Some), tell_held),
        };
        if let Some(held) = held? {
            recorder.call("release", || held.release(), |_| "done".into())?;
        }
    }
    Ok(())
}

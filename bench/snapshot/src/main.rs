//! Measures snapshots beside a locked copy and beside fork, and writes
//! `target/bench/snapshot.json`.
//!
//! All arms run in turn in this one process, at least five times, each over memory of its own,
//! on whatever cores the kernel gives: pinned, parent and child of a fork would share one.
//! Slots are warm before anything is measured: the first use of a slot copies a whole chunk of
//! 2 MiB. `--full` adds 1 GiB, `--out PATH` names another file.
#![warn(missing_docs)]

mod consumer;
mod cycles;
mod memory;
mod pool;
mod producer;
mod report;
mod theirs;

use std::path::PathBuf;

use heliostat_base::track;

/// Alternating repetitions of every comparison.
const REPETITIONS: usize = 5;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How large the region is.
pub struct Size {
    /// As people say it.
    name: &'static str,
    bytes: usize,
}

const SMALL: Size = Size { name: "64 MiB", bytes: 64 << 20 };
const LARGE: Size = Size { name: "1 GiB", bytes: 1 << 30 };

fn main() -> Result<(), Failure> {
    let (mut is_full, mut out) = (false, default_path());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--full" => is_full = true,
            "--out" => out = words.next().ok_or("--out needs a path")?.into(),
            other => return Err(format!("unknown: {other}; there are --full and --out").into()),
        }
    }
    // The figures are about watched pages; without them every version is a whole copy.
    track::probe()?;
    report::print_heading();
    let mut rows = Vec::new();
    for size in if is_full { &[SMALL, LARGE][..] } else { &[SMALL] } {
        rows.extend(cycles::measure(size)?);
        rows.extend(consumer::measure(size)?);
        rows.extend(pool::measure(size)?);
    }
    report::write(&rows, &out)?;
    println!("written: {}", out.display());
    Ok(())
}

fn default_path() -> PathBuf {
    let folder = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_string());
    PathBuf::from(folder).join("bench/snapshot.json")
}

//! Measures snapshots beside a locked copy and beside fork, and writes
//! `target/bench/snapshot.json`.
//!
//! All arms run in turn in this one process, each over memory of its own, on whatever cores the
//! kernel gives: pinned, parent and child of a fork would share one. Slots are warm before
//! anything is measured: the first use of a slot copies a whole chunk of 2 MiB.
//!
//! `--full` adds 1 GiB, `--quick` takes 3 repetitions instead of 5, `--part NAME` (`PARTS`) one
//! part only, `--out PATH` names another file. `--part queue`, on demand only, is the wait-free
//! queue beside other ways to another process.
#![warn(missing_docs)]

mod consumer;
mod cycles;
mod figures;
mod memory;
mod placement;
mod pool;
mod producer;
mod queue;
mod report;
mod theirs;

use std::path::PathBuf;

use heliostat_backend_pages::track;
use report::Row;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How large the region is, and how often each comparison is made.
pub struct Size {
    /// As people say it.
    name: &'static str,
    bytes: usize,
    /// Alternating repetitions.
    repetitions: usize,
}

/// Sizes, and whether only a full run has them.
const SIZES: [(&str, usize, bool); 2] = [("64 MiB", 64 << 20, false), ("1 GiB", 1 << 30, true)];

type Part = fn(&Size) -> Result<Vec<Row>, Failure>;

/// The parts of a run, for each size.
const PARTS: [(&str, Part); 4] = [
    ("cycles", cycles::measure),
    ("consumer", consumer::measure),
    ("pool", pool::measure),
    ("placement", placement::measure),
];

struct Asked {
    is_full: bool,
    repetitions: usize,
    part: Option<String>,
    out: PathBuf,
}

fn main() -> Result<(), Failure> {
    let asked = read_arguments()?;
    // The figures are about watched pages; without them every version is a whole copy.
    track::probe()?;
    report::print_heading();
    let wanted = |name: &str| asked.part.as_ref().is_none_or(|part| part == name);
    let mut rows = Vec::new();
    if asked.part.as_deref() == Some("queue") {
        rows.extend(queue::measure(asked.repetitions, asked.is_full)?);
    }
    for (name, bytes, is_large) in SIZES {
        let size = Size { name, bytes, repetitions: asked.repetitions };
        for (part, measure) in PARTS {
            if wanted(part) && (asked.is_full || !is_large) {
                rows.extend(measure(&size)?);
            }
        }
    }
    report::write(&rows, &asked.out)?;
    println!("written: {}", asked.out.display());
    Ok(())
}

fn read_arguments() -> Result<Asked, Failure> {
    let mut asked = Asked { is_full: false, repetitions: 5, part: None, out: default_path() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--full" => asked.is_full = true,
            "--quick" => asked.repetitions = 3,
            "--part" => asked.part = Some(words.next().ok_or("--part needs a name")?),
            "--out" => asked.out = words.next().ok_or("--out needs a path")?.into(),
            other => {
                let known = "--full, --quick, --part NAME, --out PATH";
                return Err(format!("unknown: {other}; there are {known}").into());
            }
        }
    }
    Ok(asked)
}

fn default_path() -> PathBuf {
    let folder = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_string());
    PathBuf::from(folder).join("bench/snapshot.json")
}

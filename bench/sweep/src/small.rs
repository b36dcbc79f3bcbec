//! What a version of a small region costs: watched pages against copying all of it.
//!
//! Processor time of the producer for writing and publishing, less the same writes alone.

use heliostat_backend_pages::live::LiveMemory;
use heliostat_stub_snapshot::{EngineKind, Region, Settings};
use serde_json::{json, Value};

use crate::memory::Floats;
use crate::trial::processor_ns;
use crate::Failure;

const PAGE: usize = 4096;
const PAGES: [usize; 9] = [1, 4, 8, 16, 32, 64, 128, 256, 512];
const SHARES: [f64; 3] = [0.0, 0.1, 1.0];
/// Versions of one sample: a multiple of the 16 after which hot chunks are probed.
const VERSIONS: usize = 64;

/// Every size and dirty share: median nanoseconds per version of both engines.
pub fn measure(repetitions: usize) -> Result<Value, Failure> {
    let mut rows = Vec::new();
    for pages in PAGES {
        for share in SHARES {
            let dirty = ((pages as f64 * share) as usize).max(1);
            let [watched, whole] = [EngineKind::Tracked, EngineKind::Whole];
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..repetitions {
                ours.push(sample(pages, dirty, watched)?);
                theirs.push(sample(pages, dirty, whole)?);
            }
            rows.push(json!({ "bytes": pages * PAGE, "dirty_pages": dirty,
                "watched_ns": middle(ours), "whole_ns": middle(theirs) }));
        }
    }
    Ok(rows.into())
}

/// Nanoseconds that a version adds to writing `dirty` of `pages` pages.
fn sample(pages: usize, dirty: usize, engine: EngineKind) -> Result<f64, Failure> {
    let memory = Floats::private(pages * PAGE / 8)?;
    // SAFETY: `memory` was made before and so is dropped after the region.
    let live = unsafe { LiveMemory::new(memory.start(), memory.bytes()) };
    let mut region = Region::new(live, Settings { engine, ..Settings::default() })?;
    for round in 0..VERSIONS {
        write(&memory, dirty, round);
        region.publish()?;
    }
    let began = processor_ns();
    for round in 0..VERSIONS {
        write(&memory, dirty, round);
        region.publish()?;
    }
    let with = processor_ns() - began;
    drop(region);
    write(&memory, dirty, 0);
    let began = processor_ns();
    (0..VERSIONS).for_each(|round| write(&memory, dirty, round));
    Ok((with as f64 - (processor_ns() - began) as f64) / VERSIONS as f64)
}

/// One store to each of the first `dirty` pages.
fn write(memory: &Floats, dirty: usize, round: usize) {
    // SAFETY: this process alone uses it, one thread at a time.
    let values = unsafe { memory.values_mut() };
    for page in 0..dirty {
        // SAFETY: a live word of the slice.
        unsafe { (&raw mut values[page * PAGE / 8]).write_volatile(round as f64) };
    }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

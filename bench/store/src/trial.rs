//! One run: a filled store under load, one checkpoint in the middle, the file read back.

use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Release};

use heliostat_base::{affinity, clock};
use serde_json::{json, Value};

use crate::arena::Arena;
use crate::checkpoint::{words, Checkpoints, Way};
use crate::load::{Latencies, Load, PLACE_NS};
use crate::phases::Phases;
use crate::process::{end, forked, share_of_memory, wait_for};
use crate::table::{bytes_for, fill, Table, RECORD};
use crate::Failure;

/// When the checkpoint begins, how long the load goes on after it at least, and at most.
const BEGINS_NS: u64 = 700_000_000;
const AFTER_NS: u64 = 400_000_000;
const LIMIT_NS: u64 = 20_000_000_000;
/// How often a piece is copied ahead, at most: the server has the rest of the time for its load.
const PIECE_NS: u64 = 1_000_000;
/// How often the steady way publishes.
const EVERY_NS: u64 = 50_000_000;

/// What is run.
pub struct Plan {
    /// About how large the store is.
    pub bytes: usize,
    /// Operations per second; 0 for as many as it can.
    pub rate: f64,
    /// Where checkpoints go.
    pub file: PathBuf,
    /// Whether memory is watched, which disturbs; latencies are not meant then.
    pub watches: bool,
}

/// Runs it; its figures.
pub fn run(plan: &Plan, way: Way) -> Result<Value, Failure> {
    let records = plan.bytes / (RECORD + 16);
    let board = Arena::shared(4096)?;
    let cores: Vec<usize> = affinity::allowed(0).map_or(vec![0], |set| set.iter().collect());
    let (core, other) = (cores[0], *cores.last().unwrap_or(&0));
    let server = std::process::id() as i32;
    // Before there is a store: a child that shares its pages would have a part of them counted.
    let watcher = match plan.watches {
        true => Some(forked(other, || watch(&board, server))?),
        false => None,
    };
    let arena = Arena::private(bytes_for(records), way == Way::Fork)?;
    // SAFETY: only `table` refers to it, and publishing or forking while it stands still.
    let mut table = Table::new(unsafe { arena.bytes() }, records);
    fill(&mut table);
    let mut checkpoints = Checkpoints::new(way, &arena, &board, (plan.file.clone(), other))?;
    let everywhere = affinity::allowed(0);
    let _ = affinity::pin(core);
    let mut load = Load::new(table, records, plan.rate, (LIMIT_NS / PLACE_NS) as usize);
    let phases = serve(&mut load, &mut checkpoints, (&arena, &board), way);
    if let Ok(everywhere) = everywhere {
        let _ = affinity::restrict(0, &everywhere);
    }
    watcher.into_iter().for_each(end);
    checkpoints.writer.map_or(Ok(()), wait_for)?;
    let phases = phases?;
    let is_whole = is_as_it_was(plan, &board, &phases)?;
    Ok(figures(plan, way, &load, &phases, (&board, is_whole)))
}

/// Serves until some time after the checkpoint is written.
fn serve(
    load: &mut Load<'_>,
    checkpoints: &mut Checkpoints,
    (arena, board): (&Arena, &Arena),
    way: Way,
) -> Result<Phases, Failure> {
    let mut it = Phases::new();
    if matches!(way, Way::Snapshot | Way::Ahead) {
        // So that the checkpoint has what was written since the last one, and not since the fill.
        it.publish(load, checkpoints)?;
    }
    let mut published = load.now();
    loop {
        let now = load.now();
        if way == Way::Steady && now - published >= EVERY_NS {
            published = now;
            it.publish(load, checkpoints)?;
        }
        if it.begun_ns == 0 && now >= BEGINS_NS {
            it.begin(load, checkpoints, (arena, board), way)?;
        }
        // The round may have begun after `now` was taken.
        if it.copied_ns.is_some_and(|last| now.saturating_sub(last) >= PIECE_NS) {
            it.copy_ahead(load, checkpoints, (arena, board), way)?;
        }
        if it.begun_ns > 0 && it.written_ns == 0 && board.word(words::WRITTEN).load(Acquire) == 1 {
            // Not `now`: a checkpoint that stood still began and ended since.
            it.written_ns = load.now();
        }
        if it.written_ns > 0 && now > it.written_ns + AFTER_NS {
            it.ended_ns = now;
            return Ok(it);
        }
        if now > LIMIT_NS {
            return Err("the checkpoint was not written in time".into());
        }
        load.operate(it.phase());
    }
}

/// Reads the file and compares it with the store at the checkpoint: as many sets, every value that
/// of its version, and versions summing up to the sets.
fn is_as_it_was(plan: &Plan, board: &Arena, phases: &Phases) -> Result<bool, Failure> {
    let mut image = std::fs::read(&plan.file)?;
    std::fs::remove_file(&plan.file)?;
    let table = Table::load(&mut image).ok_or("the checkpoint is no store")?;
    let sets = phases.sets_of(board.word(words::VERSION).load(Acquire));
    Ok(table.sets() == sets && table.is_whole())
}

/// Samples the memory of server and writer until it is ended.
fn watch(board: &Arena, server: i32) -> Result<(), Failure> {
    loop {
        let writer = board.word(words::WRITER).load(Acquire) as i32;
        let others = if writer > 0 { share_of_memory(writer) } else { 0 };
        board.word(words::PEAK).fetch_max(share_of_memory(server) + others, Release);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn figures(
    plan: &Plan,
    way: Way,
    load: &Load<'_>,
    phases: &Phases,
    (board, is_whole): (&Arena, bool),
) -> Value {
    let told = |of: &Latencies, ns: u64| {
        json!({ "count": of.count, "p50_ns": of.percentile(0.5), "p99_ns": of.percentile(0.99),
            "p999_ns": of.percentile(0.999), "longest_ns": of.longest_ns,
            "per_second": of.count as f64 * 1e9 / ns.max(1) as f64 })
    };
    let places = (phases.ended_ns / PLACE_NS) as usize;
    json!({
        "mib": plan.bytes >> 20, "rate": plan.rate, "way": way.name(), "watches": plan.watches,
        "pause_ns": phases.pause_ns, "begun_ns": phases.begun_ns,
        "written_ns": phases.written_ns, "place_ns": PLACE_NS, "is_whole": is_whole,
        "before": told(&phases.before, phases.begun_ns),
        "during": told(&phases.during, phases.written_ns - phases.begun_ns),
        "after": told(&phases.after, phases.ended_ns - phases.written_ns),
        "publishing": told(&phases.publishing, 1),
        "memory_before": board.word(words::BEFORE).load(Acquire),
        "memory_peak": board.word(words::PEAK).load(Acquire),
        "at": clock::monotonic_ns(),
        "series": if plan.watches { &[] } else { &load.series[..places.min(load.series.len())] },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_writes_the_store_as_it_was_at_the_checkpoint() {
        for way in Way::ALL {
            let file = std::env::temp_dir().join(format!("store-{}-{way:?}", std::process::id()));
            let plan = Plan { bytes: 8 << 20, rate: 0.0, file, watches: false };
            let found = run(&plan, way).unwrap();
            assert_eq!(found["is_whole"], true, "{}: {found}", way.name());
            assert!(found["before"]["count"].as_u64() > Some(1000));
        }
    }
}

//! Durable appends by several producers, one way a run, as `bench/suite/log.py` compares them.
//!
//! `heliostat-bench-log FOLDER WAY BYTES PRODUCERS SECONDS EXTRA_US`: each producer appends a payload of
//! so many bytes, waits until it is durable, and goes on. Prints one line of JSON: appends per second of
//! all together, the time of one, median and 99 %, the processor time of one, and the bytes that were written
//! to the disk for each of a payload, by whomever. Each way makes durable what it acknowledges; the bare file is written
//! before it is measured, so that none pays for new blocks.
//!
//! A slower flush (EXTRA_US) is simulated for all, over files in memory: of our log by `LatencyDevice`, of
//! all others by `bench/programs/slowflush.c`, which whoever runs this puts before libc.

mod file;
mod log;
mod others;
mod rocks;
mod spent;
mod way;

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use spent::Spent;
use way::{Failure, Way};

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, name, bytes, producers, seconds, extra_us] = words.as_slice() else {
        return Err("heliostat-bench-log FOLDER WAY BYTES PRODUCERS SECONDS EXTRA_US".into());
    };
    let folder = Path::new(folder).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let extra = Duration::from_micros(extra_us.parse()?);
    let run = || -> Result<Outcome, Failure> {
        let way = make(name, &folder, extra)?;
        let span = Duration::from_secs_f64(seconds.parse()?);
        produce(way.as_ref(), &folder, (bytes.parse()?, producers.parse()?), span)
    };
    let outcome = run();
    std::fs::remove_dir_all(&folder)?;
    report(name, outcome?, bytes.parse()?, seconds.parse()?);
    Ok(())
}

fn make(name: &str, folder: &Path, extra: Duration) -> Result<Box<dyn Way>, Failure> {
    Ok(match name {
        "log" => Box::new(log::Ours::new(folder, extra)?),
        "okaywal" => Box::new(others::OkayWal::new(folder)?),
        "redb" => Box::new(others::Redb::new(folder)?),
        "lmdb" => Box::new(others::Lmdb::new(folder)?),
        "rocksdb" => Box::new(rocks::Rocks::new(folder)?),
        _ => Box::new(file::Bare::new(folder, name)?),
    })
}

/// What was measured.
struct Outcome {
    /// Nanoseconds of each append.
    times: Vec<u64>,
    spent: Spent,
}

/// Has producers append for so long.
fn produce(
    way: &dyn Way,
    folder: &Path,
    (bytes, producers): (usize, usize),
    span: Duration,
) -> Result<Outcome, Failure> {
    let all = Mutex::new(Vec::new());
    // The first appends meet cold caches and files.
    (0..20).try_for_each(|_| way.append(&vec![1; bytes]))?;
    let before = Spent::until_now(folder)?;
    let until = Instant::now() + span;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..producers)
            .map(|producer| {
                let all = &all;
                scope.spawn(move || -> Result<(), Failure> {
                    let payload = vec![producer as u8; bytes];
                    let mut times = Vec::new();
                    while Instant::now() < until {
                        let begun = Instant::now();
                        way.append(&payload)?;
                        times.push(begun.elapsed().as_nanos() as u64);
                    }
                    all.lock().expect("nobody panics with it").extend(times);
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no producer panics"))
    })?;
    let spent = Spent::until_now(folder)?.since(&before);
    Ok(Outcome { times: all.into_inner()?, spent })
}

fn report(name: &str, outcome: Outcome, bytes: u64, seconds: f64) {
    let Outcome { mut times, spent } = outcome;
    times.sort_unstable();
    let at = |part: f64| {
        times.get((times.len() as f64 * part) as usize).map_or(0.0, |ns| *ns as f64 / 1e3)
    };
    let appends = times.len().max(1) as f64;
    println!(
        r#"{{"way":"{name}","per_second":{:.1},"p50_us":{:.2},"p99_us":{:.2},"cpu_us":{:.2},"written":{:.3}}}"#,
        appends / seconds,
        at(0.5),
        at(0.99),
        spent.cpu.as_nanos() as f64 / 1e3 / appends,
        spent.disk_bytes as f64 / (bytes as f64 * appends),
    );
}

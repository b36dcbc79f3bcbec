//! Durable appends by several producers, one way a run, as `bench/suite/log.py` compares them.
//!
//! `heliostat-bench-log FOLDER WAY BYTES PRODUCERS SECONDS EXTRA_US`: each producer appends a payload of
//! so many bytes, waits until it is durable, and goes on. Prints one line of JSON: appends per second of
//! all together, and the time of one, median and 99 %. Each way makes durable what it acknowledges; the
//! bare file is written before it is measured, so that none pays for new blocks.
//!
//! A slower flush (EXTRA_US) is simulated for all: our log then lies on a device in memory whose durable
//! writes complete so much later, and the calls by which the others make a file durable are this
//! program's own (`slow.rs`): their FOLDER should be in memory, too.

mod file;
mod log;
mod others;
mod slow;

use std::error::Error;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

type Failure = Box<dyn Error + Send + Sync>;

/// Space that is written round and round: what a program would keep until it is trimmed.
const SPACE_BYTES: u64 = 256 << 20;

/// One way to append durably.
trait Way: Sync {
    /// Appends, and returns when that is durable.
    fn append(&self, payload: &[u8]) -> Result<(), Failure>;
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, name, bytes, producers, seconds, extra_us] = words.as_slice() else {
        return Err("heliostat-bench-log FOLDER WAY BYTES PRODUCERS SECONDS EXTRA_US".into());
    };
    let folder = Path::new(folder).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let extra = Duration::from_micros(extra_us.parse()?);
    let run = || -> Result<Vec<u64>, Failure> {
        let way = make(name, &folder, extra)?;
        slow::set(extra);
        let span = Duration::from_secs_f64(seconds.parse()?);
        produce(way.as_ref(), bytes.parse()?, producers.parse()?, span)
    };
    let outcome = run();
    slow::set(Duration::ZERO);
    std::fs::remove_dir_all(&folder)?;
    report(name, outcome?, seconds.parse()?);
    Ok(())
}

fn make(name: &str, folder: &Path, extra: Duration) -> Result<Box<dyn Way>, Failure> {
    Ok(match name {
        "log" => Box::new(log::Ours::new(folder, extra)?),
        "okaywal" => Box::new(others::OkayWal::new(folder)?),
        "redb" => Box::new(others::Redb::new(folder)?),
        "lmdb" => Box::new(others::Lmdb::new(folder)?),
        _ => Box::new(file::Bare::new(folder, name)?),
    })
}

/// Has producers append for so long; nanoseconds of each append.
fn produce(
    way: &dyn Way,
    bytes: usize,
    producers: usize,
    span: Duration,
) -> Result<Vec<u64>, Failure> {
    let all = Mutex::new(Vec::new());
    // The first appends meet cold caches and files.
    (0..20).try_for_each(|_| way.append(&vec![1; bytes]))?;
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
    Ok(all.into_inner()?)
}

fn report(name: &str, mut times: Vec<u64>, seconds: f64) {
    times.sort_unstable();
    let at = |part: f64| {
        times.get((times.len() as f64 * part) as usize).map_or(0.0, |ns| *ns as f64 / 1e3)
    };
    let rate = times.len() as f64 / seconds;
    println!(
        r#"{{"way":"{name}","per_second":{rate:.1},"p50_us":{:.2},"p99_us":{:.2}}}"#,
        at(0.5),
        at(0.99)
    );
}

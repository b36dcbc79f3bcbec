//! The wait-free queue beside other ways of handing elements to a process: snapshots of which all
//! is written, a socket, a pipe, and a ring of slots under a lock.
//!
//! In every arm the producer writes each word of an element where its arm wants it, and the
//! consumer, another process, adds up each word and compares the sum. The queue is written and
//! read in place; the others copy once or twice on the way.

mod fds;
mod locked;
mod ours;
mod pair;

use heliostat_base::affinity;

use crate::report::{Aim, Row};
use crate::Failure;
use pair::Pair;

const STREAM: &str = "elements one after the other, written and read whole, from the first until \
    the consumer has read the last; queue, pipe and socket hold as many as fit, the lock as many \
    as the queue, snapshots two";
const TRIP: &str = "an element written, handed over, read whole, and its consumer's word back, \
    which takes the same way in all arms: a shared word and futex(2)";

/// Bytes of an element.
const SIZES: [(&str, usize); 6] = [
    ("64 B", 64),
    ("4 KiB", 4 << 10),
    ("64 KiB", 64 << 10),
    ("1 MiB", 1 << 20),
    ("16 MiB", 16 << 20),
    ("64 MiB", 64 << 20),
];

/// One measurement of one arm takes about so long, but for elements that take longer.
const QUICK_NS: f64 = 20e6;
const FULL_NS: f64 = 100e6;
/// Elements of a measurement, at most.
const COUNT_MAX: f64 = 100_000.0;

/// What the queue is compared with.
const OTHERS: [&str; 4] = ["snapshots", "a socket", "a pipe", "mutex and copies"];

/// Slots of queue and lock: so that a sleep and a wake-up are not paid for each small element.
pub fn slots(len: usize) -> usize {
    if len <= 64 << 10 {
        64
    } else {
        4
    }
}

/// All rows.
pub fn measure(repetitions: usize, is_full: bool) -> Result<Vec<Row>, Failure> {
    let everywhere = affinity::allowed(0)?;
    let cores: Vec<usize> = everywhere.iter().collect();
    let (first, last) = (cores[0], *cores.last().unwrap_or(&cores[0]));
    let mut rows = Vec::new();
    for size in SIZES {
        let mut arms = arms(size.1)?;
        for (name, other) in [("two cores", last), ("one core", first)] {
            if name == "two cores" && first == last {
                continue;
            }
            affinity::pin(first)?;
            arms.iter_mut().for_each(|arm| arm.consumer_core = other);
            let found = compare(&mut arms, size, name, (repetitions, is_full))?;
            found.iter().for_each(Row::print);
            rows.extend(found);
        }
        affinity::restrict(0, &everywhere)?;
    }
    Ok(rows)
}

/// The queue first, then the others.
fn arms(len: usize) -> Result<Vec<Pair>, Failure> {
    Ok(vec![
        Pair::start(len, ours::queue(len)?)?,
        Pair::start(len, ours::snapshots(len)?)?,
        Pair::start(len, fds::socket(len)?)?,
        Pair::start(len, fds::pipe(len)?)?,
        Pair::start(len, locked::ring(len)?)?,
    ])
}

/// All arms in turn, as often as asked.
fn compare(
    arms: &mut [Pair],
    (size, len): (&str, usize),
    cores: &str,
    (repetitions, is_full): (usize, bool),
) -> Result<Vec<Row>, Failure> {
    let limit = if is_full { FULL_NS } else { QUICK_NS };
    let mut streams = vec![Vec::new(); arms.len()];
    let mut trips = vec![Vec::new(); arms.len()];
    // Once around all slots, so that none is met for the first time; then as many as fit.
    arms.iter_mut().try_for_each(|arm| arm.stream(slots(len) as u32 + 4).map(|_| ()))?;
    let fits = |ns: f64| (limit / ns).clamp(2.0, COUNT_MAX) as u32;
    let mut counts = Vec::new();
    for arm in arms.iter_mut() {
        counts.push((fits(arm.stream(2 * slots(len) as u32)?), fits(arm.trips(4)?)));
    }
    for _ in 0..repetitions {
        for (at, arm) in arms.iter_mut().enumerate() {
            streams[at].push(len as f64 / arm.stream(counts[at].0)?);
            trips[at].push(arm.trips(counts[at].1)? / 1e3);
        }
    }
    let mut rows = Vec::new();
    for (what, unit, note, found) in
        [("stream", "GB/s", STREAM, streams), ("there and back", "us", TRIP, trips)]
    {
        for (other, theirs) in OTHERS.into_iter().zip(&found[1..]) {
            let name = format!("{size}, {cores}: {what}, queue vs {other}");
            let (ours, theirs) = (found[0].clone(), theirs.clone());
            rows.push(Row { name, ours, theirs, unit, aim: Aim::None, note });
        }
    }
    Ok(rows)
}

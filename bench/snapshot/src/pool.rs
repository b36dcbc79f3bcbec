//! What versions cost in memory, and how often a modified page is copied.

use crate::memory::Dirty;
use crate::producer::Producer;
use crate::report::{Aim, Row};
use crate::{Failure, Size};

const USED: &str = "blocks of the pool's file after many versions, one kept; theirs: one copy";
const FIXED: &str = "the same pages each time, so a recycled slot lacks only those; theirs: one";
const MOVING: &str =
    "other pages each time: a recycled slot also lacks those of the version between";

/// Versions per repetition.
const VERSIONS: usize = 8;

/// All rows of this part.
pub fn measure(size: &Size) -> Result<Vec<Row>, Failure> {
    let mut producer = Producer::new(size.bytes)?;
    let fixed = Dirty::scattered(size.bytes, 0.1, 6);
    let mut copied = [Vec::new(), Vec::new()];
    let mut used = Vec::new();
    // Until the slots lack only the fixed pages.
    (0..3).try_for_each(|_| producer.cycle(&fixed).map(|_| ()))?;
    for repetition in 0..size.repetitions {
        copied[0].push(factor(&mut producer, |_| fixed.clone())?);
        let seed = 100 + (repetition * 2 * VERSIONS) as u64;
        let moving = |round| Dirty::scattered(size.bytes, 0.1, seed + round);
        (0..3).try_for_each(|it| producer.cycle(&moving(50 + it)).map(|_| ()))?;
        copied[1].push(factor(&mut producer, moving)?);
        used.push(producer.region.metrics().pool_bytes as f64 / (1 << 20) as f64);
        (0..3).try_for_each(|_| producer.cycle(&fixed).map(|_| ()))?;
    }
    let [same, moving] = copied;
    let whole = size.bytes as f64 / (1 << 20) as f64;
    let row = |what: &str, ours, of: f64, unit, aim, note| {
        let name = format!("{}, 10 % scattered: {what}", size.name);
        Row { name, ours, theirs: vec![of; size.repetitions], unit, aim, note }
    };
    let rows = vec![
        row("copied per dirty byte, fixed set", same, 1.0, "times", Aim::AtMost(1.0), FIXED),
        row("copied per dirty byte, moving set", moving, 1.0, "times", Aim::None, MOVING),
        row("memory of the pool", used, whole, "MiB", Aim::None, USED),
    ];
    rows.iter().for_each(Row::print);
    Ok(rows)
}

/// Bytes copied per byte of written pages, over several versions.
fn factor(producer: &mut Producer, set: impl Fn(u64) -> Dirty) -> Result<f64, Failure> {
    let (mut dirty_bytes, mut copied_bytes) = (0, 0);
    for round in 0..VERSIONS {
        let dirty = set(round as u64);
        copied_bytes += producer.cycle(&dirty)?.copied_bytes;
        dirty_bytes += dirty.bytes();
    }
    Ok(copied_bytes as f64 / dirty_bytes as f64)
}

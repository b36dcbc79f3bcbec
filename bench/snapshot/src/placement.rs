//! Versions as slabs beside versions in chunks: publishing, and what a contiguous view costs.

use heliostat_stub_snapshot::{Attachment, Placement, View};

use crate::memory::{self, Dirty};
use crate::producer::{timed, Producer};
use crate::report::{Aim, Row};
use crate::{Failure, Size};

const NOTE: &str = "ours: slab, theirs: chunks, same writes in turn; a view that is kept from \
    version to version, and read whole after each";
const MEMORY: &str = "blocks of the pool's file at the end, one view kept";

/// Versions of a repetition.
const VERSIONS: usize = 4;

/// What is measured of each version, in ns.
const KINDS: [(&str, &str); 5] = [
    ("publish", "us"),
    ("attach a new view", "us"),
    ("a kept view goes on", "us"),
    ("reading the kept view", "GB/s"),
    ("write, publish, go on, read", "us"),
];

/// A producer with one way of placing, and its consumer.
struct Side {
    producer: Producer,
    consumer: Attachment,
    view: View,
    bytes: usize,
}

/// All rows of this part. With the largest size goes one between, where the border may lie.
pub fn measure(size: &Size) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    if size.bytes >= 1 << 30 {
        rows.extend(compare(&Size { name: "256 MiB", bytes: 256 << 20, ..*size })?);
    }
    rows.extend(compare(size)?);
    Ok(rows)
}

fn compare(size: &Size) -> Result<Vec<Row>, Failure> {
    let mut slab = Side::new(size, Placement::Slab)?;
    let mut chunks = Side::new(size, Placement::Chunks)?;
    let mut rows = Vec::new();
    let patterns = [
        ("0.1 % scattered", Dirty::scattered(size.bytes, 0.001, 7)),
        ("10 % scattered", Dirty::scattered(size.bytes, 0.1, 7)),
        ("100 %", Dirty::all(size.bytes)),
    ];
    for (name, dirty) in patterns {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for repetition in 0..=size.repetitions {
            let pair = (slab.versions(&dirty)?, chunks.versions(&dirty)?);
            if repetition > 0 {
                ours.push(pair.0);
                theirs.push(pair.1);
            }
        }
        for (at, (what, unit)) in KINDS.into_iter().enumerate() {
            let name = format!("{}, {name}: slab vs chunks: {what}", size.name);
            let of = |side: &[[f64; 5]]| side.iter().map(|it| it[at]).collect();
            let (ours, theirs) = (of(&ours), of(&theirs));
            rows.push(Row { name, ours, theirs, unit, aim: Aim::None, note: NOTE });
        }
    }
    let name = format!("{}: slab vs chunks: memory of the pool", size.name);
    let (ours, theirs) = (vec![slab.pool_mib()], vec![chunks.pool_mib()]);
    rows.push(Row { name, ours, theirs, unit: "MiB", aim: Aim::None, note: MEMORY });
    rows.iter().for_each(Row::print);
    Ok(rows)
}

impl Side {
    fn new(size: &Size, placement: Placement) -> Result<Self, Failure> {
        let mut producer = Producer::placed(size.bytes, placement)?;
        let consumer = producer.attach()?;
        let view = View::new(consumer.latest()?)?;
        Ok(Self { producer, consumer, view, bytes: size.bytes })
    }

    /// The means of several versions.
    fn versions(&mut self, dirty: &Dirty) -> Result<[f64; 5], Failure> {
        let mut mean = [0.0; 5];
        for _ in 0..VERSIONS {
            let one = self.version(dirty)?;
            mean.iter_mut().zip(one).for_each(|(mean, it)| *mean += it / VERSIONS as f64);
        }
        Ok(mean)
    }

    fn version(&mut self, dirty: &Dirty) -> Result<[f64; 5], Failure> {
        let write = self.producer.write(dirty);
        let (publish, _) = self.producer.publish()?;
        let (attach, fresh) = timed(|| View::new(self.consumer.latest()?));
        drop(fresh?);
        let (go_on, pieces) = timed(|| self.view.advance(self.consumer.latest()?));
        pieces?;
        // SAFETY: the view shows a pinned version of `bytes` bytes, which nobody writes.
        let (read, _) = timed(|| unsafe { memory::sum(self.view.as_ptr(), self.bytes) });
        let whole = write + publish + go_on + read;
        Ok([publish / 1e3, attach / 1e3, go_on / 1e3, self.bytes as f64 / read, whole / 1e3])
    }

    fn pool_mib(&self) -> f64 {
        self.producer.region.metrics().pool_bytes as f64 / (1 << 20) as f64
    }
}

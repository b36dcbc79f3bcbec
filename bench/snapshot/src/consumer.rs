//! What a version costs its consumer: attaching, going on to the next, and reading.

use heliostat_stub_snapshot::View;

use crate::memory::{self, Dirty, Memory};
use crate::producer::{timed, Producer};
use crate::report::{Aim, Row};
use crate::theirs::LockedCopy;
use crate::{Failure, Size};

const ATTACH: &str = "pin a version just published and map it contiguously; theirs maps the copy";
const GO_ON: &str =
    "pin the next version and map the chunks that differ; theirs maps the copy anew";
const READ: &str = "sum of all words, a fresh mapping first, then again; theirs: private memory";

/// The consumer's side of one producer, and what it is compared with.
struct Sides {
    producer: Producer,
    copy: LockedCopy,
    plain: Memory,
}

/// All rows of this part.
pub fn measure(size: &Size) -> Result<Vec<Row>, Failure> {
    let len = size.bytes;
    let mut sides = Sides {
        producer: Producer::new(len)?,
        copy: LockedCopy::new(len)?,
        plain: Memory::private(len, false)?,
    };
    sides.copy.take(&sides.plain);
    let mut rows = vec![sides.attach(size)?];
    for (name, share) in [("0.1 % scattered", 0.001), ("10 % scattered", 0.1)] {
        rows.push(sides.go_on(size, name, &Dirty::scattered(len, share, 3))?);
    }
    rows.extend(sides.read(size)?);
    rows.iter().for_each(Row::print);
    Ok(rows)
}

impl Sides {
    fn attach(&mut self, size: &Size) -> Result<Row, Failure> {
        let consumer = self.producer.attach()?;
        let dirty = Dirty::scattered(size.bytes, 0.1, 4);
        let per_gib = (1u64 << 30) as f64 / size.bytes as f64 / 1e3;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for repetition in 0..=size.repetitions {
            self.producer.cycle(&dirty)?;
            let (ns, view) = timed(|| View::new(consumer.latest()?));
            drop(view?);
            let (other, mapped) = timed(|| self.copy.attach());
            drop(mapped?);
            if repetition > 0 {
                ours.push(ns * per_gib);
                theirs.push(other * per_gib);
            }
        }
        let name = format!("{}, 10 % scattered: attach, per GiB", size.name);
        Ok(Row { name, ours, theirs, unit: "us", aim: Aim::AtMost(1000.0), note: ATTACH })
    }

    fn go_on(&mut self, size: &Size, pattern: &str, dirty: &Dirty) -> Result<Row, Failure> {
        let consumer = self.producer.attach()?;
        let mut view = View::new(consumer.latest()?)?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for repetition in 0..=size.repetitions {
            self.producer.cycle(dirty)?;
            let (ns, pieces) = timed(|| view.advance(consumer.latest()?));
            pieces?;
            let (other, mapped) = timed(|| self.copy.attach());
            drop(mapped?);
            if repetition > 0 {
                ours.push(ns / 1e3);
                theirs.push(other / 1e3);
            }
        }
        let name = format!("{}, {pattern}: going on to the next version", size.name);
        Ok(Row { name, ours, theirs, unit: "us", aim: Aim::None, note: GO_ON })
    }

    /// A fresh mapping is read against a fresh mapping of the copy, then both that are known.
    fn read(&mut self, size: &Size) -> Result<[Row; 2], Failure> {
        let consumer = self.producer.attach()?;
        let dirty = Dirty::scattered(size.bytes, 0.1, 5);
        let row = |what: &str| {
            let name = format!("{}: reading a view, {what}", size.name);
            let (ours, theirs) = (Vec::new(), Vec::new());
            Row { name, ours, theirs, unit: "GB/s", aim: Aim::None, note: READ }
        };
        let (mut first, mut again) = (row("first time, vs fresh copy"), row("again, vs memory"));
        for _ in 0..size.repetitions {
            self.producer.cycle(&dirty)?;
            let view = View::new(consumer.latest()?)?;
            // SAFETY: the view shows a pinned version of `bytes` bytes, which nobody writes.
            let through = || timed(|| unsafe { memory::sum(view.as_ptr(), size.bytes) }).0;
            let fresh = self.copy.attach()?;
            let rate = |ns: f64| size.bytes as f64 / ns;
            first.ours.push(rate(through()));
            first.theirs.push(rate(timed(|| fresh.sum()).0));
            again.ours.push(rate(through()));
            again.theirs.push(rate(timed(|| self.plain.sum()).0));
        }
        Ok([first, again])
    }
}

//! What a version costs its producer: publishing, the writes before it, and both together.

use crate::memory::{Dirty, Memory};
use crate::producer::{timed, Producer};
use crate::report::{Aim, Row};
use crate::theirs::{fork, Child, LockedCopy};
use crate::{Failure, Size, REPETITIONS};

const CYCLE: &str =
    "fixed dirty set, one 8-byte store per page, wall clock; slots warmed up first, \
    as the first use of one copies a whole chunk of 2 MiB";
const HOT: &str = "mean of 16 versions, so that the probing of hot chunks has its share";
const SLOWDOWN: &str = "a cycle less the same writes without any snapshot; fork with waitpid";
const FIRST: &str = "writes to watched pages less the same writes unwatched; fork: its page copies";

/// Which pages a cycle writes.
struct Pattern {
    name: &'static str,
    share: f64,
    dirty: Dirty,
}

/// One arm's mean over the cycles of a repetition, in ns.
#[derive(Clone, Copy, Default)]
struct Sample {
    write: f64,
    snap: f64,
}

impl Sample {
    fn whole(&self) -> f64 {
        self.write + self.snap
    }
}

/// Repetitions of all arms, taken in turn.
#[derive(Default)]
struct Samples {
    bare: Vec<Sample>,
    ours: Vec<Sample>,
    copy: Vec<Sample>,
    gone: Vec<Sample>,
    alive: Vec<Sample>,
}

/// The arms, each with memory of its own.
struct Arms {
    producer: Producer,
    plain: Memory,
    copy: LockedCopy,
    forked: Memory,
    round: u64,
}

/// All rows of this part.
pub fn measure(size: &Size) -> Result<Vec<Row>, Failure> {
    let len = size.bytes;
    let mut arms = Arms {
        producer: Producer::new(len)?,
        plain: Memory::private(len, false)?,
        copy: LockedCopy::new(len)?,
        forked: Memory::private(len, true)?,
        round: 1,
    };
    let mut rows = Vec::new();
    // Everything last: it leaves chunks hot, and hot chunks would be copied whole afterwards.
    for pattern in patterns(len) {
        let samples = arms.sample(&pattern)?;
        let found = samples.rows(size, &pattern);
        found.iter().for_each(Row::print);
        rows.extend(found);
    }
    Ok(rows)
}

fn patterns(len: usize) -> [Pattern; 4] {
    let of = |name, share, dirty| Pattern { name, share, dirty };
    [
        of("0.1 % scattered", 0.001, Dirty::scattered(len, 0.001, 1)),
        of("10 % scattered", 0.1, Dirty::scattered(len, 0.1, 2)),
        of("10 % contiguous", 0.1, Dirty::contiguous(len, 0.1)),
        of("100 %", 1.0, Dirty::all(len)),
    ]
}

impl Arms {
    fn sample(&mut self, pattern: &Pattern) -> Result<Samples, Failure> {
        let (dirty, mut samples) = (&pattern.dirty, Samples::default());
        // A hot chunk is asked about every 16th version: a multiple of that is a fair mean.
        let cycles = if pattern.share > 0.05 { 16 } else { 32 };
        let others = if pattern.share > 0.5 { 2 } else { 4 };
        for repetition in 0..=REPETITIONS {
            let bare = self.mean(others, |arms| Ok(arms.bare(dirty)))?;
            let ours = self.mean(cycles, |arms| arms.ours(dirty))?;
            let copy = self.mean(others, |arms| Ok(arms.copied(dirty)))?;
            let gone = self.mean(others, |arms| arms.forked(Child::EndsAtOnce, dirty))?;
            let alive = self.mean(others, |arms| arms.forked(Child::LivesOn, dirty))?;
            // The first round settles slots and page tables into the pattern.
            if repetition > 0 {
                samples.bare.push(bare);
                samples.ours.push(ours);
                samples.copy.push(copy);
                samples.gone.push(gone);
                samples.alive.push(alive);
            }
        }
        Ok(samples)
    }

    fn mean(
        &mut self,
        cycles: usize,
        mut arm: impl FnMut(&mut Self) -> Result<Sample, Failure>,
    ) -> Result<Sample, Failure> {
        let mut total = Sample::default();
        for _ in 0..cycles {
            self.round += 1;
            let one = arm(self)?;
            total.write += one.write / cycles as f64;
            total.snap += one.snap / cycles as f64;
        }
        Ok(total)
    }

    fn bare(&mut self, dirty: &Dirty) -> Sample {
        let (write, ()) = timed(|| self.plain.write(dirty, self.round));
        Sample { write, snap: 0.0 }
    }

    fn ours(&mut self, dirty: &Dirty) -> Result<Sample, Failure> {
        let write = self.producer.write(dirty);
        Ok(Sample { write, snap: self.producer.publish()?.0 })
    }

    fn copied(&mut self, dirty: &Dirty) -> Sample {
        let (write, ()) = timed(|| self.plain.write(dirty, self.round));
        let (snap, ()) = timed(|| self.copy.take(&self.plain));
        Sample { write, snap }
    }

    fn forked(&mut self, child: Child, dirty: &Dirty) -> Result<Sample, Failure> {
        let (mut write, round, memory) = (0.0, self.round, &self.forked);
        let (whole, done) =
            timed(|| fork(child, || write = timed(|| memory.write(dirty, round)).0));
        done.map(|()| Sample { write, snap: whole - write })
    }
}

impl Samples {
    fn rows(&self, size: &Size, pattern: &Pattern) -> Vec<Row> {
        let is_all = pattern.share > 0.5;
        let note = if is_all { HOT } else { CYCLE };
        let row = |what: &str, ours, theirs, aim, note| {
            let name = format!("{}, {}: {what}", size.name, pattern.name);
            Row { name, ours, theirs, unit: "us", aim, note }
        };
        let snap = |arm: &[Sample]| each(arm, |it| it.snap / 1e3);
        let whole = |arm: &[Sample]| each(arm, |it| it.whole() / 1e3);
        let aim = |wanted, least| if wanted { Aim::Ratio(least) } else { Aim::None };
        let is_tenth = pattern.share == 0.1;
        let is_sparse = pattern.share < 0.01 && size.bytes >= 1 << 30;
        let (ours, copy) = (&self.ours, &self.copy);
        let (pause, cycle) = (aim(is_sparse, 60.0), aim(is_all, 1.0 / 1.3));
        let mut rows = vec![
            row("publish vs memcpy", snap(ours), snap(copy), pause, note),
            row("write + snapshot vs memcpy", whole(ours), whole(copy), cycle, note),
        ];
        let slow = self.slowdown(&self.ours);
        for (name, arm) in [("gone at once", &self.gone), ("living on", &self.alive)] {
            let name = format!("slowdown vs fork, child {name}");
            rows.push(row(&name, slow.clone(), self.slowdown(arm), aim(is_tenth, 2.0), SLOWDOWN));
        }
        if !is_all {
            rows.push(self.first_writes(size, pattern));
        }
        rows
    }

    /// Microseconds that a version adds to a cycle.
    fn slowdown(&self, arm: &[Sample]) -> Vec<f64> {
        let pairs = arm.iter().zip(&self.bare);
        pairs.map(|(it, bare)| (it.whole() - bare.write) / 1e3).collect()
    }

    fn first_writes(&self, size: &Size, pattern: &Pattern) -> Row {
        let pages = pattern.dirty.pages.len() as f64;
        let added = |arm: &[Sample]| {
            let pairs = arm.iter().zip(&self.bare);
            pairs.map(|(it, bare)| (it.write - bare.write) / pages).collect()
        };
        Row {
            name: format!("{}, {}: first write to a page", size.name, pattern.name),
            ours: added(&self.ours),
            theirs: added(&self.alive),
            unit: "ns",
            aim: Aim::None,
            note: FIRST,
        }
    }
}

fn each(arm: &[Sample], of: impl Fn(&Sample) -> f64) -> Vec<f64> {
    arm.iter().map(of).collect()
}

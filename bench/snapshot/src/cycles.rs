//! What a version costs its producer: publishing, the writes before it, and both together.

use crate::figures::{Sample, Samples};
use crate::memory::{Dirty, Memory};
use crate::producer::{timed, Producer};
use crate::report::Row;
use crate::theirs::{fork, page_faults, Child, LockedCopy};
use crate::{Failure, Size};

/// Versions for which a chunk is copied whole, unwatched, once it was found written nearly whole,
/// with the one that begins to watch it again as the last.
const HOT_FIRST: usize = 16;
/// The same once it has stayed so for long.
const HOT_LAST: f64 = 128.0;

/// Which pages a cycle writes.
pub struct Pattern {
    pub name: &'static str,
    pub share: f64,
    pub dirty: Dirty,
}

impl Pattern {
    /// Some chunk has more than a third of its pages written, and so turns hot.
    fn is_hot(&self) -> bool {
        self.dirty.by_chunk().values().any(|pages| *pages > 512 / 3)
    }

    pub fn is_all(&self) -> bool {
        self.share > 0.5
    }
}

/// The arms, each with memory of its own.
struct Arms {
    producer: Producer,
    remapped: Producer,
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
        remapped: Producer::remapped(len)?,
        plain: Memory::private(len, false)?,
        copy: LockedCopy::new(len)?,
        forked: Memory::private(len, true)?,
        round: 1,
    };
    let mut rows = Vec::new();
    for pattern in patterns(len) {
        let samples = arms.sample(size, &pattern)?;
        let found = samples.rows(size, &pattern);
        found.iter().for_each(Row::print);
        rows.extend(found);
    }
    Ok(rows)
}

fn patterns(len: usize) -> [Pattern; 5] {
    let of = |name, share, dirty| Pattern { name, share, dirty };
    [
        of("0.1 % scattered", 0.001, Dirty::scattered(len, 0.001, 1)),
        of("0.1 % contiguous", 0.001, Dirty::contiguous(len, 0.001)),
        of("10 % scattered", 0.1, Dirty::scattered(len, 0.1, 2)),
        of("10 % contiguous", 0.1, Dirty::contiguous(len, 0.1)),
        of("100 %", 1.0, Dirty::all(len)),
    ]
}

impl Arms {
    fn sample(&mut self, size: &Size, pattern: &Pattern) -> Result<Samples, Failure> {
        let (dirty, mut samples) = (&pattern.dirty, Samples::default());
        let cycles = if pattern.share > 0.05 { 8 } else { 32 };
        let others = if pattern.is_all() { 2 } else { 4 };
        let is_hot = pattern.is_hot();
        for repetition in 0..=size.repetitions {
            let bare = self.mean(others, |arms| Ok(arms.bare(dirty)))?;
            let (ours, probe) = match is_hot {
                true => self.hot(pattern)?,
                false => (self.mean(cycles, |arms| arms.ours(dirty))?, Sample::default()),
            };
            let remap = self.mean(others, |arms| cycle(&mut arms.remapped, dirty))?;
            let copy = self.mean(others, |arms| Ok(arms.copied(dirty)))?;
            let gone = self.mean(others, |arms| arms.forked(Child::EndsAtOnce, dirty))?;
            let alive = self.mean(others, |arms| arms.forked(Child::LivesOn, dirty))?;
            // The first round settles slots and page tables into the pattern.
            if repetition > 0 {
                samples.push([bare, ours, probe, remap, copy, gone, alive]);
            }
        }
        samples.is_hot = is_hot;
        Ok(samples)
    }

    /// From watched chunks through hot ones to where they are watched again, and cold again at the
    /// end, so that each repetition sees the same. Answers the mean version of a program that
    /// goes on like this, and the one whose writes fault.
    fn hot(&mut self, pattern: &Pattern) -> Result<(Sample, Sample), Failure> {
        let dirty = &pattern.dirty;
        let before = page_faults();
        let probe = self.ours(dirty)?;
        let faulted = page_faults() - before;
        // Its pages were protected before they were found hot: these writes fault for nothing.
        self.ours(dirty)?;
        let before = page_faults();
        let steady = self.mean(HOT_FIRST - 2, |arms| arms.ours(dirty))?;
        let calm = page_faults() - before;
        let watch = self.ours(dirty)?;
        // Nothing was written: the chunks cool down.
        self.producer.publish()?;
        // What is claimed about hot chunks has to be what happened.
        let pages = dirty.pages.len() as u64;
        if pattern.is_all() && (faulted < pages || calm > pages / 2) {
            return Err(format!("{faulted} faults when watched, {calm} when hot").into());
        }
        let of = |steady: f64, watch: f64, probe: f64| {
            ((HOT_LAST - 2.0) * steady + watch + 2.0 * probe) / (HOT_LAST + 1.0)
        };
        let mean = Sample {
            write: of(steady.write, watch.write, probe.write),
            snap: of(steady.snap, watch.snap, probe.snap),
        };
        Ok((mean, probe))
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
        cycle(&mut self.producer, dirty)
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

fn cycle(producer: &mut Producer, dirty: &Dirty) -> Result<Sample, Failure> {
    let write = producer.write(dirty);
    Ok(Sample { write, snap: producer.publish()?.0 })
}

//! What a version costs its producer: publishing, the writes before it, and both together.

use crate::figures::{self, Sample, Samples};
use crate::memory::{Dirty, Memory};
use crate::producer::{timed, Producer};
use crate::report::Row;
use crate::theirs::{fork, page_faults, Child, LockedCopy};
use crate::{Failure, Size};

/// Versions for which a chunk is copied whole, unwatched, once it was found written nearly whole
/// in two versions running, with the one that begins to watch it again as the last.
const HOT_FIRST: usize = 16;
/// The same once it has stayed so for long.
const HOT_LAST: f64 = 128.0;
/// Fewest pages of a chunk that are left unwatched if each version writes them.
const STEADY_MIN: usize = 8;
/// Versions from a cold start until such a set has been watched again once, and a few more.
const STEADY_SETTLES: usize = 24;
/// One period of it from then on: 32 versions, and one whose writes fault.
const STEADY_PERIOD: usize = 33;

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

    /// Some chunk has enough pages written each time for a set that is left unwatched.
    fn is_steady(&self) -> bool {
        !self.is_hot() && self.dirty.by_chunk().values().any(|pages| *pages >= STEADY_MIN)
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
    let mut rows = vec![arms.moving(size)?];
    rows.iter().for_each(Row::print);
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
        let (is_hot, is_steady) = (pattern.is_hot(), pattern.is_steady());
        for repetition in 0..=size.repetitions {
            let bare = self.mean(others, |arms| Ok(arms.bare(dirty)))?;
            let (ours, probe) = match (is_hot, is_steady) {
                (true, _) => self.hot(pattern)?,
                (_, true) => self.steady(dirty)?,
                _ => (self.mean(cycles, |arms| arms.ours(dirty))?, Sample::default()),
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
        (samples.is_hot, samples.is_steady) = (is_hot, is_steady);
        Ok(samples)
    }

    /// From cold chunks through hot ones to where they are watched again. Answers the mean version of a program that
    /// goes on like this, and the one whose writes fault.
    fn hot(&mut self, pattern: &Pattern) -> Result<(Sample, Sample), Failure> {
        let dirty = &pattern.dirty;
        self.producer.cool()?;
        let before = page_faults();
        let probe = self.ours(dirty)?;
        let faulted = page_faults() - before;
        // Once is not often, so its pages were protected once more: these writes fault as well,
        // which happens at a cold start only.
        self.ours(dirty)?;
        let before = page_faults();
        let steady = self.mean(HOT_FIRST - 1, |arms| arms.ours(dirty))?;
        let calm = page_faults() - before;
        let watch = self.ours(dirty)?;
        // What is claimed about hot chunks has to be what happened.
        let pages = dirty.pages.len() as u64;
        if pattern.is_all() && (faulted < pages || calm > pages / 2) {
            return Err(format!("{faulted} faults when watched, {calm} when hot").into());
        }
        let of = |steady: f64, watch: f64, probe: f64| {
            ((HOT_LAST - 1.0) * steady + watch + probe) / (HOT_LAST + 1.0)
        };
        let mean = Sample {
            write: of(steady.write, watch.write, probe.write),
            snap: of(steady.snap, watch.snap, probe.snap),
        };
        Ok((mean, probe))
    }

    /// From cold to where the pages written each time have been left unwatched for long; one
    /// period of that, and the first version, whose writes all fault.
    fn steady(&mut self, dirty: &Dirty) -> Result<(Sample, Sample), Failure> {
        self.producer.cool()?;
        let probe = self.ours(dirty)?;
        self.mean(STEADY_SETTLES, |arms| arms.ours(dirty))?;
        let before = page_faults();
        let mean = self.mean(STEADY_PERIOD, |arms| arms.ours(dirty))?;
        let (faulted, pages) = (page_faults() - before, dirty.pages.len() as u64);
        // What is claimed has to be what happened: all of them once, and the witnesses.
        if pages > 1000 && !(pages / 2..pages * 6).contains(&faulted) {
            return Err(format!("{faulted} faults in a period over {pages} steady pages").into());
        }
        Ok((mean, probe))
    }

    /// Other pages each time, against fork.
    fn moving(&mut self, size: &Size) -> Result<Row, Failure> {
        let sets: Vec<Dirty> =
            (0..8).map(|it| Dirty::scattered(size.bytes, 0.1, 40 + it)).collect();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for repetition in 0..=size.repetitions {
            let mut added = [0.0; 2];
            for set in &sets {
                self.round += 1;
                let bare = self.bare(set).write;
                let arms = [self.ours(set)?, self.forked(Child::EndsAtOnce, set)?];
                added.iter_mut().zip(arms).for_each(|(sum, it)| *sum += it.write + it.snap - bare);
            }
            if repetition > 0 {
                ours.push(added[0] / sets.len() as f64 / 1e3);
                theirs.push(added[1] / sets.len() as f64 / 1e3);
            }
        }
        Ok(figures::moving(size, ours, theirs))
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

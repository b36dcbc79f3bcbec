//! The rows that follow from the repetitions of all arms.

use crate::cycles::Pattern;
use crate::memory::CHUNK_BYTES;
use crate::report::{Aim, Row};
use crate::Size;

const CYCLE: &str =
    "fixed dirty set, one 8-byte store per page, wall clock; slots warmed up first, \
    as the first use of one copies a whole chunk of 2 MiB";
const HOT: &str = "chunks written by more than a third: 127 versions that copy them whole, one \
    that does so and watches them again, one whose writes fault, weighted as one period of 129; \
    each was measured, the 127 as the mean of 14";
const STEADY: &str = "the same pages in every version, of which all but one in 16 are left \
    unwatched: the mean of one period of 33 versions, the one in which all of them fault included";
const PROBE: &str = "the version whose writes all fault: one in 129 where chunks stay hot, one in \
    33 where the same pages are written each time, and all where other pages are";
const MOVING: &str =
    "other pages each time, so each is watched, and copied once more for the slot \
    that missed it";
const SLOWDOWN: &str = "a cycle less the same writes without any snapshot; fork with waitpid";
const FIRST: &str = "writes to watched pages less the same writes unwatched; fork: its page copies";
const REMAP: &str =
    "memory of Region::allocate: publishing protects the chunks written since, the \
    first store to each copies its 2 MiB";
const CHUNK: &str = "writes less bare ones, per chunk; theirs: a plain copy, per 2 MiB";

/// One arm's mean over the cycles of a repetition, in ns.
#[derive(Clone, Copy, Default)]
pub struct Sample {
    pub write: f64,
    pub snap: f64,
}

impl Sample {
    fn whole(&self) -> f64 {
        self.write + self.snap
    }
}

/// The row of a dirty set that is another one each time.
pub fn moving(size: &Size, ours: Vec<f64>, theirs: Vec<f64>) -> Row {
    let what = "slowdown vs fork, child gone at once";
    let name = format!("{}, 10 % scattered, other pages each time: {what}", size.name);
    Row { name, ours, theirs, unit: "us", aim: Aim::None, note: MOVING }
}

/// Repetitions of all arms, taken in turn.
#[derive(Default)]
pub struct Samples {
    bare: Vec<Sample>,
    ours: Vec<Sample>,
    probe: Vec<Sample>,
    remap: Vec<Sample>,
    copy: Vec<Sample>,
    gone: Vec<Sample>,
    alive: Vec<Sample>,
    /// `probe` was measured, and is in `ours` with its share, for one of two reasons.
    pub is_hot: bool,
    pub is_steady: bool,
}

impl Samples {
    /// One repetition, in the order of the fields.
    pub fn push(&mut self, [bare, ours, probe, remap, copy, gone, alive]: [Sample; 7]) {
        self.bare.push(bare);
        self.ours.push(ours);
        self.probe.push(probe);
        self.remap.push(remap);
        self.copy.push(copy);
        self.gone.push(gone);
        self.alive.push(alive);
    }

    /// All of them.
    pub fn rows(&self, size: &Size, pattern: &Pattern) -> Vec<Row> {
        let mut rows = self.watched(size, pattern);
        rows.extend(self.remapped(size, pattern));
        rows
    }

    fn watched(&self, size: &Size, pattern: &Pattern) -> Vec<Row> {
        let note = match (self.is_hot, self.is_steady) {
            (true, _) => HOT,
            (_, true) => STEADY,
            _ => CYCLE,
        };
        let row =
            |what: &str, ours, theirs, aim, note| us(size, pattern, what, ours, theirs, aim, note);
        let aim = |wanted, least| if wanted { Aim::Ratio(least) } else { Aim::None };
        let is_sparse = pattern.share < 0.01 && size.bytes >= 1 << 30;
        let (ours, copy) = (&self.ours, &self.copy);
        let (pause, cycle) = (aim(is_sparse, 60.0), aim(pattern.is_all(), 1.0 / 1.3));
        let mut rows = vec![
            row("publish vs memcpy", snap(ours), snap(copy), pause, note),
            row("write + snapshot vs memcpy", whole(ours), whole(copy), cycle, note),
        ];
        let slow = self.slowdown(&self.ours);
        for (name, arm) in [("gone at once", &self.gone), ("living on", &self.alive)] {
            let name = format!("slowdown vs fork, child {name}");
            let aim = aim(pattern.share == 0.1, 2.0);
            rows.push(row(&name, slow.clone(), self.slowdown(arm), aim, SLOWDOWN));
        }
        let is_probed = self.is_hot || self.is_steady;
        if is_probed {
            let (probe, name) = (whole(&self.probe), "write + snapshot, watched again, vs memcpy");
            rows.push(row(name, probe, whole(copy), Aim::None, PROBE));
        }
        let first = if is_probed { &self.probe } else { ours };
        rows.push(self.first_writes(size, pattern, first));
        rows
    }

    fn remapped(&self, size: &Size, pattern: &Pattern) -> Vec<Row> {
        let row = |what: &str, ours, theirs, note| {
            us(size, pattern, &format!("remap, {what}"), ours, theirs, Aim::None, note)
        };
        let slow = self.slowdown(&self.remap);
        let chunks = pattern.dirty.by_chunk().len() as f64;
        let all = size.bytes as f64 / CHUNK_BYTES as f64;
        let pairs = self.remap.iter().zip(&self.bare);
        let each = pairs.map(|(it, bare)| (it.write - bare.write) / chunks / 1e3).collect();
        let copied = self.copy.iter().map(|it| it.snap / all / 1e3).collect();
        vec![
            row("publish vs memcpy", snap(&self.remap), snap(&self.copy), REMAP),
            row("write + snapshot vs memcpy", whole(&self.remap), whole(&self.copy), REMAP),
            row("slowdown vs fork, child gone at once", slow, self.slowdown(&self.gone), SLOWDOWN),
            row("first write to a chunk", each, copied, CHUNK),
        ]
    }

    /// Microseconds that a version adds to a cycle.
    fn slowdown(&self, arm: &[Sample]) -> Vec<f64> {
        let pairs = arm.iter().zip(&self.bare);
        pairs.map(|(it, bare)| (it.whole() - bare.write) / 1e3).collect()
    }

    fn first_writes(&self, size: &Size, pattern: &Pattern, ours: &[Sample]) -> Row {
        let pages = pattern.dirty.pages.len() as f64;
        let added = |arm: &[Sample]| {
            let pairs = arm.iter().zip(&self.bare);
            pairs.map(|(it, bare)| (it.write - bare.write) / pages).collect()
        };
        let (ours, theirs) = (added(ours), added(&self.alive));
        let row = us(size, pattern, "first write to a page", ours, theirs, Aim::None, FIRST);
        Row { unit: "ns", ..row }
    }
}

fn us(
    size: &Size,
    pattern: &Pattern,
    what: &str,
    ours: Vec<f64>,
    theirs: Vec<f64>,
    aim: Aim,
    note: &'static str,
) -> Row {
    let name = format!("{}, {}: {what}", size.name, pattern.name);
    Row { name, ours, theirs, unit: "us", aim, note }
}

fn snap(arm: &[Sample]) -> Vec<f64> {
    arm.iter().map(|it| it.snap / 1e3).collect()
}

fn whole(arm: &[Sample]) -> Vec<f64> {
    arm.iter().map(|it| it.whole() / 1e3).collect()
}

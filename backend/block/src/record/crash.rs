//! The devices that a crash may leave, one after the other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::sectors::{Sectors, Source};
use super::{Event, Recording};
use crate::{Image, MemoryDevice, Random};

/// Choices at random that may turn out to be known already, for each that is wanted.
const TRIES: usize = 4;

/// A device as a crash has left it.
#[derive(Debug)]
pub struct CrashState {
    /// The device.
    pub device: MemoryDevice,
    /// Events of the recording before the crash.
    pub cut: usize,
    /// Numbers of the operations that had completed well, counted as they were begun.
    pub completed: Arc<[usize]>,
    /// What the test had promised by then: the newest mark.
    pub promised: Option<u64>,
    /// Sectors that might have held something else, and the number of the operation whose bytes they
    /// hold; `None` for what was there before.
    pub chosen: Vec<(u64, Option<usize>)>,
}

impl CrashState {
    /// The device's bytes.
    pub fn image(&self) -> &Image {
        self.device.image()
    }
}

/// Every cut of a recording, and the states of each.
#[derive(Debug)]
pub struct CrashStates<'a> {
    recording: &'a Recording,
    sectors: Sectors,
    limit: usize,
    random: Random,
    cut: usize,
    promised: Option<u64>,
    completed: Arc<[usize]>,
    waiting: VecDeque<Vec<(u64, Source)>>,
    is_begun: bool,
}

impl<'a> CrashStates<'a> {
    pub(super) fn new(recording: &'a Recording, limit: usize, seed: u64) -> CrashStates<'a> {
        CrashStates {
            recording,
            sectors: Sectors::new(recording.geometry, recording.start.clone()),
            limit: limit.max(1),
            random: Random::new(seed),
            cut: 0,
            promised: None,
            completed: Arc::new([]),
            waiting: VecDeque::new(),
            is_begun: false,
        }
    }

    /// Goes to the next cut; `None` when there is none.
    fn advance(&mut self) -> Option<()> {
        if std::mem::replace(&mut self.is_begun, true) {
            loop {
                let event = self.recording.events.get(self.cut)?;
                self.cut += 1;
                if let Event::Marked(promise) = event {
                    self.promised = Some(*promise);
                }
                if self.sectors.take(event) {
                    break;
                }
            }
        }
        self.completed = self.sectors.completed().into();
        self.waiting = choices(&self.sectors, self.limit, &mut self.random).into();
        Some(())
    }
}

impl Iterator for CrashStates<'_> {
    type Item = CrashState;

    fn next(&mut self) -> Option<CrashState> {
        while self.waiting.is_empty() {
            self.advance()?;
        }
        let chosen = self.waiting.pop_front()?;
        let image = self.sectors.image(&chosen);
        let device = MemoryDevice::of(image).with_geometry(self.recording.geometry);
        let (cut, completed, promised) = (self.cut, self.completed.clone(), self.promised);
        Some(CrashState { device, cut, completed, promised, chosen })
    }
}

type Open = Vec<(u64, Vec<Source>)>;

/// The choices of one cut.
fn choices(sectors: &Sectors, limit: usize, random: &mut Random) -> Vec<Vec<(u64, Source)>> {
    let open = sectors.open();
    let all = open.iter().try_fold(1usize, |all, (_, candidates)| {
        all.checked_mul(candidates.len()).filter(|all| *all <= limit)
    });
    match all {
        Some(count) => (0..count).map(|number| numbered(&open, number)).collect(),
        None => Sample::new(sectors, open, limit).collect(random),
    }
}

/// The choice with a number, of all that there are.
fn numbered(open: &Open, mut number: usize) -> Vec<(u64, Source)> {
    let one = |(at, candidates): &(u64, Vec<Source>)| {
        let source = candidates[number % candidates.len()];
        number /= candidates.len();
        (*at, source)
    };
    open.iter().map(one).collect()
}

/// Some of more choices than are wanted.
struct Sample<'a> {
    sectors: &'a Sectors,
    open: Open,
    operations: Vec<usize>,
    limit: usize,
    known: HashSet<Vec<(u64, Source)>>,
    chosen: Vec<Vec<(u64, Source)>>,
}

impl<'a> Sample<'a> {
    fn new(sectors: &'a Sectors, open: Open, limit: usize) -> Sample<'a> {
        let candidates = open.iter().flat_map(|(_, candidates)| candidates).flatten();
        let is_free = |number: &usize| !sectors.is_durable(*number);
        let mut operations: Vec<usize> = candidates.copied().filter(is_free).collect();
        operations.sort_unstable();
        operations.dedup();
        let (known, chosen) = (HashSet::new(), Vec::new());
        Sample { sectors, open, operations, limit, known, chosen }
    }

    fn collect(mut self, random: &mut Random) -> Vec<Vec<(u64, Source)>> {
        self.add_telling();
        for _ in 0..self.limit * TRIES {
            let points = self.points(random);
            // Few, half or most of the operations; of each all sectors, or any.
            let share = [100_000, 500_000, 900_000][random.below(3) as usize];
            let torn = [0, 300_000, 1_000_000][random.below(3) as usize];
            let mut fates: HashMap<usize, (bool, bool)> = HashMap::new();
            for number in &self.operations {
                fates.insert(*number, (random.happens(share), random.happens(torn)));
            }
            let is_done = |number: usize, _: u64, random: &mut Random| match fates.get(&number) {
                Some((_, true)) => random.below(2) == 0,
                Some((is_done, false)) => *is_done,
                None => true,
            };
            let choice = self.choice(&points, is_done, random);
            self.add(choice);
        }
        self.chosen
    }

    /// Nothing; everything; each operation alone, missing, and torn in the middle both ways.
    fn add_telling(&mut self) {
        let mut unused = Random::new(0);
        let points: HashMap<usize, u64> = HashMap::new();
        let mut add = |sample: &mut Self, is_done: &dyn Fn(usize, u64) -> bool| {
            let choice = sample.choice(&points, |number, at, _| is_done(number, at), &mut unused);
            sample.add(choice);
        };
        add(self, &|_, _| false);
        add(self, &|_, _| true);
        for one in self.operations.clone() {
            let middle = self.middle(one);
            add(self, &|number, _| number == one);
            add(self, &|number, _| number != one);
            add(self, &|number, at| number < one || number == one && at < middle);
            add(self, &|number, at| number < one || number == one && at >= middle);
        }
    }

    /// The sector in the middle of those that an operation may have written.
    fn middle(&self, number: usize) -> u64 {
        let has = |candidates: &[Source]| candidates.contains(&Some(number));
        let its: Vec<u64> =
            self.open.iter().filter(|(_, all)| has(all)).map(|(at, _)| *at).collect();
        its.get(its.len() / 2).copied().unwrap_or(0)
    }

    /// When each operation is done, at any time at which it may be.
    fn points(&self, random: &mut Random) -> HashMap<usize, u64> {
        const FINE: u64 = 1 << 20;
        let mut points = HashMap::new();
        for number in self.open.iter().flat_map(|(_, candidates)| candidates).flatten() {
            let (from, until) = self.sectors.span(*number);
            let span = (until - from) as u64 * FINE;
            points.entry(*number).or_insert_with(|| from as u64 * FINE + random.below(span));
        }
        points
    }

    /// Each sector holds what is done last of what is done at all.
    fn choice(
        &self,
        points: &HashMap<usize, u64>,
        is_done: impl Fn(usize, u64, &mut Random) -> bool,
        random: &mut Random,
    ) -> Vec<(u64, Source)> {
        let mut one = |(at, candidates): &(u64, Vec<Source>)| {
            let mut done = candidates.iter().copied().filter(|candidate| {
                candidate.is_none_or(|it| self.sectors.is_durable(it) || is_done(it, *at, random))
            });
            let first = done.next();
            let last = done.chain(first).max_by_key(|source| match source {
                Some(number) => (1, points.get(number).copied().unwrap_or(0), *number),
                None => (0, 0, 0),
            });
            (*at, last.unwrap_or(None))
        };
        self.open.iter().map(&mut one).collect()
    }

    fn add(&mut self, choice: Vec<(u64, Source)>) {
        if self.chosen.len() < self.limit && self.known.insert(choice.clone()) {
            self.chosen.push(choice);
        }
    }
}

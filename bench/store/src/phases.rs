//! The phases of a run, and what ends one: a version, the moment of the checkpoint.

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::arena::Arena;
use crate::checkpoint::{words, Checkpoints, Way};
use crate::load::{Latencies, Load};
use crate::Failure;

/// Latencies before the checkpoint, from its begin until it is written, and after.
pub struct Phases {
    pub before: Latencies,
    pub during: Latencies,
    pub after: Latencies,
    pub begun_ns: u64,
    /// When it copied ahead last, while it does.
    pub copied_ns: Option<u64>,
    pub pause_ns: u64,
    pub written_ns: u64,
    pub ended_ns: u64,
    /// Pauses of all publishings.
    pub publishing: Latencies,
    /// Sets at each publishing, by version; the last is the checkpoint's where none was published.
    pub sets: Vec<(u64, u64)>,
}

impl Phases {
    pub fn new() -> Self {
        let [before, during, after, publishing] = [(); 4].map(|()| Latencies::new());
        let (begun_ns, pause_ns, written_ns, ended_ns) = (0, 0, 0, 0);
        let (sets, copied_ns) = (Vec::new(), None);
        Self {
            before,
            during,
            after,
            begun_ns,
            copied_ns,
            pause_ns,
            written_ns,
            ended_ns,
            publishing,
            sets,
        }
    }

    pub fn phase(&mut self) -> &mut Latencies {
        match (self.begun_ns, self.written_ns) {
            (0, _) => &mut self.before,
            (_, 0) => &mut self.during,
            _ => &mut self.after,
        }
    }

    /// Publishes a version that no checkpoint asked for.
    pub fn publish(&mut self, load: &mut Load<'_>, by: &mut Checkpoints) -> Result<(), Failure> {
        let (since, sets) = (load.now(), load.table.sets());
        let number = by.publish()?;
        self.publishing.note(load.now() - since);
        self.sets.push((number, sets));
        load.stood_still(since, self.phase());
        Ok(())
    }

    pub fn begin(
        &mut self,
        load: &mut Load<'_>,
        by: &mut Checkpoints,
        (arena, board): (&Arena, &Arena),
        way: Way,
    ) -> Result<(), Failure> {
        board.word(words::BEFORE).store(board.word(words::PEAK).load(Acquire), Release);
        self.begun_ns = load.now();
        if way == Way::Ahead {
            self.copied_ns = Some(self.begun_ns);
            return Ok(());
        }
        self.stand_still(load, by, (arena, board), way)
    }

    /// Copies one piece between two operations, and makes the version after the last.
    pub fn copy_ahead(
        &mut self,
        load: &mut Load<'_>,
        by: &mut Checkpoints,
        at: (&Arena, &Arena),
        way: Way,
    ) -> Result<(), Failure> {
        let since = load.now();
        let is_time = by.copy_ahead()?;
        self.copied_ns = (!is_time).then_some(load.now());
        self.pause_ns = self.pause_ns.max(load.now() - since);
        load.stood_still(since, &mut self.during);
        match is_time {
            true => self.stand_still(load, by, at, way),
            false => Ok(()),
        }
    }

    /// The moment whose state the checkpoint has.
    pub fn stand_still(
        &mut self,
        load: &mut Load<'_>,
        by: &mut Checkpoints,
        (arena, board): (&Arena, &Arena),
        way: Way,
    ) -> Result<(), Failure> {
        let since = load.now();
        if way != Way::Steady {
            self.sets.push((0, load.table.sets()));
        }
        by.begin(arena, board)?;
        self.pause_ns = self.pause_ns.max(load.now() - since);
        load.stood_still(since, &mut self.during);
        Ok(())
    }

    /// Sets that the checkpoint must have: of its version, or at its begin.
    pub fn sets_of(&self, version: u64) -> u64 {
        let known = self.sets.iter().find(|(number, _)| *number == version && version > 0);
        known.or(self.sets.last()).map_or(0, |(_, sets)| *sets)
    }
}

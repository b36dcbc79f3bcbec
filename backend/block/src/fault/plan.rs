//! Which operation has which fault: a script, odds, and what was done so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Random, Request};

/// EIO.
pub(super) const EIO: i32 = 5;

/// What happens to one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It fails with this errno, and nothing is done: EIO, ENOSPC and the like.
    Error {
        /// What the device answers.
        errno: i32,
    },
    /// It is done, and fails with this errno all the same.
    DoneError {
        /// What the device answers.
        errno: i32,
    },
    /// Of a write only the first sectors are done; the device says that all are.
    Torn {
        /// How many are done.
        sectors: u32,
    },
    /// Of a write only the first sectors are done; the device says so.
    Short {
        /// How many are done.
        sectors: u32,
    },
    /// A write, flush, zeroing or discard is not done; the device says that it is.
    Lost,
    /// A write goes to another place; the device says that it went to its own.
    Misdirected {
        /// Sectors by which it misses, around the end of the device.
        sectors: u64,
    },
    /// One bit of what is read is another; the device says that all went well.
    Flipped {
        /// Which bit of the buffer, around its end.
        bit: usize,
    },
    /// It completes later.
    Slow {
        /// By how much.
        more: Duration,
    },
    /// It is held back until some more were begun: those overtake it.
    Late {
        /// How many.
        by: usize,
    },
    /// It is not begun, since the device is said to be full.
    QueueFull,
}

/// How often each fault happens, of a million operations that can have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Odds {
    /// Reads that fail.
    pub read_error: u32,
    /// Writes, discards and zeroings that fail, done or not.
    pub write_error: u32,
    /// The same with ENOSPC, not done.
    pub no_space: u32,
    /// Flushes that fail.
    pub flush_error: u32,
    /// Writes torn and not told.
    pub torn: u32,
    /// Writes that are short.
    pub short: u32,
    /// Writes that are lost.
    pub lost: u32,
    /// Writes that go astray.
    pub misdirected: u32,
    /// Reads with a flipped bit.
    pub flipped: u32,
    /// Operations of any kind that are overtaken by later ones.
    pub late: u32,
    /// Operations of any kind that are slow.
    pub slow: u32,
    /// Operations of any kind that are refused as if the device was full.
    pub queue_full: u32,
}

/// The faults of a device. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug)]
struct Plan {
    random: Random,
    odds: Odds,
    script: Vec<(usize, Fault)>,
    next: usize,
    injected: Vec<(usize, Fault)>,
    /// How much slower a slow operation is.
    slow_by: Duration,
}

/// ENOSPC.
const ENOSPC: i32 = 28;

impl Faults {
    /// No faults yet; what is chosen at random later on follows from the seed.
    pub fn new(seed: u64) -> Faults {
        let (random, slow_by) = (Random::new(seed), Duration::from_millis(1));
        let (odds, script, injected) = (Odds::default(), Vec::new(), Vec::new());
        Faults(Arc::new(Mutex::new(Plan { random, odds, script, next: 0, injected, slow_by })))
    }

    /// Sets how often faults happen from now on.
    pub fn set_odds(&self, odds: Odds) {
        self.plan().odds = odds;
    }

    /// Sets by how much slow operations are slower: 1 ms without this.
    pub fn set_slow_by(&self, more: Duration) {
        self.plan().slow_by = more;
    }

    /// Has the operation with this number, counted from 0 over the device's life, meet a fault.
    pub fn script(&self, number: usize, fault: Fault) {
        self.plan().script.push((number, fault));
    }

    /// Has the next operation meet a fault.
    pub fn script_next(&self, fault: Fault) {
        let mut plan = self.plan();
        let number = plan.next;
        plan.script.push((number, fault));
    }

    /// How many operations were begun, those included that were refused by a fault.
    pub fn begun(&self) -> usize {
        self.plan().next
    }

    /// What was done to which operation so far.
    pub fn injected(&self) -> Vec<(usize, Fault)> {
        self.plan().injected.clone()
    }

    /// Chooses what the next operation meets.
    pub(super) fn next(&self, request: &Request) -> Option<Fault> {
        let mut plan = self.plan();
        let number = plan.next;
        plan.next += 1;
        let scripted = plan.script.iter().find(|(its, _)| *its == number).map(|(_, fault)| *fault);
        let fault = scripted.or_else(|| plan.at_random(request));
        plan.injected.extend(fault.map(|fault| (number, fault)));
        fault
    }

    /// No thread panics while it holds this; one that did leaves a whole plan all the same.
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn at_random(&mut self, request: &Request) -> Option<Fault> {
        let odds = self.odds;
        let own = match request {
            Request::Read { .. } => self.of_a_read(odds),
            Request::Flush => self.random.happens(odds.flush_error).then_some(FAILED),
            Request::Write { from, .. } => self.of_a_write(odds, from.bytes),
            Request::Discard { .. } | Request::Zero { .. } => self.of_a_change(odds),
        };
        own.or_else(|| self.of_any(odds))
    }

    fn of_a_read(&mut self, odds: Odds) -> Option<Fault> {
        if self.random.happens(odds.read_error) {
            return Some(FAILED);
        }
        let bit = self.random.draw() as usize;
        self.random.happens(odds.flipped).then_some(Fault::Flipped { bit })
    }

    fn of_a_change(&mut self, odds: Odds) -> Option<Fault> {
        if self.random.happens(odds.write_error) {
            let is_done = self.random.below(2) == 0;
            return Some(if is_done { Fault::DoneError { errno: EIO } } else { FAILED });
        }
        self.random.happens(odds.no_space).then_some(Fault::Error { errno: ENOSPC })
    }

    fn of_a_write(&mut self, odds: Odds, bytes: usize) -> Option<Fault> {
        if let Some(fault) = self.of_a_change(odds) {
            return Some(fault);
        }
        // In units of the smallest sector; whoever tears by larger ones tears less of them.
        let sectors = self.random.below(bytes as u64 / 512) as u32;
        if self.random.happens(odds.torn) {
            return Some(Fault::Torn { sectors });
        }
        if self.random.happens(odds.short) {
            return Some(Fault::Short { sectors });
        }
        if self.random.happens(odds.lost) {
            return Some(Fault::Lost);
        }
        let sectors = 1 + self.random.below(1 << 20);
        self.random.happens(odds.misdirected).then_some(Fault::Misdirected { sectors })
    }

    fn of_any(&mut self, odds: Odds) -> Option<Fault> {
        if self.random.happens(odds.late) {
            return Some(Fault::Late { by: 1 + self.random.below(4) as usize });
        }
        if self.random.happens(odds.slow) {
            return Some(Fault::Slow { more: self.slow_by });
        }
        self.random.happens(odds.queue_full).then_some(Fault::QueueFull)
    }
}

/// Not done, and told.
const FAILED: Fault = Fault::Error { errno: EIO };

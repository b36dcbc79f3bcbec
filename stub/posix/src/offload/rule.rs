//! Where a call is cheaper: proven for each group, in the program, by both ways beside each other.
//!
//! ```text
//!          2048 calls, it is time          5 bouts in a row           a term is over,
//!          and a core is spare             are won                    or 8 dear calls in a row
//! warming ----------------------> proving --------------> offloaded ---------------------> proving,
//!                                    | one is lost        ^    | 2 are late                1 bout
//!                                    v                    |    v                              |
//!                                  plain <----------------|--plain <--------------------------+ lost
//!                                    |                    '-----------------------------------' won
//!                                    '--> proving, after 2 s, 4 s ... 64 s
//! ```
//! Both ways are made without waiting for anybody, so what is compared is work: of the thread, and of the
//! executor where its core is not kept for it (`spare`). The proof is one-sided: what is not clearly and
//! repeatedly cheaper is plain, and a first lost bout ends it, so that it costs little where nothing is to
//! be gained. Several threads measure together.

mod bout;
#[cfg(test)]
mod tests;

use heliostat_abi::offload::Group;
use heliostat_base::sync::Ordering::{Acquire, Relaxed, Release};
use heliostat_base::sync::{AtomicU32, AtomicU64};

use super::spare::Spare;
use bout::{Bout, Verdict};
pub use bout::{Outcome, Sample};

/// Calls of a group before it is measured: a program that makes fewer gains nothing.
const WARM_CALLS: u32 = 2048;
/// Bouts that are to be won before calls go to executors.
const BOUTS: u32 = 5;
/// Calls until that is proven again, at first and at most.
const TERM_MIN: u32 = 256;
const TERM_MAX: u32 = 4096;
/// Offloaded calls in a row that cost more than the dearest plain call of the proof.
const DEAR_MAX: u32 = 8;
/// Calls of a term that no executor took in time: its core has become another's.
const LATES_MAX: u32 = 2;
/// Cycles until a judgement is tried again, at first and at most: 2 s and 64 s at 2 GHz.
const REST_CYCLES_MIN: u64 = 4_000_000_000;
const REST_CYCLES_MAX: u64 = 32 * REST_CYCLES_MIN;

/// Phases of a group.
const WARMING: u32 = 0;
const PROVING: u32 = 1;
const PLAIN: u32 = 2;
const OFFLOADED: u32 = 3;

/// How one call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// By its thread.
    Plain,
    /// By an executor.
    Offloaded,
    /// By either, as this sample.
    Sampled(Sample),
}

/// What is known of a group.
#[derive(Debug)]
pub struct Rule {
    phase: AtomicU32,
    /// Calls while warming, and of a term.
    calls: AtomicU32,
    bout: Bout,
    /// Bouts that are still to be won.
    needed: AtomicU32,
    /// Calls of the term that is on.
    term: AtomicU32,
    /// Dear calls in a row, and late ones of a term.
    dear: AtomicU32,
    lates: AtomicU32,
    /// Of the last bout in cycles: plain, offloaded.
    costs: [AtomicU64; 2],
    /// The dearest plain call that offloaded ones were cheaper than.
    bound: AtomicU64,
    again_at: AtomicU64,
    rest: AtomicU64,
}

impl Rule {
    /// Of a group of which nothing is known.
    pub const fn new() -> Rule {
        Rule {
            phase: AtomicU32::new(WARMING),
            calls: AtomicU32::new(0),
            bout: Bout::new(),
            needed: AtomicU32::new(0),
            term: AtomicU32::new(0),
            dear: AtomicU32::new(0),
            lates: AtomicU32::new(0),
            costs: [AtomicU64::new(0), AtomicU64::new(0)],
            bound: AtomicU64::new(0),
            again_at: AtomicU64::new(0),
            rest: AtomicU64::new(REST_CYCLES_MIN),
        }
    }

    /// Whether a call is one of the first, which are plain; it is counted then.
    #[inline]
    pub fn warms(&self) -> bool {
        self.phase.load(Relaxed) == WARMING && self.calls.fetch_add(1, Relaxed) + 1 < WARM_CALLS
    }

    /// How the next call is made, which is `call`, after the first ones. `spare` says whether there is a core,
    /// and is told whether executors are at work.
    #[inline]
    pub fn way(&self, call: u32, thread: u32, now: u64, spare: impl FnOnce(bool) -> Spare) -> Way {
        match self.phase.load(Acquire) {
            PLAIN => Way::Plain,
            PROVING => self.bout.turn(call, thread).map_or(Way::Plain, Way::Sampled),
            WARMING => {
                self.calls.store(0, Relaxed);
                self.prove(WARMING, BOUTS, now, spare(false));
                Way::Plain
            }
            _ => {
                if self.calls.fetch_add(1, Relaxed) + 1 == self.term.load(Relaxed) {
                    self.prove(OFFLOADED, 1, now, spare(true));
                }
                Way::Offloaded
            }
        }
    }

    /// Begins a proof.
    #[cold]
    fn prove(&self, from: u32, bouts: u32, now: u64, spare: Spare) {
        match spare {
            Spare::Later => {}
            // Looking whether there is a core costs next to nothing: the rest grows no longer by it.
            Spare::None => {
                self.again_at.store(now.saturating_add(REST_CYCLES_MIN), Relaxed);
                let _ = self.phase.compare_exchange(from, PLAIN, Release, Relaxed);
            }
            Spare::Core => {
                self.needed.store(bouts, Relaxed);
                // A proof that its program's calls are too few for is none.
                self.again_at.store(now.saturating_add(REST_CYCLES_MIN), Relaxed);
                self.bout.begin(now);
                let _ = self.phase.compare_exchange(from, PROVING, Release, Relaxed);
            }
        }
    }

    /// Whether the last judgement was that plain calls are cheaper.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.phase.load(Relaxed) == PLAIN
    }

    /// Whether something is known of this group.
    pub fn is_judged(&self) -> bool {
        matches!(self.phase.load(Relaxed), PLAIN | OFFLOADED)
    }

    /// Notes what became of a sample. True when the group is judged by it.
    pub fn sampled(&self, sample: Sample, outcome: Outcome, now: u64) -> bool {
        if self.phase.load(Relaxed) != PROVING {
            return false;
        }
        let Some(Verdict { is_won, costs }) = self.bout.sampled(sample, outcome) else {
            return false;
        };
        if costs != [0; 2] {
            self.costs.iter().zip(costs).for_each(|(word, cost)| word.store(cost, Relaxed));
        }
        if !is_won {
            self.give_up(PROVING, now);
            return true;
        }
        self.bound.fetch_max(costs[0], Relaxed);
        if self.needed.fetch_sub(1, Relaxed) > 1 {
            self.bout.begin(now);
            return false;
        }
        self.begin_term();
        true
    }

    /// Calls go to executors, for longer than the last time.
    fn begin_term(&self) {
        let term = (self.term.load(Relaxed) * 2).clamp(TERM_MIN, TERM_MAX);
        self.term.store(term, Relaxed);
        [&self.calls, &self.dear, &self.lates].iter().for_each(|word| word.store(0, Relaxed));
        let _ = self.phase.compare_exchange(PROVING, OFFLOADED, Release, Relaxed);
    }

    /// Calls are plain for a while.
    #[cold]
    fn give_up(&self, from: u32, now: u64) {
        let rest = self.rest.load(Relaxed);
        self.again_at.store(now.saturating_add(rest), Relaxed);
        self.rest.store((rest * 2).min(REST_CYCLES_MAX), Relaxed);
        [&self.term, &self.calls].iter().for_each(|word| word.store(0, Relaxed));
        self.bound.store(0, Relaxed);
        let _ = self.phase.compare_exchange(from, PLAIN, Release, Relaxed);
    }

    /// Notes what became of an offloaded call that is no sample. True when calls are plain from now on.
    #[inline]
    pub fn offloaded(&self, outcome: Outcome, now: u64) -> bool {
        match outcome {
            Outcome::Late => return self.late(now),
            Outcome::Made(cycles) if cycles <= self.bound.load(Relaxed) => {
                if self.dear.load(Relaxed) != 0 {
                    self.dear.store(0, Relaxed);
                }
            }
            Outcome::Made(_) | Outcome::Vain => {
                if self.dear.fetch_add(1, Relaxed) + 1 == DEAR_MAX {
                    self.prove(OFFLOADED, 1, now, Spare::Core);
                }
            }
        }
        false
    }

    #[cold]
    fn late(&self, now: u64) -> bool {
        if self.lates.fetch_add(1, Relaxed) + 1 != LATES_MAX {
            return false;
        }
        self.give_up(OFFLOADED, now);
        true
    }

    /// Forgets what others were to bring: in a child of a fork there are no others, and no executor.
    pub fn begin_anew(&self) {
        if matches!(self.phase.load(Relaxed), PROVING | OFFLOADED) {
            self.calls.store(0, Relaxed);
            self.phase.store(WARMING, Release);
        }
    }

    /// Begins to prove anew where it is time, and ends a proof that does not come to its end. Asked now and
    /// then. True when a proof has ended.
    pub fn look_again(&self, now: u64, spare: impl FnOnce(bool) -> Spare) -> bool {
        let phase = self.phase.load(Relaxed);
        if !matches!(phase, PROVING | PLAIN) || now < self.again_at.load(Relaxed) {
            return false;
        }
        match phase {
            PROVING => self.give_up(PROVING, now),
            _ => self.prove(PLAIN, BOUTS, now, spare(false)),
        }
        phase == PROVING
    }

    /// What a plain and an offloaded call cost when last compared, in cycles; zeros before.
    pub fn costs(&self) -> [u64; 2] {
        [0, 1].map(|way| self.costs[way].load(Relaxed))
    }
}

/// The rules of all groups.
pub static RULES: [Rule; Group::ALL.len()] = [const { Rule::new() }; Group::ALL.len()];

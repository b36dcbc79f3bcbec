//! Where a call is cheaper: measured for each group, in the program, by both ways in turn.
//!
//! ```text
//! warming (2048 calls) -> measuring: plain, offloaded, plain ... (32 each) -> plain or offloaded
//!                          ^                                                     |
//!                          +--------- after 2 s, 4 s ... 64 s --------------------+
//! ```
//! Both ways are made without waiting for anybody, so what is compared is work. A call is offloaded
//! where the median of those is at least a twentieth cheaper: what it costs the kernel core is not
//! counted. Several threads measure together; a sample that is missing (the call would have waited)
//! counts for neither.

use heliostat_abi::offload::Group;
use heliostat_base::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use heliostat_base::sync::{AtomicU32, AtomicU64};

/// Calls of a group before it is measured. Measuring makes a thread, and has calls wait for it: some tenths
/// of a millisecond, which a program that makes fewer calls would never gain back.
const WARM_CALLS: u32 = 2048;
/// Samples of each way.
pub const SAMPLES: usize = 32;
/// Less than these are no measure.
const SAMPLES_MIN: usize = 12;
/// How much cheaper an offloaded call has to be, in parts of a hundred.
const GAIN_PERCENT: u64 = 5;
/// Calls that no executor took in time, since somebody has last told what it counted, that end offload of a
/// group for now: its core has become another's.
const LATES_MAX: u32 = 8;
/// Cycles until a judgement is tried again, at first and at most: 2 s and 64 s at 2 GHz.
const REST_CYCLES_MIN: u64 = 4_000_000_000;
const REST_CYCLES_MAX: u64 = 32 * REST_CYCLES_MIN;

/// Phases of a group.
const WARMING: u32 = 0;
const MEASURING: u32 = 1;
const PLAIN: u32 = 2;
const OFFLOADED: u32 = 3;

/// How one call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// By its thread.
    Plain,
    /// By its thread, without waiting, as this sample.
    PlainSample(usize),
    /// By an executor.
    Offloaded,
    /// By an executor, as this sample.
    OffloadedSample(usize),
}

/// What is known of a group.
#[derive(Debug)]
pub struct Rule {
    phase: AtomicU32,
    /// Calls while warming; samples given out while measuring.
    turn: AtomicU32,
    /// Samples that have come back, or will not.
    done: AtomicU32,
    samples: [[AtomicU32; SAMPLES]; 2],
    /// Medians of the last judgement in cycles: plain, offloaded.
    medians: [AtomicU64; 2],
    again_at: AtomicU64,
    rest: AtomicU64,
    lates: AtomicU32,
}

impl Rule {
    /// Of a group of which nothing is known.
    #[allow(clippy::declare_interior_mutable_const)] // each use is a word of its own
    pub const fn new() -> Rule {
        const WORD: AtomicU32 = AtomicU32::new(0);
        const ROW: [AtomicU32; SAMPLES] = [WORD; SAMPLES];
        Rule {
            phase: AtomicU32::new(WARMING),
            turn: AtomicU32::new(0),
            done: AtomicU32::new(0),
            samples: [ROW, ROW],
            medians: [AtomicU64::new(0), AtomicU64::new(0)],
            again_at: AtomicU64::new(0),
            rest: AtomicU64::new(REST_CYCLES_MIN),
            lates: AtomicU32::new(0),
        }
    }

    /// How the next call is made.
    #[inline]
    pub fn way(&self) -> Way {
        match self.phase.load(Acquire) {
            PLAIN => Way::Plain,
            OFFLOADED => Way::Offloaded,
            WARMING => {
                if self.turn.fetch_add(1, Relaxed) + 1 == WARM_CALLS {
                    self.turn.store(0, Relaxed);
                    self.phase.store(MEASURING, Release);
                }
                Way::Plain
            }
            _ => {
                let turn = self.turn.fetch_add(1, Relaxed) as usize;
                match turn % 2 {
                    _ if turn >= 2 * SAMPLES => Way::Plain,
                    0 => Way::PlainSample(turn / 2),
                    _ => Way::OffloadedSample(turn / 2),
                }
            }
        }
    }

    /// Whether the last judgement was that plain calls are cheaper.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.phase.load(Relaxed) == PLAIN
    }

    /// Whether calls of this group go to executors, once it is judged.
    pub fn is_judged(&self) -> bool {
        matches!(self.phase.load(Relaxed), PLAIN | OFFLOADED)
    }

    /// Notes what a sample took; `None` for one that did not come about. True when that was the last one
    /// and the group is judged anew.
    pub fn sampled(&self, way: Way, cycles: Option<u64>, now: u64) -> bool {
        let (row, place) = match way {
            Way::PlainSample(place) => (0, place),
            Way::OffloadedSample(place) => (1, place),
            Way::Plain | Way::Offloaded => return false,
        };
        let cycles = cycles.map_or(0, |cycles| cycles.clamp(1, u64::from(u32::MAX)) as u32);
        self.samples[row][place].store(cycles, Relaxed);
        if self.done.fetch_add(1, AcqRel) + 1 != 2 * SAMPLES as u32 {
            return false;
        }
        self.judge(now);
        true
    }

    fn judge(&self, now: u64) {
        let medians = [self.median(0), self.median(1)];
        let phase = match medians {
            [Some(plain), Some(offloaded)] => {
                self.medians[0].store(plain, Relaxed);
                self.medians[1].store(offloaded, Relaxed);
                let is_cheaper = offloaded * 100 <= plain * (100 - GAIN_PERCENT);
                if is_cheaper {
                    OFFLOADED
                } else {
                    PLAIN
                }
            }
            _ => PLAIN,
        };
        let rest = self.rest.load(Relaxed);
        self.again_at.store(now.saturating_add(rest), Relaxed);
        self.rest.store((rest * 2).min(REST_CYCLES_MAX), Relaxed);
        self.phase.store(phase, Release);
    }

    fn median(&self, row: usize) -> Option<u64> {
        let mut found = [0; SAMPLES];
        let mut count = 0;
        for sample in &self.samples[row] {
            let cycles = sample.load(Relaxed);
            if cycles != 0 {
                found[count] = cycles;
                count += 1;
            }
        }
        let found = found.get_mut(..count).filter(|found| found.len() >= SAMPLES_MIN)?;
        found.sort_unstable();
        found.get(count / 2).map(|cycles| u64::from(*cycles))
    }

    /// Notes that no executor took a call in time.
    #[cold]
    pub fn late(&self, now: u64) {
        if self.lates.fetch_add(1, Relaxed) + 1 < LATES_MAX {
            return;
        }
        self.lates.store(0, Relaxed);
        self.again_at.store(now.saturating_add(self.rest.load(Relaxed)), Relaxed);
        let _ = self.phase.compare_exchange(OFFLOADED, PLAIN, Release, Relaxed);
    }

    /// Forgets samples that others were to bring: in a child of a fork there are no others.
    pub fn begin_anew(&self) {
        if self.phase.load(Relaxed) == MEASURING {
            self.turn.store(0, Relaxed);
            self.done.store(0, Relaxed);
            self.phase.store(WARMING, Release);
        }
    }

    /// Begins to measure anew where it is time. Asked now and then: samples that a fork has left without
    /// their threads come to an end by it too.
    pub fn look_again(&self, now: u64) {
        self.lates.store(0, Relaxed);
        let phase = self.phase.load(Relaxed);
        let is_stuck = phase == MEASURING && self.turn.load(Relaxed) as usize > 2 * SAMPLES;
        if is_stuck && self.again_at.load(Relaxed) == 0 {
            // Of many threads the last samples may take long: those that never come are waited for once.
            self.again_at.store(now.saturating_add(REST_CYCLES_MIN), Relaxed);
        }
        if !(is_stuck || self.is_judged()) || now < self.again_at.load(Relaxed) {
            return;
        }
        // The others go on as judged until there are turns to take again.
        self.again_at.store(now.saturating_add(self.rest.load(Relaxed)), Relaxed);
        self.done.store(0, Relaxed);
        self.turn.store(0, Relaxed);
        let _ = self.phase.compare_exchange(phase, MEASURING, Release, Relaxed);
    }

    /// What a plain and an offloaded call took when last judged, in cycles; zeros before.
    pub fn medians(&self) -> [u64; 2] {
        [0, 1].map(|way| self.medians[way].load(Relaxed))
    }
}

/// The rules of all groups.
pub static RULES: [Rule; Group::ALL.len()] = [const { Rule::new() }; Group::ALL.len()];

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all samples of a fresh rule, each way with its cost.
    fn measure(rule: &Rule, plain: u64, offloaded: Option<u64>, now: u64) {
        let mut is_judged = false;
        for _ in 0..2 * SAMPLES {
            let way = rule.way();
            let cycles = match way {
                Way::PlainSample(_) => Some(plain),
                Way::OffloadedSample(_) => offloaded,
                other => panic!("{other:?} while there are samples to take"),
            };
            assert!(!is_judged);
            is_judged = rule.sampled(way, cycles, now);
        }
        assert!(is_judged && rule.is_judged());
    }

    fn warm() -> Rule {
        let rule = Rule::new();
        (0..WARM_CALLS).for_each(|_| assert_eq!(rule.way(), Way::Plain));
        rule
    }

    #[test]
    fn the_cheaper_way_is_taken_and_a_small_gain_is_none() {
        for (offloaded, way) in [(700, Way::Offloaded), (960, Way::Plain), (5000, Way::Plain)] {
            let rule = warm();
            measure(&rule, 1000, Some(offloaded), 0);
            assert_eq!((rule.way(), rule.medians()), (way, [1000, offloaded]));
        }
    }

    #[test]
    fn a_way_that_never_comes_about_is_not_taken() {
        let rule = warm();
        measure(&rule, 1000, None, 0);
        assert_eq!((rule.way(), rule.medians()), (Way::Plain, [0, 0]));
    }

    #[test]
    fn a_judgement_is_tried_again_and_more_and_more_seldom() {
        let rule = warm();
        measure(&rule, 1000, Some(2000), 10);
        rule.look_again(10 + REST_CYCLES_MIN - 1);
        assert_eq!(rule.way(), Way::Plain);
        rule.look_again(10 + REST_CYCLES_MIN);
        measure(&rule, 1000, Some(100), 10 + REST_CYCLES_MIN);
        assert_eq!(rule.way(), Way::Offloaded);
        rule.look_again(10 + 2 * REST_CYCLES_MIN);
        assert_eq!(rule.way(), Way::Offloaded);
    }

    #[test]
    fn an_executor_whose_core_is_taken_is_not_asked_any_more() {
        let rule = warm();
        measure(&rule, 1000, Some(100), 0);
        (1..LATES_MAX).for_each(|_| rule.late(9));
        assert_eq!(rule.way(), Way::Offloaded);
        rule.late(9);
        assert_eq!(rule.way(), Way::Plain);
    }

    #[test]
    fn a_child_of_a_fork_does_not_go_on_with_its_parents_samples() {
        let rule = warm();
        (0..SAMPLES).for_each(|_| _ = rule.way());
        rule.begin_anew();
        (0..WARM_CALLS).for_each(|_| assert_eq!(rule.way(), Way::Plain));
        measure(&rule, 1000, Some(100), 0);
        rule.begin_anew();
        assert_eq!(rule.way(), Way::Offloaded, "what was judged stays");
    }

    #[test]
    fn samples_that_never_come_back_do_not_end_the_measuring() {
        let rule = warm();
        (0..=2 * SAMPLES).for_each(|_| _ = rule.way());
        assert_eq!(rule.way(), Way::Plain);
        rule.look_again(1);
        assert_eq!(rule.way(), Way::Plain);
        rule.look_again(1 + REST_CYCLES_MIN);
        measure(&rule, 5, Some(3), 1);
    }
}

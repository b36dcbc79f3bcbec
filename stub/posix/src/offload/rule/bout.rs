//! One comparison: the same call, some times by each way, in an order that no program's own repeats.
//!
//! ```text
//! rouse     an executor that sleeps, or is none yet, is woken by a call that counts for nothing
//! 8 pairs   plain and offloaded, which one first by a random bit
//! verdict   won: seven of eight offloaded ones are cheaper than half of the plain ones, by the margin
//! ```
//! A program's calls repeat: by turns without more one way would have its opens, the other its closes.
//! So one call of one thread is compared, the first that comes, and others go by; one that hardly ever
//! comes is given up for another. Other threads' executors may sleep: only the first thread's is roused.

use heliostat_base::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use heliostat_base::sync::{AtomicU32, AtomicU64};

/// Pairs of a bout.
pub const PAIRS: usize = 8;
/// Samples given out in a bout: the rouse, and both of each pair.
pub const GIVEN: u32 = 1 + 2 * PAIRS as u32;
/// Plain samples that make a measure; others were calls that would have waited.
const PLAIN_MIN: usize = 6;
/// How much cheaper an offloaded call has to be, in parts of a hundred.
const GAIN_PERCENT: u64 = 5;
/// Calls that go by before another call is compared, and how many a call of the same thread counts for.
const OTHERS_MAX: u32 = 65_536;
const OTHERS_OF_THREAD: u32 = 256;
/// A number of samples lies below that of its bout.
const NUMBER_BITS: u32 = 16;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;
/// No call and no thread has these numbers.
const NOBODY: u64 = u64::MAX;

/// A turn in a bout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    bout: u32,
    place: u32,
    is_offloaded: bool,
}

impl Sample {
    /// Whether an executor is to make the call.
    pub const fn is_offloaded(self) -> bool {
        self.is_offloaded
    }

    /// Whether it wakes the executor, and counts for nothing if it does.
    pub const fn is_rouse(self) -> bool {
        self.place == 0
    }
}

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was made, and cost so many cycles, on all cores together.
    Made(u64),
    /// It was not made: it would have waited.
    Vain,
    /// No executor took it in time, or there is none.
    Late,
}

/// What a bout has shown; costs are zero where they are not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Offloaded calls are cheaper.
    pub is_won: bool,
    /// What was compared: a plain call, and an offloaded one.
    pub costs: [u64; 2],
}

const LOST: Verdict = Verdict { is_won: false, costs: [0; 2] };

/// The bout that is on.
#[derive(Debug)]
pub struct Bout {
    /// The thread and the call that are compared; zero until one has come.
    compared: AtomicU64,
    /// Number of the bout, and of the next sample.
    turn: AtomicU32,
    /// Samples that have come back.
    done: AtomicU32,
    others: AtomicU32,
    /// A bit for each pair: offloaded first.
    order: AtomicU32,
    /// Costs: zero for a sample that is none.
    samples: [[AtomicU32; PAIRS]; 2],
}

impl Bout {
    /// None has begun.
    #[allow(clippy::declare_interior_mutable_const)] // each use is a word of its own
    pub const fn new() -> Bout {
        const WORD: AtomicU32 = AtomicU32::new(0);
        const ROW: [AtomicU32; PAIRS] = [WORD; PAIRS];
        Bout {
            compared: AtomicU64::new(0),
            turn: WORD,
            done: WORD,
            others: WORD,
            order: WORD,
            samples: [ROW, ROW],
        }
    }

    /// Begins anew; samples that are still out count for nothing. `seed` is any number.
    pub fn begin(&self, seed: u64) {
        self.compared.store(NOBODY, Relaxed);
        self.order.store(mixed(seed), Relaxed);
        self.samples.iter().flatten().for_each(|sample| sample.store(0, Relaxed));
        self.done.store(0, Relaxed);
        self.others.store(0, Relaxed);
        let bout = (self.turn.load(Relaxed) >> NUMBER_BITS).wrapping_add(1);
        self.turn.store(bout << NUMBER_BITS, Release);
        self.compared.store(0, Release);
    }

    /// The turn of a call, if it has one.
    pub fn turn(&self, call: u32, thread: u32) -> Option<Sample> {
        let wanted = u64::from(thread) << 32 | u64::from(call);
        let compared = self.compared.compare_exchange(0, wanted, AcqRel, Acquire);
        if let Some(other) = compared.err().filter(|compared| *compared != wanted) {
            self.pass(other >> 32 == u64::from(thread));
            return None;
        }
        let seen = self.turn.load(Acquire) & NUMBER;
        let is_rousing = seen == 1 && self.done.load(Acquire) == 0;
        if seen >= GIVEN || is_rousing {
            return None;
        }
        let turn = self.turn.fetch_add(1, AcqRel);
        let (bout, place) = (turn >> NUMBER_BITS, turn & NUMBER);
        (place < GIVEN).then(|| Sample { bout, place, is_offloaded: self.is_offloaded(place) })
    }

    /// A call goes by that is not compared.
    fn pass(&self, is_of_thread: bool) {
        let weight = if is_of_thread { OTHERS_OF_THREAD } else { 1 };
        let before = self.others.fetch_add(weight, Relaxed);
        if before < OTHERS_MAX && before + weight >= OTHERS_MAX {
            self.begin(u64::from(self.order.load(Relaxed)));
        }
    }

    fn is_offloaded(&self, place: u32) -> bool {
        let Some(place) = place.checked_sub(1) else { return true };
        let is_offloaded_first = self.order.load(Relaxed) >> (place / 2) & 1 == 1;
        (place % 2 == 0) == is_offloaded_first
    }

    /// Notes what a sample has shown; the verdict with the last one, or as soon as nothing else can come.
    pub fn sampled(&self, sample: Sample, outcome: Outcome) -> Option<Verdict> {
        if sample.bout != self.turn.load(Acquire) >> NUMBER_BITS {
            return None;
        }
        let cost = match (outcome, sample.is_offloaded) {
            (Outcome::Late, _) => return Some(LOST),
            (Outcome::Made(cycles), _) => cycles.clamp(1, u64::from(u32::MAX)) as u32,
            // Asked for in vain, and then made plainly all the same.
            (Outcome::Vain, true) => u32::MAX,
            (Outcome::Vain, false) => 0,
        };
        if let Some(place) = sample.place.checked_sub(1) {
            let row = &self.samples[usize::from(sample.is_offloaded)];
            row[place as usize / 2].store(cost, Relaxed);
        }
        (self.done.fetch_add(1, AcqRel) + 1 == GIVEN).then(|| self.verdict())
    }

    fn verdict(&self) -> Verdict {
        let [plain, offloaded] = [0, 1].map(|row| {
            let mut found: [u32; PAIRS] =
                std::array::from_fn(|at| self.samples[row][at].load(Relaxed));
            found.sort_unstable();
            found
        });
        let missing = plain.iter().filter(|cost| **cost == 0).count();
        if PAIRS - missing < PLAIN_MIN {
            return LOST;
        }
        // Of an even number the lower middle one, so that doubt is in favour of plain calls.
        let plain = u64::from(plain[missing + (PAIRS - missing - 1) / 2]);
        let offloaded = u64::from(offloaded[PAIRS * 3 / 4]);
        let is_won = offloaded * 100 <= plain * (100 - GAIN_PERCENT);
        Verdict { is_won, costs: [plain, offloaded] }
    }
}

/// Bits of a number that look like others of the next number (splitmix64's constants).
const fn mixed(seed: u64) -> u32 {
    let seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let seed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (seed ^ seed >> 32) as u32
}

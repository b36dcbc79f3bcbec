//! How the waits of one connection or epoll set end, and whether looking before a sleep pays.
//!
//! Looking is dear only while it keeps a core from others: what counts is the time *burned*, not
//! the time that passed, so a peer on the same core that works while this thread has given the
//! core away costs next to nothing. Waits that burn more than a sleep and a wake-up cost are slept
//! at once, and tried again ever more rarely. What a sleep costs differs: between two cores it takes
//! some 25 us longer, on one core 5. So where looking is not cheap a sleep is tried now and then.
//!
//! ```text
//!            mean of burned time above what pays
//!   looking ------------------------------------> resting (8, 16, ... 1024 waits slept at once)
//!      ^                                             |
//!      +------------ the next wait is a trial <------+
//! ```

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Burned for longer than this a wait costs more than a sleep and a wake-up: between two cores
/// plain TCP takes 27 us of CPU time for each side's, with bells and looks around it. It is less
/// where sleeps are short: half of what a sleep lasts and takes.
pub const PAYS_NS: u64 = 37_000;
/// CPU time that a sleep and a wake-up take at least, both sides' together.
const SLEEP_CPU_NS: u64 = 16_000;
/// A peer that was rung for wakes up first, on another core this long after: no reason to give up
/// looking, for a peer that looks as well needs no bell.
pub const WAKE_NS: u64 = 25_000;
/// The mean takes in one eighth of each wait.
const WEIGHT: u64 = 8;
/// Rests have 8 waits at first and 1024 at most: powers of two.
const REST_FIRST: u8 = 3;
const REST_LAST: u8 = 10;
/// After so many looks that paid the next rest is shorter.
const LOOKS_PER_SHORTER_REST: u16 = 128;
/// After so many one wait is slept to learn from; an eighth of it while nothing is known. A sleep in
/// a large set costs a bell for each connection that speaks before the thread is up.
const LOOKS_PER_SLEEP: u16 = 1024;
/// A mean of burned time that an eager look does not raise.
const BEST: u16 = (super::EAGER_NS / BURNED_UNIT_NS) as u16;
/// What the packed word counts in.
const BURNED_UNIT_NS: u64 = 16;
const ASLEEP_UNIT_NS: u64 = 1_000;

/// What is known of the waits so far; a pure value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Habit {
    /// Mean of the time burned by looking, in units of 16 ns.
    burned: u16,
    /// Waits still to be slept at once.
    rest: u16,
    /// How often the next rest is twice as long as the first. (All zeros at first, since tables hold
    /// many of these that take no room in the library's file.)
    longer: u8,
    /// Looks that paid since the last rest or sleep.
    paid: u16,
    /// How long a sleep lasts when it is short, in us; 0 when none was measured.
    asleep: u16,
}

/// How one look before a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// Time for which the core was kept and nothing was found.
    pub burned_ns: u64,
    /// What was waited for came.
    pub found: bool,
    /// This thread had rung for the peer since its last wait.
    pub rang: bool,
}

impl Habit {
    /// Of a connection that has not waited yet: it looks.
    pub const fn new() -> Self {
        Self { burned: 0, rest: 0, longer: 0, paid: 0, asleep: 0 }
    }

    /// Whether to look before this wait's sleep, and what is known afterwards.
    pub fn begin(mut self) -> (bool, Self) {
        let looks = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        (looks, self)
    }

    /// After a look.
    pub fn learn(mut self, look: Look) -> Self {
        // A look that found nothing was in vain, whoever was rung for.
        let excused = if look.found && look.rang { WAKE_NS } else { 0 };
        let burned = look.burned_ns.saturating_sub(excused) / BURNED_UNIT_NS;
        let mean = match self.is_too_dear() {
            // This look was a trial.
            true => burned,
            false => (u64::from(self.burned) * (WEIGHT - 1) + burned) / WEIGHT,
        };
        self.burned = mean.min(u64::from(u16::MAX)) as u16;
        match self.is_too_dear() {
            true => self.begin_rest(),
            false => self.count_paid(),
        }
        self
    }

    /// True while all waits end at the first eager look: another one of these changes nothing.
    #[inline]
    pub fn is_at_best(self) -> bool {
        self.burned <= BEST && self.rest == 0 && self.longer == 0
    }

    fn burned_ns(self) -> u64 {
        u64::from(self.burned) * BURNED_UNIT_NS
    }

    fn is_too_dear(self) -> bool {
        let pays_ns = match self.asleep_ns() {
            0 => PAYS_NS,
            asleep_ns => PAYS_NS.min((asleep_ns + SLEEP_CPU_NS) / 2),
        };
        self.burned_ns() > pays_ns
    }

    fn begin_rest(&mut self) {
        self.rest = 1 << (REST_FIRST + self.longer);
        self.longer = (self.longer + 1).min(REST_LAST - REST_FIRST);
        self.paid = 0;
    }

    fn count_paid(&mut self) {
        self.paid += 1;
        if self.paid % LOOKS_PER_SHORTER_REST == 0 {
            self.longer = self.longer.saturating_sub(1);
        }
        let looks_per_sleep = match self.asleep {
            0 => LOOKS_PER_SLEEP / 8,
            _ => LOOKS_PER_SLEEP,
        };
        if self.paid >= looks_per_sleep {
            self.paid = 0;
            self.rest = u16::from(self.burned_ns() > SLEEP_CPU_NS);
        }
    }

    /// After a sleep of `ns`. The short ones are remembered: an idle connection's say nothing.
    pub fn slept(mut self, ns: u64) -> Self {
        let sample = (ns / ASLEEP_UNIT_NS).clamp(1, u64::from(u16::MAX)) as u16;
        self.asleep = match self.asleep {
            0 => sample,
            known if sample < known => known - (known - sample).div_ceil(4),
            known => sample.min(known.saturating_add(known.div_ceil(16))),
        };
        self
    }

    /// How long a short sleep lasts, all told; 0 when that is not known.
    pub fn asleep_ns(self) -> u64 {
        u64::from(self.asleep) * ASLEEP_UNIT_NS
    }

    /// 16 bits of `burned`, 12 of `rest`, 4 of `longer`, 16 each of `paid` and `asleep`.
    fn to_word(self) -> u64 {
        u64::from(self.burned)
            | u64::from(self.rest) << 16
            | u64::from(self.longer) << 28
            | u64::from(self.paid) << 32
            | u64::from(self.asleep) << 48
    }

    fn from_word(word: u64) -> Self {
        let bits = |shift: u32, count: u32| (word >> shift & ((1 << count) - 1)) as u16;
        Self {
            burned: bits(0, 16),
            rest: bits(16, 12),
            longer: bits(28, 4) as u8,
            paid: bits(32, 16),
            asleep: bits(48, 16),
        }
    }
}

/// A habit that several threads may have; of two that learn at once one is forgotten.
pub struct HabitCell(AtomicU64);

impl Default for HabitCell {
    fn default() -> Self {
        Self::new()
    }
}

impl HabitCell {
    /// Of a connection or set that has not waited yet.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// What is known.
    #[inline]
    pub fn load(&self) -> Habit {
        Habit::from_word(self.0.load(Relaxed))
    }

    /// Notes what is known now.
    #[inline]
    pub fn store(&self, habit: Habit) {
        self.0.store(habit.to_word(), Relaxed);
    }

    /// Forgets everything.
    pub fn reset(&self) {
        self.store(Habit::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Look = Look { burned_ns: 50_000, found: false, rang: false };

    fn found_after(burned_ns: u64) -> Look {
        Look { burned_ns, found: true, rang: false }
    }

    /// Waits that all end as `look` does: how many of them looked.
    fn looks_of(mut habit: Habit, look: Look, waits: usize) -> (usize, Habit) {
        let mut looked = 0;
        for _ in 0..waits {
            let (looks, next) = habit.begin();
            habit = if looks { next.learn(look) } else { next };
            looked += usize::from(looks);
        }
        (looked, habit)
    }

    #[test]
    fn short_waits_are_always_looked_through() {
        assert_eq!(looks_of(Habit::new(), found_after(2_000), 10_000).0, 10_000);
    }

    #[test]
    fn what_pays_just_so_is_looked_through() {
        let (looked, _) = looks_of(Habit::new(), found_after(PAYS_NS - 1_000), 10_000);
        assert!(looked > 9_900, "{looked}");
    }

    #[test]
    fn long_waits_are_slept_but_for_ever_rarer_trials() {
        let (first, habit) = looks_of(Habit::new(), LONG, 2_048);
        assert!(first <= 20, "{first}");
        let (later, _) = looks_of(habit, LONG, 102_400);
        assert!((90..=101).contains(&later), "{later}");
    }

    #[test]
    fn a_look_that_finds_too_late_does_not_pay_either() {
        let (looked, _) = looks_of(Habit::new(), found_after(45_000), 4_096);
        assert!(looked < 40, "{looked}");
    }

    #[test]
    fn where_sleeps_are_short_less_pays() {
        let waits = |asleep_ns: u64, found_ns: u64| {
            let mut habit = Habit::new();
            let mut looked = 0;
            for _ in 0..10_000 {
                let (looks, next) = habit.begin();
                habit = match looks {
                    true => next.learn(found_after(found_ns)),
                    false => next.slept(asleep_ns),
                };
                looked += usize::from(looks);
            }
            looked
        };
        assert!(waits(56_000, 31_000) > 9_900);
        assert!(waits(40_000, 31_000) < 300);
        assert!(waits(12_000, 2_000) == 10_000);
    }

    #[test]
    fn one_trial_that_pays_ends_the_rest() {
        let (_, habit) = looks_of(Habit::new(), LONG, 4_000);
        let (looked, _) = looks_of(habit, found_after(1_000), 3_000);
        assert!(looked >= 3_000 - (1 << REST_LAST), "{looked}");
    }

    #[test]
    fn a_peer_that_was_rung_for_may_be_late_by_its_waking() {
        let rung = Look { burned_ns: PAYS_NS + WAKE_NS - 1_000, found: true, rang: true };
        let (looked, _) = looks_of(Habit::new(), rung, 1_000);
        assert!(looked > 990, "{looked}");
        assert!(looks_of(Habit::new(), Look { found: false, ..rung }, 1_000).0 < 20);
    }

    #[test]
    fn a_long_wait_among_short_ones_changes_nothing() {
        let mut habit = Habit::new();
        for turn in 0..1_000 {
            let (looks, next) = habit.begin();
            assert!(looks, "turn {turn}");
            habit = next.learn(if turn % 10 == 0 { LONG } else { found_after(1_000) });
        }
    }

    #[test]
    fn short_sleeps_are_remembered_and_idle_ones_are_not() {
        let often = (0..100).fold(Habit::new(), |habit, _| habit.slept(400_000));
        let idle = often.slept(5_000_000_000);
        assert!((400_000..=440_000).contains(&idle.asleep_ns()), "{}", idle.asleep_ns());
        let busy = (0..100).fold(idle, |habit, _| habit.slept(3_000_000));
        assert!(busy.asleep_ns() > 2_000_000, "{}", busy.asleep_ns());
    }

    #[test]
    fn a_word_holds_all_of_it() {
        let habit = Habit { burned: 1, rest: 2, longer: 3, paid: 5, asleep: 4 };
        assert_eq!(Habit::from_word(habit.to_word()), habit);
        assert_eq!(HabitCell::new().load(), Habit::new());
    }
}

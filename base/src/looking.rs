//! Whether a thread that has nothing to do looks on for a moment, or sleeps at once.
//!
//! A sleep and a wake-up take 20 us across cores, so who waits for less than that looks on. Two things
//! speak against it, and both are learnt, without a trial: how long waits of this kind last ([`Waits`]),
//! which a sleep shows as well, and whether others want the core ([`Cores`]), which a yield shows that
//! comes back late.
//!
//! The waiting of a program's own threads (`stub/posix/src/waiting.rs`) goes by the same two judgements.

/// How long a thread looks on. Longer than waking a thread of another core takes, since otherwise two
/// that have slept once keep each other sleeping.
pub const LOOK_NS: u64 = 50_000;
/// What of a wait that was slept is the wake-up's.
const WAKE_NS: u64 = 25_000;
/// A yield that comes back so late had given the core to somebody for a slice.
const LATE_NS: u64 = 1_000_000;

/// Short waits lately: a long one counts for two, since looking in vain costs more than looking saves.
const SCORE_MAX: u8 = 8;
const SCORE_LOOKS: u8 = 2;
const LONG_COSTS: u8 = 2;

/// How long nobody looks after a late return, as its multiple, at first and at most.
const TIMES_MIN: u64 = 4;
const TIMES_MAX: u64 = 128;
const REST_NS_MAX: u64 = 2_000_000_000;
/// Waits that ended while looking, after which the next rest is half as long.
const FOUND_PER_SHORTER_REST: u32 = 256;

/// How waits of one kind have ended lately.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Waits {
    score: u8,
}

impl Waits {
    /// Whether the next one is likely to be short enough.
    pub fn are_short(self) -> bool {
        self.score >= SCORE_LOOKS
    }

    /// One has ended that lasted so long.
    pub fn ended(&mut self, ns: u64, has_slept: bool) {
        let wake_ns = if has_slept { WAKE_NS } else { 0 };
        self.score = if ns <= LOOK_NS + wake_ns {
            (self.score + 1).min(SCORE_MAX)
        } else {
            self.score.saturating_sub(LONG_COSTS)
        };
    }
}

/// Whether there is a core to look on with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cores {
    rests_until_ns: u64,
    times: u64,
    found: u32,
}

impl Default for Cores {
    fn default() -> Cores {
        Cores { rests_until_ns: 0, times: TIMES_MIN, found: 0 }
    }
}

impl Cores {
    /// Whether one may look on now.
    pub fn are_free(&self, now_ns: u64) -> bool {
        now_ns >= self.rests_until_ns
    }

    /// A look with its yield took so long. Where that was somebody else's slice nobody looks for a
    /// multiple of it: at most one part in 128 is lost to that.
    pub fn looked(&mut self, ns: u64, now_ns: u64) {
        if ns < LATE_NS {
            return;
        }
        self.rests_until_ns = now_ns.saturating_add((ns * self.times).min(REST_NS_MAX));
        self.times = (self.times * 2).min(TIMES_MAX);
        self.found = 0;
    }

    /// A wait has ended while one looked.
    pub fn found(&mut self) {
        self.found += 1;
        if self.found == FOUND_PER_SHORTER_REST {
            self.times = (self.times / 2).max(TIMES_MIN);
            self.found = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE_NS: u64 = 4_000_000;

    fn after(lengths_ns: impl IntoIterator<Item = u64>) -> Waits {
        lengths_ns.into_iter().fold(Waits::default(), |mut waits, ns| {
            waits.ended(ns, true);
            waits
        })
    }

    #[test]
    fn who_has_not_waited_yet_sleeps_and_learns_from_its_sleeps() {
        assert!(!Waits::default().are_short());
        assert!(after([40_000; 2]).are_short());
        assert!(!after([200_000; 50]).are_short());
    }

    #[test]
    fn a_rare_long_wait_changes_nothing_and_some_in_a_row_do() {
        let long_in_eight = (0..80).map(|at| if at % 8 == 0 { 1_000_000 } else { 20_000 });
        assert!(after(long_in_eight).are_short());
        assert!(!after([20_000; 50].into_iter().chain([1_000_000; 4])).are_short());
    }

    #[test]
    fn as_many_long_waits_as_short_ones_are_slept() {
        let waits = after((0..100).map(|at| if at % 2 == 0 { 20_000 } else { 1_000_000 }));
        assert!(!waits.are_short());
    }

    #[test]
    fn a_wait_that_was_slept_may_take_its_wake_up_longer() {
        let mut waits = after([20_000; 3]);
        waits.ended(LOOK_NS + WAKE_NS, false);
        assert!(!waits.are_short());
        assert!(after([LOOK_NS + WAKE_NS; 2]).are_short());
    }

    #[test]
    fn beside_others_who_want_the_core_hardly_anything_is_lost() {
        let (mut cores, mut now_ns, mut lost_ns) = (Cores::default(), 0, 0);
        while now_ns < 10_000_000_000 {
            now_ns += 100_000;
            if cores.are_free(now_ns) {
                now_ns += SLICE_NS;
                lost_ns += SLICE_NS;
                cores.looked(SLICE_NS, now_ns);
            }
        }
        assert!(lost_ns * 64 < now_ns, "{lost_ns} of {now_ns}");
    }

    #[test]
    fn a_rare_slice_makes_a_short_rest() {
        let (mut cores, mut now_ns) = (Cores::default(), 0);
        for _ in 0..10 {
            (0..FOUND_PER_SHORTER_REST).for_each(|_| cores.found());
            now_ns += SLICE_NS;
            cores.looked(SLICE_NS, now_ns);
            assert!(!cores.are_free(now_ns));
            now_ns += SLICE_NS * TIMES_MIN * 2;
            assert!(cores.are_free(now_ns));
        }
    }
}

//! Whether others want this program's cores, so that giving one away costs more than it gains.
//!
//! A thread that yields beside a busy loop gets its core back a slice later, some milliseconds,
//! whatever its peer does meanwhile; one that sleeps is put in front when it is woken. So each
//! thread keeps an account of what looking has saved and what late returns have cost. When it is
//! overdrawn the whole process sleeps at once for a multiple of the loss; then one thread tries a
//! few waits, and the pause grows if they are late again: at most one part in 128 is lost to that.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A return that late is somebody else's slice, or a peer's long work.
pub const LATE_NS: u64 = 1_000_000;
/// What a look that finds saves at least, a sleep and a wake-up, and at most.
const SAVED_MIN_NS: u64 = 10_000;
const SAVED_MAX_NS: u64 = 500_000;
/// Sleeps that are longer excuse nothing: beside loops the peer's own late returns make them so.
const ASLEEP_MAX_NS: u64 = 1_000_000;
/// What a thread has from the start: its first waits come while everything else starts too.
const ACCOUNT_START: i64 = 4_000_000;
/// An account holds this much, so that a neighbour who begins is noticed after a slice or two.
const ACCOUNT_MAX: i64 = 8_000_000;
/// Pause after a loss, as its multiple, at first and at most.
const TIMES_MIN: u32 = 4;
const TIMES_MAX: u32 = 128;
/// No pause is longer.
const PAUSE_MAX_NS: u64 = 2_000_000_000;
/// Waits that must be in time before everybody looks again.
const TRIALS: u32 = 8;
/// For this long the others leave a trial to the thread that began it.
const TRIAL_NS: u64 = 20_000_000;

/// Savings and losses of one thread, in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Account(i64);

impl Account {
    /// Of a thread that has not waited yet.
    pub const fn new() -> Self {
        Self(ACCOUNT_START)
    }

    /// After a look that found what was waited for, and took `passed_ns` where short sleeps last
    /// `asleep_ns`.
    #[inline]
    pub fn save(self, passed_ns: u64, asleep_ns: u64) -> Self {
        let saved = asleep_ns.saturating_sub(passed_ns).clamp(SAVED_MIN_NS, SAVED_MAX_NS);
        Self((self.0 + saved as i64).min(ACCOUNT_MAX))
    }

    /// After one during which this thread had lost the core for `late_ns`, where its short sleeps
    /// last `asleep_ns`: the loss if that overdraws the account, which then begins anew.
    pub fn lose(self, late_ns: u64, asleep_ns: u64) -> (Option<u64>, Self) {
        let loss = late_ns.saturating_sub(asleep_ns.min(ASLEEP_MAX_NS) * 2);
        if late_ns < LATE_NS || loss == 0 {
            return (None, self);
        }
        match self.0 - loss.min(i64::MAX as u64 / 2) as i64 {
            left if left < 0 => (Some(loss), Self(0)),
            left => (None, Self(left)),
        }
    }
}

/// What a wait that begins may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// Nobody else wants the cores.
    Look,
    /// Look, and tell how it ended: the others wait for that.
    Try,
    /// Sleep at once.
    Sleep,
}

/// One process's judgement of its neighbours. Threads that change it at once may lose a step.
pub struct Contention {
    /// Monotonic time at which the pause ends; 0 when there is none.
    until_ns: AtomicU64,
    /// Length of the next pause, in losses.
    times: AtomicU32,
    /// Waits in a row that a trial had in time.
    in_time: AtomicU32,
}

impl Contention {
    /// Nobody is known yet.
    pub const fn new() -> Self {
        let times = AtomicU32::new(TIMES_MIN);
        Self { until_ns: AtomicU64::new(0), times, in_time: AtomicU32::new(0) }
    }

    /// Asked before a wait; `now` is only asked for while there is a pause.
    #[inline]
    pub fn begin(&self, now: impl FnOnce() -> u64) -> Leave {
        match self.until_ns.load(Relaxed) {
            0 => Leave::Look,
            until => self.begin_in_pause(until, now()),
        }
    }

    #[cold]
    fn begin_in_pause(&self, until: u64, now: u64) -> Leave {
        let next = now + TRIAL_NS;
        if now < until || self.until_ns.compare_exchange(until, next, Relaxed, Relaxed).is_err() {
            return Leave::Sleep;
        }
        Leave::Try
    }

    /// An account was overdrawn. Threads that lost the same slices say so all at once.
    #[cold]
    pub fn lose(&self, loss_ns: u64, now: u64, leave: Leave) {
        if leave == Leave::Look && self.until_ns.load(Relaxed) > now {
            return;
        }
        let times = self.times.load(Relaxed);
        self.times.store((times * 2).min(TIMES_MAX), Relaxed);
        self.in_time.store(0, Relaxed);
        let pause = loss_ns.saturating_mul(u64::from(times)).min(PAUSE_MAX_NS);
        self.until_ns.store(now + pause, Relaxed);
    }

    /// A trial was in time. After some of them everybody looks again, and if that lasts the next
    /// pause is a short one.
    #[cold]
    pub fn was_in_time(&self, now: u64) {
        let count = self.in_time.fetch_add(1, Relaxed) + 1;
        self.until_ns.store(if count < TRIALS { now } else { 0 }, Relaxed);
    }

    /// The account of a thread is full: this has paid for long.
    #[cold]
    pub fn has_paid(&self) {
        if self.times.load(Relaxed) != TIMES_MIN {
            self.times.store(TIMES_MIN, Relaxed);
        }
    }
}

impl Account {
    /// True when nothing more can be saved.
    #[inline]
    pub fn is_full(self) -> bool {
        self.0 >= ACCOUNT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: u64 = 4_000_000;

    /// Waits, one after another, of which each that looks is late by `late_ns` and each that
    /// sleeps lasts `asleep_ns`: time that passed, and how many looked.
    fn waits(contention: &Contention, late_ns: u64, asleep_ns: u64, for_ns: u64) -> (u64, u64) {
        let mut account = Account::new();
        let (mut now, mut looked, mut all) = (1, 0, 0);
        while now < for_ns {
            all += 1;
            if contention.begin(|| now) == Leave::Sleep {
                now += asleep_ns;
                continue;
            }
            looked += 1;
            now += late_ns;
            let (loss, left) = account.lose(late_ns, asleep_ns);
            account = left;
            if let Some(loss) = loss {
                contention.lose(loss, now, Leave::Try);
            }
        }
        (all, looked)
    }

    #[test]
    fn beside_busy_loops_hardly_any_wait_looks() {
        let (all, looked) = waits(&Contention::new(), SLICE, 100_000, 10_000_000_000);
        assert!(looked * 100 < all, "{looked} of {all}");
        assert!(looked * SLICE < 1_000_000_000, "{looked} slices lost in 10 s");
    }

    #[test]
    fn a_peer_that_works_for_long_is_no_neighbour() {
        let (all, looked) = waits(&Contention::new(), 1_500_000, 1_000_000, 3_000_000_000);
        assert_eq!(looked, all);
    }

    #[test]
    fn a_rare_slice_is_paid_from_what_was_saved() {
        let mut account = Account::new();
        for _ in 0..50 {
            account = (0..1_000).fold(account, |account, _| account.save(1_000, 0));
            let (loss, left) = account.lose(SLICE, 20_000);
            assert_eq!(loss, None);
            account = left;
        }
    }

    #[test]
    fn a_neighbour_is_noticed_by_two_that_make_each_other_late() {
        let (all, looked) = waits(&Contention::new(), 3 * SLICE, 3 * SLICE, 10_000_000_000);
        assert!(looked * 5 < all, "{looked} of {all}");
    }

    #[test]
    fn slices_in_a_row_overdraw_a_full_account() {
        let mut account = (0..10_000).fold(Account::new(), |account, _| account.save(1_000, 0));
        assert!(account.is_full());
        let overdrawn = (0..3).any(|_| {
            let (loss, left) = account.lose(SLICE, 20_000);
            account = left;
            loss.is_some()
        });
        assert!(overdrawn);
    }

    #[test]
    fn of_many_threads_one_tries_when_the_pause_is_over() {
        let contention = Contention::new();
        contention.lose(SLICE, 1, Leave::Look);
        let after = 1 + SLICE * u64::from(TIMES_MIN);
        assert_eq!(contention.begin(|| after - 1), Leave::Sleep);
        assert_eq!(contention.begin(|| after), Leave::Try);
        assert_eq!(contention.begin(|| after + 1), Leave::Sleep);
        assert_eq!(contention.begin(|| after + TRIAL_NS), Leave::Try);
    }

    #[test]
    fn threads_that_lost_the_same_slices_make_one_pause() {
        let contention = Contention::new();
        (0..64).for_each(|thread| contention.lose(SLICE, 1 + thread, Leave::Look));
        let after = 1 + SLICE * u64::from(TIMES_MIN);
        assert_eq!(contention.begin(|| after), Leave::Try);
    }

    #[test]
    fn trials_in_time_end_the_pause() {
        let contention = Contention::new();
        contention.lose(SLICE, 1, Leave::Look);
        let after = 1 + SLICE * u64::from(TIMES_MIN);
        for turn in 0..u64::from(TRIALS) {
            assert_eq!(contention.begin(|| after + turn), Leave::Try);
            contention.was_in_time(after + turn);
        }
        assert_eq!(contention.begin(|| unreachable!()), Leave::Look);
    }

    #[test]
    fn pauses_grow_while_trials_are_late_and_are_short_again_when_it_has_paid() {
        let contention = Contention::new();
        let pause = || {
            contention.lose(1_000, 0, Leave::Try);
            contention.until_ns.load(Relaxed)
        };
        assert_eq!([pause(), pause(), pause()], [4_000, 8_000, 16_000]);
        (0..10).for_each(|_| contention.lose(1_000, 0, Leave::Try));
        assert_eq!(pause(), 1_000 * u64::from(TIMES_MAX));
        contention.has_paid();
        assert_eq!(pause(), 4_000);
    }
}

//! The one policy of waiting: look for a short while, or sleep in the kernel at once.
//!
//! A peer on another core answers a look within a microsecond where waking it takes 20; a peer on
//! this core answers as soon as it is given the core, for a tenth of what a sleep and a wake-up
//! take. Both are lost where the wait is long anyway, and turn against the program where somebody
//! else wants the core: a yield then costs a slice, and a thread that never sleeps is never put in
//! front by a wake-up. So before each wait two judgements are asked:
//!
//! - `habit`: of the connection or epoll set, whether its waits end soon enough;
//! - `contention`: of the process, whether its cores are its own.
//!
//! A look makes no system call but sched_yield; what it costs is told by the clock alone.

mod contention;
mod habit;

use std::cell::Cell;

use heliostat_base::{clock, spin};

pub use habit::HabitCell;

use crate::thread;
use contention::{Account, Contention, Leave, LATE_NS};
use habit::{Habit, Look, WAKE_NS};

/// Time that may be burned before sleeping; longer than waking a thread of another core takes,
/// since otherwise two peers that slept once keep each other sleeping.
const BUDGET_NS: u64 = 50_000;
/// A peer on another core is looked for without a pause for this long (1 to 2 us).
const EAGER_CYCLES: u64 = 4_000;
/// What an eager look that finds is taken to have burned.
const EAGER_NS: u64 = 1_000;
/// An eager look that took longer had lost its core.
const EAGER_LATE_CYCLES: u64 = 1_000_000;
/// Looks between two yields, for a peer on another core.
const LOOKS_PER_YIELD: u32 = 8;
/// A yield that took longer let somebody else work, and burned no more than this.
const YIELD_NS: u64 = 1_500;
/// Looks between two yields that took longer had lost the core.
const LOOKS_NS: u64 = 20_000;
/// However little was burned, nobody yields for longer.
const PASSED_MAX_NS: u64 = 5_000_000;

static CONTENTION: Contention = Contention::new();

thread_local! {
    static ACCOUNT: Cell<Account> = const { Cell::new(Account::new()) };
    static RANG: Cell<bool> = const { Cell::new(false) };
    static SLEPT_AT: Cell<u64> = const { Cell::new(0) };
    static OF_POLL: HabitCell = const { HabitCell::new() };
}

/// Notes that this thread has rung for a peer, which therefore has to wake up first.
pub fn rang() {
    RANG.with(|rang| rang.set(true));
}

/// This thread is about to sleep in the kernel for what it has waited for; the time (monotonic ns).
pub fn sleeps() -> u64 {
    let now = clock::monotonic_ns();
    SLEPT_AT.with(|at| at.set(now));
    now
}

/// It woke.
pub fn woke(habit: &HabitCell) {
    let began = SLEPT_AT.with(|at| at.replace(0));
    if began != 0 {
        habit.store(habit.load().slept(clock::monotonic_ns().saturating_sub(began)));
    }
}

/// `look` for this thread's calls of poll and select, whose descriptors may differ every time.
pub fn look_for_poll(ready: impl FnMut() -> bool, give_up: impl FnMut() -> bool) -> bool {
    OF_POLL.with(|habit| look(habit, ready, give_up))
}

/// `woke` for those.
pub fn woke_in_poll() {
    OF_POLL.with(woke);
}

/// Looks until `ready`, for as long as that may pay; true when ready, false when it is time to
/// sleep. `give_up` is asked between turns (signals).
#[inline]
pub fn look(
    habit: &HabitCell,
    mut ready: impl FnMut() -> bool,
    give_up: impl FnMut() -> bool,
) -> bool {
    let rang = RANG.with(|rang| rang.replace(false));
    let leave = CONTENTION.begin(clock::monotonic_ns);
    if leave == Leave::Sleep {
        return false;
    }
    let (looks, known) = habit.load().begin();
    if !looks {
        habit.store(known);
        return false;
    }
    let mut spent = Spent { burned_ns: 0, passed_ns: 0, late_ns: 0 };
    let is_near = thread::peer_is_near();
    let found_at_once = !is_near && spent.look_eagerly(&mut ready);
    if found_at_once && spent.late_ns == 0 && leave == Leave::Look && nothing_to_learn(known) {
        return true;
    }
    let found = if found_at_once {
        thread::note_peer(false);
        true
    } else {
        let budget_ns = BUDGET_NS + if rang { WAKE_NS } else { 0 };
        spent.look_and_yield(&mut ready, give_up, budget_ns, is_near)
    };
    habit.store(known.learn(Look { burned_ns: spent.burned_ns, found, rang }));
    settle(leave, &spent, found, known.asleep_ns());
    found
}

/// True where one more look that finds at once changes neither the habit nor the account: that is
/// each wait between two cores that do nothing else, and it writes no word.
#[inline]
fn nothing_to_learn(known: Habit) -> bool {
    known.is_at_best() && ACCOUNT.with(Cell::get).is_full()
}

/// Books what a look saved or lost.
#[inline]
fn settle(leave: Leave, spent: &Spent, found: bool, asleep_ns: u64) {
    let mut account = ACCOUNT.with(Cell::get);
    if found {
        account = account.save(spent.passed_ns, asleep_ns);
    }
    let mut loss = None;
    if spent.late_ns >= LATE_NS {
        (loss, account) = account.lose(spent.late_ns, asleep_ns);
    }
    ACCOUNT.with(|cell| cell.set(account));
    if let Some(loss) = loss {
        CONTENTION.lose(loss, clock::monotonic_ns(), leave);
    } else if leave == Leave::Try {
        CONTENTION.was_in_time(clock::monotonic_ns());
    } else if account.is_full() {
        CONTENTION.has_paid();
    }
}

/// What one look costs.
struct Spent {
    /// Time for which this thread kept its core and found nothing.
    burned_ns: u64,
    /// All of its time, but for the first eager look.
    passed_ns: u64,
    /// The longest time for which it had lost the core.
    late_ns: u64,
}

impl Spent {
    /// A peer on another core answers within a microsecond, and looking is all there is to do; a
    /// peer on this core answers only once it has been given the core. Which of both it is this
    /// thread learns from how its last waits ended.
    #[inline]
    fn look_eagerly(&mut self, ready: &mut impl FnMut() -> bool) -> bool {
        let began = clock::cycles();
        let mut passed = 0;
        let mut found = false;
        while passed < EAGER_CYCLES && !found {
            found = ready();
            passed = clock::cycles().wrapping_sub(began);
        }
        self.burned_ns = EAGER_NS;
        if passed > EAGER_LATE_CYCLES {
            // No processor of the last years counts much slower or faster than 2.5 to the ns.
            self.late_ns = passed * 2 / 5;
        }
        found
    }

    fn look_and_yield(
        &mut self,
        ready: &mut impl FnMut() -> bool,
        mut give_up: impl FnMut() -> bool,
        budget_ns: u64,
        is_near: bool,
    ) -> bool {
        let mut before = clock::monotonic_ns();
        loop {
            spin::yield_now();
            let now = clock::monotonic_ns();
            let has_worked = self.passed(now - before, YIELD_NS);
            if ready() {
                thread::note_peer(has_worked);
                return true;
            }
            if self.burned_ns > budget_ns || self.passed_ns > PASSED_MAX_NS || give_up() {
                return false;
            }
            for _ in 0..if is_near { 0 } else { LOOKS_PER_YIELD } {
                spin::pause();
                if ready() {
                    thread::note_peer(false);
                    return true;
                }
            }
            before = clock::monotonic_ns();
            self.passed(before - now, LOOKS_NS);
        }
    }

    /// Notes that `ns` passed; true when that is more than `limit_ns`, so that somebody else had
    /// the core meanwhile.
    fn passed(&mut self, ns: u64, limit_ns: u64) -> bool {
        self.burned_ns += ns.min(limit_ns);
        self.passed_ns += ns;
        if ns > limit_ns {
            self.late_ns = self.late_ns.max(ns);
        }
        ns > limit_ns
    }
}

//! When measuring may begin: there is a core for an executor, and the program has run for long enough.
//!
//! ```text
//! kept      the program's threads may not run on the kernel cores: nobody else works there, and what an
//!           executor does costs nobody
//! shared    they may: fewer threads run on the machine now than the program has cores, and what an
//!           executor does is a cost, for as long as its thread waits
//! ```
//! All groups together measure for a fiftieth of the time at most.

use heliostat_base::affinity;
use heliostat_base::clock::cycles;
use heliostat_base::load;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_base::sync::{AtomicBool, AtomicU64};

use super::rule::Outcome;
use super::Program;

/// A program is young for so long, some 20 ms: what measuring costs would be seen, and what being looked
/// at costs each call.
const YOUNG_CYCLES: u64 = 40_000_000;
/// So many times as long as measuring took no other begins.
const REST_TIMES: u64 = 50;
/// What a thread spends on an offloaded call before and after it asks: being caught, judged, counted.
const ENTER_CYCLES: u64 = 400;

/// The program is young.
static IS_YOUNG: AtomicBool = AtomicBool::new(false);
/// Measuring may begin from then on.
static NOT_BEFORE: AtomicU64 = AtomicU64::new(0);
/// Cycles of the measuring that is on, all groups together.
static SPENT: AtomicU64 = AtomicU64::new(0);
/// The kernel cores are the program's as well.
static IS_SHARED: AtomicBool = AtomicBool::new(true);
/// An executor runs on another core than its own.
static IS_DISPLACED: AtomicBool = AtomicBool::new(false);

/// What there is to make calls elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spare {
    /// It is too early to ask.
    Later,
    /// All cores are busy.
    None,
    /// A core.
    Core,
}

/// The program, or a child of its fork, begins.
pub fn begin() {
    NOT_BEFORE.store(cycles().saturating_add(YOUNG_CYCLES), Relaxed);
    IS_YOUNG.store(true, Relaxed);
}

/// Whether the program is young, as last asked: none of its calls is looked at then.
#[inline(always)]
pub fn is_young() -> bool {
    IS_YOUNG.load(Relaxed)
}

/// Looks whether it is still young.
pub fn stays_young() -> bool {
    let is_young = is_young() && cycles() < NOT_BEFORE.load(Relaxed);
    IS_YOUNG.store(is_young, Relaxed);
    is_young
}

/// Whether there is a core for executors; `is_at_work` says whether they make calls already.
#[cold]
pub fn look(program: &Program, is_at_work: bool) -> Spare {
    let began = cycles();
    if !is_at_work && began < NOT_BEFORE.load(Relaxed) {
        return Spare::Later;
    }
    let executors = if is_at_work { program.cores.len() } else { 0 };
    let found = spare(program, executors);
    SPENT.fetch_add(cycles().saturating_sub(began), Relaxed);
    if found == Spare::None {
        end();
    }
    found
}

fn spare(program: &Program, executors: usize) -> Spare {
    let Ok(allowed) = affinity::allowed(0) else { return Spare::None };
    let is_mine = program.cores.iter().any(|core| allowed.contains(*core));
    let is_shared = is_mine || IS_DISPLACED.load(Relaxed);
    IS_SHARED.store(is_shared, Relaxed);
    match is_shared {
        false => Spare::Core,
        true => of_running(load::running(), executors, allowed.count()),
    }
}

/// By how many threads run now, so many of them executors, the asking one among them.
fn of_running(running: Option<usize>, executors: usize, cores: usize) -> Spare {
    match running.map(|running| running.saturating_sub(executors).max(1)) {
        Some(running) if running < cores => Spare::Core,
        _ => Spare::None,
    }
}

/// An executor has found that it may not run on its core.
pub fn displaced() {
    IS_DISPLACED.store(true, Relaxed);
    IS_SHARED.store(true, Relaxed);
}

/// What an offloaded call costs for which its thread waited so long.
#[inline]
pub fn cost(waited: u64) -> Outcome {
    Outcome::Made(cost_of(waited, IS_SHARED.load(Relaxed)))
}

/// The same in cycles, where the kernel cores are the program's as well or are not: an executor looks or
/// works for as long as a thread waits for it.
const fn cost_of(waited: u64, is_shared: bool) -> u64 {
    let cores = if is_shared { 2 } else { 1 };
    waited.saturating_add(ENTER_CYCLES).saturating_mul(cores)
}

/// Measuring has taken so long.
pub fn spend(spent: u64) {
    SPENT.fetch_add(spent, Relaxed);
}

/// Measuring a group has come to its end.
pub fn end() {
    let rest = SPENT.swap(0, Relaxed).saturating_mul(REST_TIMES);
    NOT_BEFORE.fetch_max(cycles().saturating_add(rest), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What tests write is the process's.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn a_core_is_spare_where_fewer_run_than_there_are_cores() {
        assert_eq!(of_running(Some(1), 0, 2), Spare::Core);
        assert_eq!(of_running(Some(2), 0, 2), Spare::None, "both are busy");
        assert_eq!(of_running(Some(2), 1, 2), Spare::Core, "one of them is an executor");
        assert_eq!(of_running(Some(1), 1, 1), Spare::None, "there is one core");
        assert_eq!(of_running(None, 0, 64), Spare::None, "nobody knows");
    }

    #[test]
    fn an_executor_on_a_shared_core_costs_as_much_as_its_thread() {
        assert_eq!(cost_of(1000, false), 1000 + ENTER_CYCLES);
        assert_eq!(cost_of(1000, true), 2 * (1000 + ENTER_CYCLES));
        assert_eq!(cost_of(u64::MAX - 1, true), u64::MAX);
    }

    #[test]
    fn a_program_that_has_begun_is_young_until_it_may_be_measured() {
        let _turn = TURN.lock().unwrap();
        NOT_BEFORE.store(u64::MAX, Relaxed);
        IS_YOUNG.store(true, Relaxed);
        assert!(stays_young() && is_young());
        NOT_BEFORE.store(0, Relaxed);
        assert!(!stays_young() && !is_young());
        begin();
        assert!(is_young() && NOT_BEFORE.load(Relaxed) > YOUNG_CYCLES);
    }

    #[test]
    fn what_measuring_took_is_made_up_for_before_the_next_one() {
        let _turn = TURN.lock().unwrap();
        let before = cycles();
        spend(1 << 40);
        end();
        assert!(NOT_BEFORE.load(Relaxed) >= before + (REST_TIMES << 40));
    }
}

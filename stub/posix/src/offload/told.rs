//! What the control plane is told of offload: counts by group and reason, and what was measured.
//!
//! Counted by each thread for itself, and told now and then: a call costs two thread-local words.

use std::cell::Cell;
use std::sync::OnceLock;

use heliostat_abi::code::Unoffloaded;
use heliostat_abi::offload::Group;
use heliostat_abi::session::report::OffloadCount;
use heliostat_base::clock::{cycles, CycleRate, Moment};
use heliostat_base::sync::AtomicI32;
use heliostat_base::sync::Ordering::Relaxed;
use heliostat_client::session;

use super::rule::RULES;
use super::{gates, program, spare, Program};
use crate::thread::{self, Critical};
use crate::{owner, report};

const GROUPS: usize = Group::ALL.len();
const REASONS: usize = Unoffloaded::ALL.len();
/// Calls of one thread between two tellings; then it also looks whether to measure anew.
const TELL_EVERY: u32 = 256;
/// The same of calls that are not looked at, since their gates are shut.
const PASS_EVERY: u32 = 4096;
/// The same while the program is young: then its gates are shut, and may open soon.
const PASS_EVERY_YOUNG: u32 = 64;

/// When offload began: by what has passed since, cycles become nanoseconds without waiting for a clock.
static BEGAN: OnceLock<Moment> = OnceLock::new();

/// Offload begins.
pub fn begin() {
    BEGAN.get_or_init(Moment::now);
}

thread_local! {
    static COUNTS: Counts = const { Counts::new() };
}

struct Counts {
    calls: Cell<u32>,
    by_group: [Cell<[u32; 2]>; GROUPS],
    by_reason: [Cell<u32>; REASONS],
}

impl Counts {
    const fn new() -> Counts {
        Counts {
            calls: Cell::new(0),
            by_group: [const { Cell::new([0; 2]) }; GROUPS],
            by_reason: [const { Cell::new(0) }; REASONS],
        }
    }
}

/// Counts a call, by what became of it.
#[inline]
pub fn count(group: Group, why: Unoffloaded) {
    COUNTS.with(|counts| {
        let of_group = &counts.by_group[group as usize];
        let [mut offloaded, mut plain] = of_group.get();
        match why {
            Unoffloaded::None => offloaded += 1,
            _ => plain += 1,
        }
        of_group.set([offloaded, plain]);
        let place = place_of(why);
        counts.by_reason[place].set(counts.by_reason[place].get() + 1);
        pass_one(counts, PASS_EVERY / TELL_EVERY);
    });
}

/// A call went by that is caught anyway, and is of a group whose gate is shut.
#[inline]
pub fn pass() {
    COUNTS.with(|counts| pass_one(counts, 1));
}

#[inline]
fn pass_one(counts: &Counts, weight: u32) {
    counts.calls.set(counts.calls.get() + weight);
    let every = if spare::is_young() { PASS_EVERY_YOUNG } else { PASS_EVERY };
    if counts.calls.get() >= every {
        tell(counts);
    }
}

/// The place of a reason in their order.
const fn place_of(why: Unoffloaded) -> usize {
    match why {
        Unoffloaded::None => 0,
        why => why as usize - Unoffloaded::Dearer as usize + 1,
    }
}

#[cold]
fn tell(counts: &Counts) {
    if thread::is_in_handler() {
        // It may have interrupted malloc, and a greeting allocates: the next call tells.
        return;
    }
    counts.calls.set(0);
    if spare::stays_young() {
        return;
    }
    let is_always = program().is_some_and(|program| program.request.is_always());
    if is_always || RULES.iter().any(|rule| rule.is_judged()) {
        tell_counts(counts);
    }
    program().into_iter().for_each(look_again);
    gates::set();
}

/// Asked now and then: begins to measure anew where it is time.
fn look_again(program: &Program) {
    let now = cycles();
    for (rule, group) in RULES.iter().zip(Group::ALL) {
        if rule.look_again(now, |is_at_work| spare::look(program, is_at_work)) {
            spare::end();
            judged(group);
        }
    }
}

/// Before anything is judged there is nothing to tell, and a short program greets nobody.
fn tell_counts(counts: &Counts) {
    be_known();
    for group in Group::ALL {
        let [offloaded, plain] = counts.by_group[group as usize].replace([0; 2]);
        report::count_offloaded(group, OffloadCount::Offloaded, u64::from(offloaded));
        report::count_offloaded(group, OffloadCount::Plain, u64::from(plain));
    }
    for (place, why) in Unoffloaded::ALL.iter().enumerate() {
        report::count_unoffloaded(*why, u64::from(counts.by_reason[place].replace(0)));
    }
}

/// The calling thread has counted nothing: it is the one of a child of a fork.
pub fn forget() {
    COUNTS.with(|counts| {
        counts.calls.set(0);
        counts.by_group.iter().for_each(|cell| cell.set([0; 2]));
        counts.by_reason.iter().for_each(|cell| cell.set(0));
    });
}

/// The process for which a session was begun, so that somebody can be told.
static KNOWN: AtomicI32 = AtomicI32::new(0);

fn be_known() {
    if KNOWN.swap(owner::pid(), Relaxed) != owner::pid() {
        let _critical = Critical::enter();
        session::be_known();
        RULES
            .iter()
            .zip(Group::ALL)
            .filter(|(rule, _)| rule.is_judged())
            .for_each(|(_, it)| judged(it));
    }
}

/// Tells what was measured of a group.
#[cold]
pub fn judged(group: Group) {
    let rate = CycleRate::since(*BEGAN.get_or_init(Moment::now));
    let [plain, offloaded] = RULES[group as usize].costs().map(|it| rate.to_ns(it) as u64);
    report::tell_offload_cost(group, OffloadCount::PlainNs, plain);
    report::tell_offload_cost(group, OffloadCount::OffloadedNs, offloaded);
}

/// Tells the calling thread's last counts, before the process ends; who has told nothing yet was short.
pub fn before_exit() {
    if KNOWN.load(Relaxed) == owner::pid() {
        COUNTS.with(tell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_the_place_of_its_order() {
        for (place, why) in Unoffloaded::ALL.iter().enumerate() {
            assert_eq!(place_of(*why), place, "{why:?}");
        }
    }
}

//! Decisions with measurements that are fed: no test here has a clock.

use super::bout::{GIVEN, PAIRS};
use super::*;

const STAT: u32 = 4;
const CLOSE: u32 = 3;
const THREAD: u32 = 100;

/// A group whose first calls have been made, and whose proof begins with the next one.
fn warm() -> Rule {
    let rule = Rule::new();
    assert_eq!((0..WARM_CALLS).filter(|_| rule.warms()).count(), WARM_CALLS as usize - 1);
    assert_eq!(rule.way(STAT, THREAD, 0, |_| Spare::Core), Way::Plain);
    rule
}

/// Costs of samples: plain, offloaded.
type Costs<'a> = &'a dyn Fn(bool) -> Outcome;

const fn both(plain: u64, offloaded: u64) -> impl Fn(bool) -> Outcome {
    move |is_offloaded| Outcome::Made(if is_offloaded { offloaded } else { plain })
}

/// Takes samples of `call` until the group is judged, `limit` at most; says how many there were.
fn prove(rule: &Rule, call: u32, costs: Costs<'_>, limit: u32) -> u32 {
    for count in 1..=limit {
        let Way::Sampled(sample) = rule.way(call, THREAD, 7, |_| Spare::Core) else {
            panic!("a sample is to be taken")
        };
        if rule.sampled(sample, costs(sample.is_offloaded()), 10) {
            return count;
        }
    }
    limit
}

fn way(rule: &Rule) -> Way {
    rule.way(STAT, THREAD, 10, |_| Spare::Core)
}

/// A group whose calls go to executors.
fn proven() -> Rule {
    let rule = warm();
    assert_eq!(prove(&rule, STAT, &both(1000, 700), 1000), BOUTS * GIVEN);
    assert_eq!(way(&rule), Way::Offloaded);
    rule
}

#[test]
fn calls_go_elsewhere_when_that_is_proven_in_every_bout() {
    let rule = proven();
    assert_eq!(rule.costs(), [1000, 700]);
}

#[test]
fn the_first_lost_bout_ends_the_proof_and_a_small_gain_is_none() {
    for offloaded in [960, 1500, 100_000] {
        let rule = warm();
        assert_eq!(prove(&rule, STAT, &both(1000, offloaded), 1000), GIVEN);
        assert_eq!((way(&rule), rule.costs()), (Way::Plain, [1000, offloaded]));
    }
}

#[test]
fn one_lost_bout_after_won_ones_is_lost() {
    let rule = warm();
    assert_eq!(prove(&rule, STAT, &both(1000, 700), 4 * GIVEN), 4 * GIVEN);
    assert_eq!(prove(&rule, STAT, &both(1000, 960), 1000), GIVEN);
    assert_eq!(way(&rule), Way::Plain);
}

#[test]
fn where_no_core_is_spare_nothing_is_sampled() {
    let rule = Rule::new();
    (0..WARM_CALLS).for_each(|_| _ = rule.warms());
    assert_eq!(rule.way(STAT, THREAD, 5, |_| Spare::None), Way::Plain);
    assert!(rule.is_plain());
    rule.look_again(5 + REST_CYCLES_MIN, |_| Spare::None);
    assert!(rule.is_plain());
    rule.look_again(5 + 2 * REST_CYCLES_MIN, |_| Spare::Core);
    assert!(matches!(way(&rule), Way::Sampled(_)), "a core has become free");
}

#[test]
fn a_program_that_is_young_goes_on_warming() {
    let rule = Rule::new();
    for _ in 0..3 {
        (0..WARM_CALLS).for_each(|_| _ = rule.warms());
        assert_eq!(rule.way(STAT, THREAD, 5, |_| Spare::Later), Way::Plain);
        assert!(!rule.is_judged() && rule.warms());
        rule.calls.store(0, Relaxed);
    }
}

/// Opens that cost much and closes that cost little, in turn: by turns alone one way would have all the
/// opens, the other all the closes.
#[test]
fn a_program_whose_calls_repeat_does_not_have_one_way_measured_by_the_dear_ones() {
    let rule = warm();
    let mut samples = [0; 2];
    for turn in 0..100 {
        let (call, plain, offloaded) = [(STAT, 1400, 2400), (CLOSE, 140, 1200)][turn % 2];
        let Way::Sampled(sample) = rule.way(call, THREAD, 7, |_| Spare::Core) else { continue };
        samples[turn % 2] += 1;
        let costs = both(plain, offloaded);
        if rule.sampled(sample, costs(sample.is_offloaded()), 10) {
            break;
        }
    }
    assert_eq!((samples, way(&rule)), ([GIVEN, 0], Way::Plain));
    assert_eq!(rule.costs(), [1400, 2400]);
}

#[test]
fn the_order_within_pairs_is_no_programs_rhythm() {
    let rule = warm();
    let mut first = Vec::new();
    for turn in 0..GIVEN {
        let Way::Sampled(sample) = way(&rule) else { panic!("a sample") };
        rule.sampled(sample, Outcome::Made(1), 10);
        if turn % 2 == 1 {
            first.push(sample.is_offloaded());
        }
    }
    assert_eq!(first.len(), PAIRS);
    assert!(first.contains(&true) && first.contains(&false), "{first:?}");
}

#[test]
fn single_plain_calls_that_took_long_prove_nothing() {
    let rule = warm();
    let turns = std::cell::Cell::new(0);
    let noisy = |is_offloaded: bool| {
        turns.set(turns.get() + 1);
        let is_disturbed = !is_offloaded && turns.get() % 3 == 0;
        Outcome::Made(if is_disturbed { 90_000 } else { 1000 })
    };
    prove(&rule, STAT, &noisy, GIVEN);
    assert_eq!(way(&rule), Way::Plain);
}

#[test]
fn an_executor_that_comes_late_once_while_it_is_proven_ends_the_proof() {
    let rule = warm();
    let late = |is_offloaded: bool| match is_offloaded {
        true => Outcome::Late,
        false => Outcome::Made(1000),
    };
    assert_eq!(prove(&rule, STAT, &late, 1000), 1, "the rouse");
    assert_eq!(way(&rule), Way::Plain);
}

#[test]
fn calls_that_are_asked_for_in_vain_are_dear_and_plain_ones_that_wait_are_no_measure() {
    for is_offloaded_vain in [true, false] {
        let rule = warm();
        let vain = |is_offloaded: bool| match is_offloaded == is_offloaded_vain {
            true => Outcome::Vain,
            false => Outcome::Made(1),
        };
        assert_eq!(prove(&rule, STAT, &vain, 1000), GIVEN);
        assert_eq!(way(&rule), Way::Plain);
    }
}

#[test]
fn it_is_proven_again_after_longer_and_longer_terms_and_a_lost_bout_ends_it() {
    let rule = proven();
    let mut term = TERM_MIN;
    for _ in 0..6 {
        let calls = rule.calls.load(Relaxed);
        (calls..term).for_each(|_| assert_eq!(way(&rule), Way::Offloaded));
        assert_eq!(prove(&rule, CLOSE, &both(1000, 700), 1000), GIVEN);
        term = (term * 2).min(TERM_MAX);
    }
    (0..term).for_each(|_| assert_eq!(way(&rule), Way::Offloaded));
    assert_eq!(prove(&rule, CLOSE, &both(1000, 1000), 1000), GIVEN);
    assert_eq!(way(&rule), Way::Plain);
}

#[test]
fn a_core_that_is_spare_no_more_ends_it_with_the_term() {
    let rule = proven();
    (1..TERM_MIN).for_each(|_| _ = rule.way(STAT, THREAD, 10, |_| Spare::None));
    assert_eq!(way(&rule), Way::Plain);
}

#[test]
fn calls_that_have_become_dear_are_looked_into_before_the_term_is_over() {
    let rule = proven();
    for _ in 0..3 {
        (1..DEAR_MAX).for_each(|_| _ = rule.offloaded(Outcome::Made(1001), 10));
        rule.offloaded(Outcome::Made(1000), 10);
    }
    assert_eq!(way(&rule), Way::Offloaded, "now and then a dear one");
    (0..DEAR_MAX).for_each(|_| _ = rule.offloaded(Outcome::Made(1001), 10));
    assert_eq!(prove(&rule, STAT, &both(1000, 1001), 1000), GIVEN);
    assert_eq!(way(&rule), Way::Plain);
}

#[test]
fn an_executor_whose_core_is_taken_is_not_asked_any_more() {
    let rule = proven();
    assert!((1..LATES_MAX).all(|_| !rule.offloaded(Outcome::Late, 10)));
    assert_eq!(way(&rule), Way::Offloaded);
    assert!(rule.offloaded(Outcome::Late, 10));
    assert_eq!(way(&rule), Way::Plain);
}

#[test]
fn a_judgement_is_tried_again_and_more_and_more_seldom() {
    let rule = warm();
    let mut now = 10;
    for rest in [1, 2, 4, 8, 16, 32, 32].map(|times| times * REST_CYCLES_MIN) {
        loop {
            let Way::Sampled(sample) = rule.way(STAT, THREAD, now, |_| Spare::Core) else {
                panic!("{rest}")
            };
            if rule.sampled(sample, both(1000, 2000)(sample.is_offloaded()), now) {
                break;
            }
        }
        rule.look_again(now + rest - 1, |_| Spare::Core);
        assert_eq!(way(&rule), Way::Plain);
        now += rest;
        rule.look_again(now, |_| Spare::Core);
    }
}

#[test]
fn a_child_of_a_fork_begins_anew_but_keeps_what_was_judged_plain() {
    let rule = warm();
    let Way::Sampled(of_parent) = way(&rule) else { panic!("a sample") };
    rule.begin_anew();
    assert!(rule.warms() && !rule.sampled(of_parent, Outcome::Late, 1));
    let rule = proven();
    rule.begin_anew();
    assert!(rule.warms(), "its executor is not there");
    let rule = warm();
    prove(&rule, STAT, &both(1, 1), 1000);
    rule.begin_anew();
    assert!(rule.is_plain());
}

#[test]
fn samples_that_never_come_back_do_not_end_the_measuring() {
    let rule = warm();
    assert!(matches!(way(&rule), Way::Sampled(_)));
    assert_eq!(way(&rule), Way::Plain, "until the executor is awake");
    assert!(!rule.look_again(REST_CYCLES_MIN - 1, |_| Spare::Core));
    assert!(rule.look_again(REST_CYCLES_MIN, |_| Spare::Core));
    assert!(rule.is_plain());
}

#[test]
fn a_call_that_hardly_ever_comes_is_given_up_for_another() {
    let rule = warm();
    let Way::Sampled(rare) = rule.way(CLOSE, THREAD, 7, |_| Spare::Core) else {
        panic!("a sample")
    };
    rule.sampled(rare, Outcome::Made(1), 10);
    let passed = (0..1000).take_while(|_| way(&rule) == Way::Plain).count();
    assert_eq!(passed, 256);
    assert!(!rule.sampled(rare, Outcome::Late, 10), "of an earlier bout");
    assert!(!rule.is_plain());
}

#[test]
fn one_thread_is_compared_and_the_others_are_plain_meanwhile() {
    let rule = warm();
    assert!(matches!(way(&rule), Way::Sampled(_)));
    assert_eq!(rule.way(STAT, THREAD + 1, 7, |_| Spare::Core), Way::Plain);
}

use super::*;

const MS: u64 = 1_000_000;
const PART: u64 = 256 << 10;

/// Plays intervals: so many high calls at once, each of which takes so long, beside low ones that send
/// what they may, at most so many bytes in a millisecond.
fn play(
    backoff: &mut Backoff,
    now: &mut u64,
    ms: u64,
    (high, took_ns): (u64, u64),
    low: u64,
) -> u64 {
    let mut sent = 0;
    for _ in 0..ms {
        let mut left = low;
        (0..high).for_each(|_| backoff.high_began(*now));
        for part in 1..=20 {
            let at = *now + part * MS / 20;
            if left >= PART && backoff.admit_low(at).is_ok() {
                backoff.low_sent(at, PART);
                (left, sent) = (left - PART, sent + PART);
            }
        }
        *now += MS;
        (0..high).for_each(|_| backoff.high_ended(*now, Some(took_ns)));
    }
    sent
}

#[test]
fn nothing_is_held_back_where_nothing_is_high() {
    let (mut backoff, mut now) = (Backoff::new(0), MS);
    let sent = play(&mut backoff, &mut now, 1000, (0, 0), 4 * PART);
    assert_eq!((sent, backoff.state()), (4000 * PART, (None, Pace::Free)));
}

#[test]
fn few_high_calls_in_time_hold_nothing_back() {
    let (mut backoff, mut now) = (Backoff::new(0), MS);
    let sent = play(&mut backoff, &mut now, 1000, (1, 40_000), 4 * PART);
    assert_eq!((sent, backoff.slowed), (4000 * PART, 0));
}

#[test]
fn late_high_calls_slow_low_ones_down_to_the_least_and_no_further() {
    let (mut backoff, mut now) = (Backoff::new(100_000), MS);
    let first = play(&mut backoff, &mut now, 100, (1, 900_000), 4 * PART);
    let later = play(&mut backoff, &mut now, 10_000, (1, 900_000), 4 * PART);
    assert_eq!(backoff.state(), (Some(PER_SECOND_MIN), Pace::Late));
    assert!(first < 100 * PART, "{first}");
    assert!((9 << 20..=12 << 20).contains(&later), "a megabyte a second: {later}");
}

#[test]
fn what_was_slowed_becomes_faster_when_high_calls_are_in_time_again() {
    let (mut backoff, mut now) = (Backoff::new(100_000), MS);
    play(&mut backoff, &mut now, 200, (1, 900_000), 4 * PART);
    let before = backoff.state().0.expect("slowed");
    play(&mut backoff, &mut now, 100, (1, 50_000), 4 * PART);
    assert!(backoff.state().0.is_none_or(|rate| rate > before));
    play(&mut backoff, &mut now, 2000, (1, 50_000), 4 * PART);
    assert_eq!((backoff.state(), backoff.released), ((None, Pace::Free), 1));
}

#[test]
fn many_high_calls_leave_low_ones_half_and_a_pause_leaves_them_all() {
    let (mut backoff, mut now) = (Backoff::new(2 * MS), MS);
    let alone = play(&mut backoff, &mut now, 100, (0, 0), 4 * PART);
    play(&mut backoff, &mut now, 100, (4, 900_000), 4 * PART);
    assert_eq!(backoff.state().1, Pace::Loaded);
    let beside = play(&mut backoff, &mut now, 1000, (4, 900_000), 4 * PART) / 10;
    assert!(beside > alone * 2 / 5 && beside < alone * 3 / 5, "{beside} of {alone}");
    play(&mut backoff, &mut now, 70, (0, 0), 4 * PART);
    assert_eq!(backoff.state(), (None, Pace::Free));
}

#[test]
fn a_limit_that_is_not_given_is_learnt_from_the_shortest() {
    let (mut backoff, mut now) = (Backoff::new(0), MS);
    backoff.learn(30_000);
    assert_eq!(backoff.limit(), 110_000);
    play(&mut backoff, &mut now, 100, (1, 105_000), 4 * PART);
    assert_eq!(backoff.slowed, 0);
    play(&mut backoff, &mut now, 100, (1, 400_000), 4 * PART);
    assert!(backoff.slowed > 0);
    // Low ones have the least, and it is as it was: the way is longer.
    play(&mut backoff, &mut now, 10_000, (1, 400_000), 4 * PART);
    assert_eq!(backoff.limit(), 850_000);
    play(&mut backoff, &mut now, 2000, (1, 400_000), 4 * PART);
    assert_eq!(backoff.state(), (None, Pace::Free));
}

#[test]
fn low_calls_that_send_nothing_are_not_blamed() {
    let (mut backoff, mut now) = (Backoff::new(100_000), MS);
    play(&mut backoff, &mut now, 1000, (1, 900_000), 0);
    assert_eq!((backoff.slowed, backoff.state().0), (0, None));
}

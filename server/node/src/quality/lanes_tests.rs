use super::*;
use crate::quality::{BackOff, Shares};

#[derive(Clone, PartialEq, Eq, Debug)]
struct Call(Class, usize, u64);

impl Queued for Call {
    fn class(&self) -> Class {
        self.0
    }

    fn bytes(&self) -> usize {
        self.1
    }

    fn deadline_ns(&self) -> u64 {
        self.2
    }
}

const PART: usize = 256 << 10;

fn separate() -> Lanes<Call> {
    Lanes::new(&Quality { shares: Some(Shares::default()), ..Quality::default() })
}

/// Sends what may be sent of a class; how many.
fn flood(lanes: &mut Lanes<Call>, class: Class, bytes: usize) -> Vec<OnWay> {
    let mut sent = Vec::new();
    while let Ok(Some(call)) = lanes.admit(0, Call(class, bytes, 9)) {
        sent.push(lanes.sent(0, call.0, call.1));
    }
    sent
}

#[test]
fn without_shares_all_calls_are_one_class_and_stay_in_order() {
    let mut lanes = Lanes::new(&Quality::default());
    let calls = [Class::Low, Class::High, Class::Normal].map(|class| Call(class, 1, 9));
    calls.iter().for_each(|call| assert_eq!(lanes.queue(call.clone()), None));
    assert_eq!(lanes.admit(0, calls[1].clone()), Ok(None), "behind those that wait");
    calls.iter().for_each(|call| assert_eq!(lanes.next(0).as_ref(), Some(call)));
    assert_eq!((lanes.next(0), lanes.next(0)), (Some(calls[1].clone()), None));
    // The transport limits it, and nothing here.
    let none = lanes.lanes.iter().map(|lane| lane.bytes).sum::<usize>();
    assert_eq!(
        (none, (0..1000).all(|_| lanes.admit(0, Call(Class::Low, PART, 9)).is_ok())),
        (0, true)
    );
}

#[test]
fn a_flood_of_low_calls_takes_neither_share_nor_place_of_the_others() {
    let mut lanes = separate();
    let low = flood(&mut lanes, Class::Low, PART);
    assert_eq!(low.len(), 3, "a sixteenth of the window");
    while lanes.queue(Call(Class::Low, PART, 9)).is_none() {}
    for class in [Class::High, Class::Normal] {
        assert_eq!(lanes.admit(0, Call(class, 1, 9)), Ok(Some(Call(class, 1, 9))));
        assert!(flood(&mut lanes, class, PART).len() > 20, "{class:?}");
    }
    // The most urgent class first; low ones go as soon as one of theirs has ended.
    assert_eq!(lanes.next(0), None);
    lanes.ended(1, low[0], Some(0));
    assert_eq!(lanes.next(1).map(|call| call.0), Some(Class::Low));
    let counts = lanes.state().classes;
    assert!(counts[2].waiting > 10 && counts[2].refused >= 1 && counts[0].refused == 0);
}

#[test]
fn a_call_longer_than_its_share_goes_alone() {
    let mut lanes = separate();
    let long = flood(&mut lanes, Class::Low, 8 << 20);
    assert_eq!((long.len(), lanes.next(0)), (1, None));
    assert_eq!(flood(&mut lanes, Class::High, 8 << 20).len(), 1, "and leaves high ones theirs");
    lanes.ended(1, long[0], None);
    assert_eq!(lanes.next(1).map(|call| call.1), Some(8 << 20));
}

#[test]
fn what_is_late_is_taken_out_and_the_next_time_is_told() {
    let mut lanes = separate();
    for (class, deadline) in [(Class::Low, 5), (Class::High, 7), (Class::Low, 9)] {
        lanes.queue(Call(class, 1, deadline));
    }
    assert_eq!(lanes.wake_ns(), Some(5));
    let late: Vec<_> = lanes.expired(7).iter().map(|call| call.2).collect();
    assert_eq!((late, lanes.wake_ns()), (vec![7, 5], Some(9)));
    assert_eq!((lanes.take_any().map(|call| call.2), lanes.take_any()), (Some(9), None));
}

#[test]
fn low_calls_that_are_slowed_wait_for_their_time_and_give_way() {
    let quality = Quality { back_off: Some(BackOff { round_trip_ns: 1000 }), ..Quality::default() };
    let (mut lanes, mut now) = (Lanes::new(&quality), 1_000_000_000);
    // High calls that are late, beside low ones.
    for _ in 0..40 {
        let low = flood_one(&mut lanes, now);
        let high = lanes.sent(now, Class::High, 8);
        now += 1_000_000;
        lanes.ended(now, high, Some(8));
        low.into_iter().for_each(|low| lanes.ended(now, low, Some(0)));
    }
    assert!(lanes.state().slowed > 0 && lanes.state().low_per_second > 0);
    assert_eq!(lanes.state().high_round_trip_ns, 1_000_000);
    while lanes.next(now).is_some()
        || lanes.admit(now, Call(Class::Low, PART, u64::MAX)) != Ok(None)
    {
        lanes.sent(now, Class::Low, PART);
    }
    let due = lanes.wake_ns().expect("a time");
    assert!(due > now && due <= now + 10_000_000);
    assert_eq!(lanes.admit(now, Call(Class::High, 8, 9)), Ok(Some(Call(Class::High, 8, 9))));
}

fn flood_one(lanes: &mut Lanes<Call>, now: u64) -> Option<OnWay> {
    let admitted = lanes.admit(now, Call(Class::Low, PART, u64::MAX));
    admitted.ok().flatten().map(|call| lanes.sent(now, call.0, call.1))
}

//! Histories of which it is known whether they are linearizable.

use heliostat_verify_linearizability::model::*;
use heliostat_verify_linearizability::{check, Call, History, Malformed, Model, NotLinearizable};

/// A call of a process from one time to another.
fn call<O, A>(process: u64, times: (u64, u64), operation: O, answer: A) -> Call<O, A> {
    Call { process, invoked_ns: times.0, responded: Some((times.1, answer)), operation }
}

fn lost<O, A>(process: u64, invoked_ns: u64, operation: O) -> Call<O, A> {
    Call { process, invoked_ns, responded: None, operation }
}

fn judge<M: Model>(
    model: M,
    calls: Vec<Call<M::Operation, M::Answer>>,
) -> Result<(), NotLinearizable> {
    check(&model, &History::new(calls).unwrap())
}

use LockAnswer::{Busy, Done, Granted};
use LockOperation::{Read as ReadLock, Release, Write as WriteLock};
use WordOperation::{CompareSwap, FetchAdd, Read, Swap, Write};

#[test]
fn calls_one_after_the_other_are_as_the_model_says() {
    let good = vec![
        call(1, (0, 1), Write(5), 0),
        call(2, (2, 3), FetchAdd(2), 5),
        call(1, (4, 5), CompareSwap(7, 9), 7),
        call(1, (6, 7), CompareSwap(7, 8), 9),
        call(2, (8, 9), Swap(1), 9),
        call(2, (10, 11), Read, 1),
    ];
    assert_eq!(judge(WordModel(0), good.clone()), Ok(()));
    let mut bad = good;
    bad[5] = call(2, (10, 11), Read, 9);
    let error = judge(WordModel(0), bad).unwrap_err();
    assert_eq!((error.longest.len(), error.stuck), (5, 5));
}

#[test]
fn calls_at_the_same_time_have_any_order_that_fits() {
    // Both readers meet the writer; one sees it, the other does not.
    let both = |first: (u64, u64), second: (u64, u64)| {
        vec![call(1, (0, 10), Write(1), 0), call(2, first, Read, 1), call(3, second, Read, 0)]
    };
    assert_eq!(judge(WordModel(0), both((1, 5), (2, 6))), Ok(()));
    // Not where who does not see it began after who saw it had ended: Herlihy and Wing's example.
    assert!(judge(WordModel(0), both((1, 2), (3, 4))).is_err());
}

#[test]
fn an_increment_that_is_lost_is_found() {
    let bad = vec![call(1, (0, 10), FetchAdd(1), 0), call(2, (1, 9), FetchAdd(1), 0)];
    assert!(judge(WordModel(0), bad).is_err());
    let two_winners =
        vec![call(1, (0, 10), CompareSwap(0, 1), 0), call(2, (0, 10), CompareSwap(0, 2), 0)];
    assert!(judge(WordModel(0), two_winners).is_err());
}

#[test]
fn a_call_that_was_lost_has_been_done_or_not() {
    let read = |value| vec![lost(1, 0, FetchAdd(1)), call(2, (5, 6), Read, value)];
    assert_eq!(judge(WordModel(0), read(0)), Ok(()));
    assert_eq!(judge(WordModel(0), read(1)), Ok(()));
    assert!(judge(WordModel(0), read(2)).is_err());
    // It may be done late, and not twice.
    let mut late = read(0);
    late.push(call(2, (7, 8), Read, 1));
    assert_eq!(judge(WordModel(0), late.clone()), Ok(()));
    late.push(call(2, (9, 10), Read, 0));
    assert!(judge(WordModel(0), late).is_err());
    // It is not done before it is asked.
    let early = vec![call(2, (0, 1), Read, 1), lost(1, 5, FetchAdd(1))];
    assert!(judge(WordModel(0), early).is_err());
}

#[test]
fn two_writers_at_once_are_found_and_readers_are_not() {
    let two = |operation| {
        vec![
            call(1, (0, 1), operation, Granted(1)),
            call(2, (2, 3), operation, Granted(2)),
            call(1, (4, 5), Release, Done),
            call(2, (6, 7), Release, Done),
        ]
    };
    assert_eq!(judge(LockModel, two(ReadLock)), Ok(()));
    assert!(judge(LockModel, two(WriteLock)).is_err());
    // The second call may have waited until the release that came meanwhile.
    let mut waited = two(WriteLock);
    waited[1] = call(2, (2, 5), WriteLock, Granted(2));
    assert_eq!(judge(LockModel, waited), Ok(()));
}

#[test]
fn tokens_that_do_not_grow_are_found() {
    let twice = |token| {
        vec![
            call(1, (0, 1), WriteLock, Granted(7)),
            call(1, (2, 3), Release, Done),
            call(2, (4, 5), WriteLock, Granted(token)),
        ]
    };
    assert_eq!(judge(LockModel, twice(8)), Ok(()));
    assert!(judge(LockModel, twice(7)).is_err());
}

#[test]
fn a_release_of_one_that_holds_nothing_is_found_and_busy_promises_nothing() {
    assert!(judge(LockModel, vec![call(1, (0, 1), Release, Done)]).is_err());
    assert_eq!(judge(LockModel, vec![call(1, (0, 1), WriteLock, Busy)]), Ok(()));
}

#[test]
fn a_holder_that_was_killed_has_released_once_that_was_recorded() {
    let killed = |end: Vec<_>| {
        let mut all = vec![call(1, (0, 1), WriteLock, Granted(1))];
        all.extend(end);
        all.push(call(2, (5, 6), WriteLock, Granted(2)));
        all
    };
    assert!(judge(LockModel, killed(vec![])).is_err());
    assert_eq!(judge(LockModel, killed(vec![lost(1, 3, Release)])), Ok(()));
}

#[test]
fn more_permits_than_there_are_are_found() {
    use SemaphoreAnswer::Done;
    use SemaphoreOperation::{Acquire, Release};
    let calls = |count| {
        vec![
            call(1, (0, 1), Acquire(2), Done),
            call(2, (2, 3), Acquire(count), Done),
            call(1, (4, 5), Release, Done),
        ]
    };
    assert_eq!(judge(SemaphoreModel(3), calls(1)), Ok(()));
    assert!(judge(SemaphoreModel(3), calls(2)).is_err());
}

#[test]
fn calls_that_contradict_each_other_are_no_history() {
    let backwards = vec![call(1, (5, 4), Read, 0)];
    assert_eq!(History::new(backwards).unwrap_err(), Malformed::Backwards(1));
    let two = vec![call(1, (0, 5), Read, 0), call(1, (3, 9), Read, 0)];
    assert_eq!(History::new(two).unwrap_err(), Malformed::Overlapping(1));
    let after_lost: Vec<Call<_, u64>> = vec![lost(1, 0, Read), lost(1, 3, Read)];
    assert_eq!(History::new(after_lost).unwrap_err(), Malformed::Overlapping(1));
}

#[test]
fn objects_are_judged_one_by_one() {
    let calls = vec![
        call(1, (0, 1), (1, FetchAdd(1)), 0),
        call(2, (2, 3), (2, FetchAdd(1)), 0),
        call(1, (4, 5), (1, FetchAdd(1)), 1),
    ];
    let parts = History::new(calls).unwrap().by_object(|(object, _)| *object);
    let counts: Vec<_> = parts.values().map(|part| part.calls().len()).collect();
    assert_eq!(counts, [2, 1]);
}

//! Histories made by chance: of a word that is right, and judged by a second, simple-minded checker.

use heliostat_verify_linearizability::model::{WordModel, WordOperation};
use heliostat_verify_linearizability::{check, Call, History, Model};
use proptest::prelude::*;

type WordCall = Call<WordOperation, u64>;

fn operation() -> impl Strategy<Value = WordOperation> {
    prop_oneof![
        Just(WordOperation::Read),
        (1..3u64).prop_map(WordOperation::FetchAdd),
        (0..3u64, 0..3u64).prop_map(|(old, new)| WordOperation::CompareSwap(old, new)),
        (0..3u64).prop_map(WordOperation::Swap),
        (0..3u64).prop_map(WordOperation::Write),
    ]
}

/// What a word answers to calls that take effect in this order, each within its own time: at `place *
/// 100`, begun so much before and ended so much after.
fn recorded(calls: &[(u64, WordOperation, u64, u64)]) -> Vec<WordCall> {
    let mut word = 0;
    let mut ends = std::collections::HashMap::new();
    let calls = calls.iter().enumerate().map(|(place, (process, operation, before, after))| {
        let effect = 100_000 + place as u64 * 100;
        let end = ends.entry(*process).or_insert(0);
        // A process makes one call at a time.
        let invoked_ns = (effect - before).max(*end + 1).min(effect);
        let process = if *end >= effect { 1000 + place as u64 } else { *process };
        *end = (*end).max(effect + after);
        let answer = word;
        word = WordModel(0).step(&word, 0, operation, Some(&answer)).unwrap();
        let responded = Some((effect + after, answer));
        Call { process, invoked_ns, responded, operation: *operation }
    });
    calls.collect()
}

fn calls(count: usize) -> impl Strategy<Value = Vec<WordCall>> {
    let call = (0..6u64, operation(), 0..400u64, 0..400u64);
    prop::collection::vec(call, 1..count).prop_map(|calls| recorded(&calls))
}

/// Tries every order.
fn has_order(word: u64, left: &[WordCall]) -> bool {
    if left.is_empty() {
        return true;
    }
    let first_end = left.iter().filter_map(|call| call.responded.map(|(at, _)| at)).min().unwrap();
    (0..left.len()).filter(|place| left[*place].invoked_ns <= first_end).any(|place| {
        let mut rest = left.to_vec();
        let call = rest.remove(place);
        let answer = call.responded.map(|(_, answer)| answer);
        let after = WordModel(0).step(&word, 0, &call.operation, answer.as_ref());
        after.is_some_and(|word| has_order(word, &rest))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_a_word_answers_is_linearizable(calls in calls(300)) {
        prop_assert_eq!(check(&WordModel(0), &History::new(calls).unwrap()), Ok(()));
    }

    #[test]
    fn it_is_judged_as_trying_every_order_does(
        mut calls in calls(8),
        which in any::<prop::sample::Index>(),
        wrong in 0..3u64,
    ) {
        let place = which.index(calls.len());
        calls[place].responded = calls[place].responded.map(|(at, _)| (at, wrong));
        let wanted = has_order(0, &calls);
        prop_assert_eq!(check(&WordModel(0), &History::new(calls).unwrap()).is_ok(), wanted);
    }
}

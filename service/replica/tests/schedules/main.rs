//! Schedules at random: nodes that crash, cuts, messages that are late, lost or in another order, and
//! a registry that does not always answer. What clients were answered has to have an order.

mod random;
mod world;

use heliostat_verify_linearizability::check;
use heliostat_verify_linearizability::model::WordModel;
use world::{Broken, World};

/// Runs one schedule; how many calls were answered, or why there is no order.
fn run(seed: u64, broken: Option<Broken>) -> Result<usize, String> {
    let mut world = World::new(seed, broken);
    (0..120).for_each(|_| world.act());
    world.rest();
    let history = world.history();
    let answered = history.calls().iter().filter(|call| call.responded.is_some()).count();
    for (word, part) in history.by_object(|operation| operation.word) {
        let calls = part.calls().to_vec();
        let part = world::of_word(calls);
        check(&WordModel(0), &part).map_err(|why| {
            let told: Vec<_> = part.calls().iter().map(|it| format!("{it:?}")).collect();
            format!("seed {seed}, word {word}: {why}\n{}", told.join("\n"))
        })?;
    }
    world.check_replicas().map_err(|why| format!("seed {seed}: {why}"))?;
    Ok(answered)
}

/// So many schedules, from the environment where more are wanted.
fn schedules(most: u64) -> u64 {
    std::env::var("HELIOSTAT_SCHEDULES").ok().and_then(|it| it.parse().ok()).unwrap_or(most)
}

#[test]
fn what_is_answered_has_an_order_in_every_schedule() {
    let (mut answered, mut takeovers) = (0, 0);
    for seed in 0..schedules(10_000) {
        answered += run(seed, None).unwrap_or_else(|why| panic!("{why}"));
        takeovers += 1;
    }
    assert!(answered > takeovers * 20, "{answered} answers in {takeovers} schedules say little");
}

#[test]
fn a_primary_that_answers_before_its_backups_is_found_out() {
    let found = (0..300).filter_map(|seed| run(seed, Some(Broken::AnswersEarly)).err()).count();
    assert!(found > 0);
}

#[test]
fn requests_that_are_repeated_under_another_identity_are_found_out() {
    let found = (0..300).filter_map(|seed| run(seed, Some(Broken::NewIdentities)).err()).count();
    assert!(found > 0);
}

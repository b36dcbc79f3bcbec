//! Locks whose holders, waiters or control plane are killed.

use std::time::{Duration, Instant};

use crate::support::programs::Program;
use crate::support::{await_that, Daemon};

fn program(daemon: &Daemon, what: &str) -> Program {
    let mut program = Program::start(daemon);
    program.does(&format!("open it {what}"));
    program
}

fn await_waiting(daemon: &Daemon, count: u64) {
    await_that("so many wait", || daemon.status()["locks"]["waiting"] == count);
}

fn is_held(answer: &str, owner_died: bool) {
    assert!(answer.starts_with("held "), "{answer}");
    assert_eq!(answer.ends_with(" owner-died"), owner_died, "{answer}");
}

/// The next holder is told at once. A busy machine may be slow once, and is not each time.
#[test]
fn the_next_holder_of_one_that_was_killed_is_told_within_100_ms() {
    let daemon = Daemon::start();
    let mut next = program(&daemon, "lock owner");
    let mut soonest = Duration::MAX;
    for _ in 0..5 {
        let mut holder = program(&daemon, "lock owner");
        is_held(&holder.say("claim it held x wait"), false);
        next.send("claim it held x wait");
        await_waiting(&daemon, 1);
        let killed = Instant::now();
        holder.kill();
        is_held(&next.hear(), true);
        soonest = soonest.min(killed.elapsed());
        next.does("release held");
    }
    assert!(soonest < Duration::from_millis(100), "{soonest:?}");
}

#[test]
fn a_death_is_told_until_somebody_has_put_it_right() {
    let daemon = Daemon::start();
    let mut observer = program(&daemon, "lock owner");
    for _ in 0..2 {
        let mut holder = program(&daemon, "lock owner");
        assert!(holder.say("claim it held x wait").starts_with("held "));
        holder.kill();
        await_that("it is noticed", || {
            observer.say("list") == "listed owner:lock:1:0:0:owner-died"
        });
    }
    is_held(&observer.say("claim it held x wait"), true);
    observer.does("release held");
    is_held(&observer.say("claim it held x wait"), false);
}

#[test]
fn a_death_is_told_further_by_who_gives_up_the_place_that_got_it() {
    let daemon = Daemon::start();
    let mut giver = program(&daemon, "lock owner");
    let mut next = program(&daemon, "lock owner");
    let mut holder = program(&daemon, "lock owner");
    is_held(&holder.say("claim it held x wait"), false);
    giver.does("request it place");
    holder.kill();
    await_that("it has its turn", || daemon.status()["locks"]["waiting"] == 0);
    giver.does("give_up place");
    is_held(&next.say("claim it held x wait"), true);
    next.does("release held");
    is_held(&giver.say("claim it held x wait"), false);
}

#[test]
fn a_lock_that_was_made_silent_says_nothing_of_deaths() {
    let daemon = Daemon::start();
    let mut next = program(&daemon, "lock owner silent");
    let mut holder = program(&daemon, "lock owner silent");
    is_held(&holder.say("claim it held x wait"), false);
    next.send("claim it held x wait");
    await_waiting(&daemon, 1);
    holder.kill();
    is_held(&next.hear(), false);
}

#[test]
fn a_waiter_that_is_killed_leaves_its_place_to_those_behind() {
    let daemon = Daemon::start();
    let mut holder = program(&daemon, "lock line");
    let mut killed = program(&daemon, "lock line");
    let mut next = program(&daemon, "lock line");
    is_held(&holder.say("claim it held x wait"), false);
    killed.send("claim it held x wait");
    await_waiting(&daemon, 1);
    next.send("claim it held x wait");
    await_waiting(&daemon, 2);
    killed.kill();
    await_waiting(&daemon, 1);
    holder.does("release held");
    is_held(&next.hear(), false);
}

#[test]
fn permits_and_readers_of_the_dead_are_free_again() {
    let daemon = Daemon::start();
    let mut next = program(&daemon, "semaphore gate 3");
    next.does("open book reader_writer book");
    let mut holder = program(&daemon, "semaphore gate 3");
    holder.does("open book reader_writer book");
    is_held(&holder.say("claim it held 3 wait"), false);
    is_held(&holder.say("claim book reading s wait"), false);
    next.send("claim it held 2 wait");
    await_waiting(&daemon, 1);
    holder.kill();
    is_held(&next.hear(), true);
    is_held(&next.say("claim book writing x wait"), false);
}

#[test]
fn a_participant_that_is_killed_breaks_the_barrier() {
    let daemon = Daemon::start();
    let mut all: Vec<_> = (0..4).map(|_| program(&daemon, "barrier step 4")).collect();
    all.iter_mut().for_each(|program| program.send("arrive it wait"));
    assert!(all.iter_mut().all(|program| program.hear().starts_with("passed 1")));
    all[..2].iter_mut().for_each(|program| program.send("arrive it wait"));
    await_waiting(&daemon, 2);
    // One that has not arrived yet.
    all.pop().unwrap().kill();
    for program in &mut all[..2] {
        assert_eq!(program.hear(), "error broken 2 Died");
    }
    assert_eq!(all[2].say("arrive it wait"), "error broken 2 Died");
    // And one that waits.
    all[0].does("reset it");
    all[2].send("arrive it wait");
    await_waiting(&daemon, 1);
    all[0].send("arrive it wait");
    await_waiting(&daemon, 2);
    all.pop().unwrap().kill();
    assert_eq!(all[0].hear(), "error broken 3 Died");
    assert_eq!(all[1].say("list"), "listed step:barrier:2:0:0:broken");
}

#[test]
fn when_the_control_plane_is_killed_everybody_is_told_and_tokens_grow_further() {
    let mut daemon = Daemon::start();
    let mut holder = program(&daemon, "lock it");
    let mut waiter = program(&daemon, "lock it");
    holder.does("open step barrier step 2");
    let before = holder.say("claim it held x wait");
    waiter.send("claim it held x wait");
    await_waiting(&daemon, 1);
    assert_eq!(holder.say("holds held"), "true");
    daemon.restart();
    assert_eq!(waiter.hear(), "error Gone");
    assert_eq!(holder.say("holds held"), "false");
    assert_eq!(holder.say("release held"), "error Gone");
    assert_eq!(holder.say("claim it held x wait"), "error Gone");
    assert_eq!(holder.say("arrive step wait"), "error Gone");
    // The pause after a failure is over soon.
    await_that("it is asked again", || waiter.say("anew") == "done");
    waiter.does("open it lock it");
    let after = waiter.say("claim it held x wait");
    let token = |answer: &str| answer.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    assert!(token(&after) > token(&before), "{before}, {after}");
}

//! Many operations of memory regions at once, on both paths: in pieces, submitted, awaited, given up.

use crate::support::beside::{may_become_others, NEIGHBOUR};
use crate::support::programs::Program;
use crate::support::Daemon;

const BYTES: u64 = 8_000_000;

/// A program on each path, with the same region.
fn each_path(daemon: &Daemon) -> Vec<Program> {
    let mut owner = Program::start(daemon);
    assert_eq!(owner.say(&format!("allocate kv {BYTES} name=kv others=rwa")), "direct");
    let mut all = vec![owner];
    if may_become_others() {
        let mut other = Program::of_user(daemon, NEIGHBOUR);
        assert_eq!(other.say("map kv kv rwa 0"), "delegated");
        all.push(other);
    }
    all
}

#[test]
fn pieces_of_one_call_all_go_where_they_should() {
    let daemon = Daemon::start();
    for program in &mut each_path(&daemon) {
        for (seed, (count, stride, bytes)) in
            [(1, 10, 5), (40, 64, 64), (100, 70_000, 40_000), (3, 2_000_000, 1), (0, 1, 1)]
                .into_iter()
                .enumerate()
        {
            let seed = seed + 3;
            program.does(&format!("operations write_pieces kv {seed} {count} {stride} {bytes}"));
            let read = format!("operations read_pieces kv {seed} {count} {stride} {bytes}");
            assert_eq!(program.say(&read), "same", "{count} of {bytes}");
        }
        let beyond = format!("operations read_pieces kv 1 3 {} 10", BYTES / 2);
        assert_eq!(program.say(&beyond), format!("error range {BYTES}"));
    }
}

#[test]
fn operations_that_are_taken_as_they_complete_are_all_done() {
    let daemon = Daemon::start();
    for program in &mut each_path(&daemon) {
        for (count, bytes) in [(1, 8), (300, 64), (100, 16_384), (60, 100_000), (2, 3_000_000)] {
            let line = format!("operations taken kv {count} {count} {bytes}");
            assert_eq!(program.say(&line), "same", "{line}");
        }
        assert_eq!(program.say("operations full kv"), "error full 3");
    }
}

#[test]
fn futures_complete_on_a_plain_executor_alone_and_together() {
    let daemon = Daemon::start();
    for program in &mut each_path(&daemon) {
        for (count, bytes) in [(1, 8), (200, 100), (50, 100_000)] {
            let line = format!("operations futures kv {count} {count} {bytes}");
            assert_eq!(program.say(&line), "same", "{line}");
        }
    }
}

#[test]
fn a_descriptor_is_readable_while_there_is_something_to_take() {
    let daemon = Daemon::start();
    for program in &mut each_path(&daemon) {
        program.does("operations polled kv 200");
    }
}

#[test]
fn a_future_that_is_dropped_harms_nobody() {
    let daemon = Daemon::start();
    for program in &mut each_path(&daemon) {
        for bytes in [100, 16_385, 1_000_000] {
            assert_eq!(program.say(&format!("operations dropped kv 40 {bytes}")), "same");
        }
    }
}

#[test]
fn a_batch_is_its_futures_whoever_takes_meanwhile() {
    let daemon = Daemon::start();
    for program in &mut each_path(&daemon) {
        program.does("operations beside_taker kv 500");
    }
}

#[test]
fn whoever_is_woken_may_do_anything_at_once() {
    let daemon = Daemon::start();
    for program in &mut each_path(&daemon) {
        program.does("operations woken kv 50");
    }
}

#[test]
fn an_operation_that_is_cancelled_over_and_over_ends_once() {
    let daemon = Daemon::start();
    for program in &mut each_path(&daemon) {
        program.does(&format!("operations cancelled kv 3000 {}", BYTES / 2));
        assert_eq!(program.say("operations taken kv 5 20 100"), "same");
    }
}

#[test]
fn what_a_child_of_a_fork_drops_stays_its_parents() {
    let daemon = Daemon::start();
    for program in &mut each_path(&daemon) {
        assert_eq!(program.say("operations taken kv 5 20 100"), "same");
        program.does("forked kv");
        assert_eq!(program.say("operations taken kv 6 20 100"), "same");
    }
}

#[test]
fn what_is_urgent_passes_by_a_long_operation() {
    let daemon = Daemon::start();
    let mut all = each_path(&daemon);
    if let [_, delegated] = &mut all[..] {
        assert_eq!(delegated.say(&format!("operations urgent kv {BYTES}")), "urgent first");
    }
}

#[test]
fn what_is_wrong_is_told_the_same_on_both_paths() {
    let daemon = Daemon::start();
    let mut all = each_path(&daemon);
    let range = format!("error range {BYTES}");
    let expected = [&range; 6].map(String::as_str).join(", ");
    let expected = format!("{expected}, error misaligned, {range}, 0");
    for program in &mut all {
        assert_eq!(program.say("operations wrong kv"), expected);
    }
    if let [owner, delegated] = &mut all[..] {
        owner.does("free kv");
        let told = delegated.say("operations wrong kv");
        assert_eq!(told.matches("error stale").count(), 7, "{told}");
    }
}

#[test]
fn when_the_control_plane_dies_every_operation_on_its_way_says_so() {
    let mut daemon = Daemon::start();
    let mut all = each_path(&daemon);
    if let [_, delegated] = &mut all[..] {
        delegated.send("operations lost kv 100");
        assert_eq!(delegated.hear(), "begun");
        std::thread::sleep(std::time::Duration::from_millis(20));
        daemon.restart();
        assert_eq!(delegated.hear(), "error gone");
    }
}

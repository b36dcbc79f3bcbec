//! Several server loops of memory regions, and sessions that give theirs up and take another.

use crate::support::beside::{may_become_others, NEIGHBOUR};
use crate::support::programs::Program;
use crate::support::{await_that, Daemon};

fn with_loops(loops: usize) -> (Daemon, Program) {
    let daemon = Daemon::with(&format!("[memory]\nloops = {loops}\n"), &[]);
    let mut owner = Program::start(&daemon);
    owner.say("allocate kv 1000000 name=kv others=rwa");
    (daemon, owner)
}

fn other(daemon: &Daemon) -> Program {
    let mut program = Program::of_user(daemon, NEIGHBOUR);
    assert_eq!(program.say("map kv kv rwa 0"), "delegated");
    program
}

fn sessions(daemon: &Daemon) -> u64 {
    daemon.status()["memory"]["delegated"]["sessions"].as_u64().unwrap_or(0)
}

#[test]
fn programs_on_two_loops_share_words_bytes_growth_and_ends() {
    if !may_become_others() {
        return;
    }
    let (daemon, mut owner) = with_loops(2);
    let mut all: Vec<_> = (0..4).map(|_| other(&daemon)).collect();
    all.iter_mut().for_each(|program| program.send("add kv 64 1 5000"));
    all.iter_mut().for_each(|program| drop(program.hear()));
    assert_eq!(owner.say("add kv 64 0 1"), "20000");
    for (seed, bytes) in [2_000_000, 3_000_000].into_iter().enumerate() {
        owner.does(&format!("grow kv {bytes}"));
        all[seed].does(&format!("fill kv {seed} 100 {}", bytes - 100));
        for program in &mut all {
            assert_eq!(program.say(&format!("check kv {seed} 100 {}", bytes - 100)), "same");
        }
    }
    owner.does("free kv");
    all.iter_mut().for_each(|program| assert_eq!(program.say("read kv 0 1"), "error stale"));
}

#[test]
fn a_session_that_gave_its_loop_up_takes_another_with_the_handles_that_it_has() {
    if !may_become_others() {
        return;
    }
    for loops in [1, 2] {
        let (daemon, mut owner) = with_loops(loops);
        let (mut program, mut beside) = (other(&daemon), other(&daemon));
        beside.does("write kv 500 beside");
        for round in 0..50 {
            program.does(&format!("write kv 0 {round:04}"));
            assert_eq!(owner.say("read kv 0 4"), format!("read {round:04}"));
            program.does("end_delegation");
            assert_eq!(program.say("size kv"), "1000000", "the handle stays");
        }
        assert_eq!(beside.say("read kv 500 6"), "read beside");
        await_that("nobody but the other one is served", || sessions(&daemon) == 1);
        program.does("write kv 0 last");
        program.does("end_delegation");
        owner.does("free kv");
        assert_eq!(program.say("read kv 0 1"), "error stale");
        // Its bytes are given to others only once the loop has let go of them.
        for round in 0..20 {
            owner.say(&format!("allocate {round} 1000000"));
            assert_eq!(owner.say(&format!("read {round} 0 4")), "read ....");
        }
    }
}

#[test]
fn a_session_may_end_its_delegation_while_operations_are_on_their_way() {
    if !may_become_others() {
        return;
    }
    let (daemon, _owner) = with_loops(2);
    let mut program = other(&daemon);
    for _ in 0..20 {
        assert_eq!(program.say("operations given_up kv 60"), "done");
    }
    assert_eq!(program.say("read kv 0 1"), "read .");
    program.kill();
    await_that("nobody is served", || sessions(&daemon) == 0);
}

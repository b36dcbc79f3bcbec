//! What real processes of two nodes saw of one node's words and locks has an order in which each call took
//! effect at once.

use crate::support::cluster::{nodes, SecretFile};
use crate::support::histories::record;
use crate::support::programs::Program;
use crate::support::Daemon;

/// Two nodes, numbers 1 and 2. Words and locks are on node 2.
fn pair(test: &str) -> ([Daemon; 2], SecretFile) {
    let secret = SecretFile::new(test, "7e");
    (nodes::<2>(&secret), secret)
}

/// A program of each of these nodes.
fn lockers_of(nodes: &[Daemon; 2], of: &[usize], what: &str) -> Vec<Program> {
    let locker = |node: &usize| {
        let mut program = Program::with(&nodes[*node], None, &[("LOCKERS", "1")]);
        program.does(&format!("open it {what} on=2"));
        program
    };
    of.iter().map(locker).collect()
}

#[test]
fn words_of_a_region_that_programs_of_two_nodes_change() {
    let (nodes, _secret) = pair("order-words");
    let mut all: Vec<_> = [1, 1, 0, 0].iter().map(|node| Program::start(&nodes[*node])).collect();
    assert_eq!(all[0].say("allocate kv 64 name=kv"), "direct");
    assert_eq!(all[1].say("map kv kv rwa"), "direct");
    for program in &mut all[2..] {
        assert_eq!(program.say("on 2 map kv kv rwa"), "on 2");
    }
    let recorded = record(&mut all, nodes[0].folder(), "kv", "800 2");
    assert_eq!(recorded.judge_words(&mut all), 3200);
}

#[test]
fn a_reader_writer_lock_of_processes_of_two_nodes() {
    let (nodes, _secret) = pair("order-lock");
    let mut all = lockers_of(&nodes, &[0, 1, 0, 1], "reader_writer it");
    let calls = record(&mut all, nodes[0].folder(), "it", "150").judge_lock(&mut all);
    assert!(calls > 900, "{calls} calls");
}

/// Whoever is killed while it holds has released at some time after that, and not before.
#[test]
fn a_lock_whose_holders_on_both_nodes_are_killed() {
    let (nodes, _secret) = pair("order-killed");
    let mut all = lockers_of(&nodes, &[0, 1, 0, 1, 0, 1], "reader_writer it");
    let mut recorded = record(&mut all, nodes[0].folder(), "it", "100");
    recorded.kill_from(&mut all, 4);
    recorded.judge_lock(&mut all);
}

#[test]
fn a_semaphore_of_processes_of_two_nodes() {
    let (nodes, _secret) = pair("order-permits");
    let mut all = lockers_of(&nodes, &[0, 1, 0, 1], "semaphore it 3");
    let calls = record(&mut all, nodes[0].folder(), "it", "120").judge_semaphore(&mut all, 3);
    assert!(calls > 600, "{calls} calls");
}

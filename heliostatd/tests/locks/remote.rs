//! Locks of another node: control planes on loopback, programs of each, the same calls and errors.

use std::time::Duration;

use crate::support::beside::{may_become_others, NEIGHBOUR};
use crate::support::cluster::{nodes, SecretFile};
use crate::support::programs::Program;
use crate::support::{await_that, Daemon};
use heliostat_abi::session::record::{Reply, Request};

/// Nodes, numbered from 1. The names are on node 2.
struct Cluster<const COUNT: usize> {
    nodes: [Daemon; COUNT],
    _secret: SecretFile,
}

impl<const COUNT: usize> Cluster<COUNT> {
    fn start(test: &str) -> Cluster<COUNT> {
        let secret = SecretFile::new(test, "6b");
        Cluster { nodes: nodes::<COUNT>(&secret), _secret: secret }
    }

    /// A program of a node that has opened something on node 2.
    fn program(&self, node: usize, what: &str) -> Program {
        let mut program = Program::start(&self.nodes[node - 1]);
        program.does(&format!("open it {what} on=2"));
        program
    }

    fn await_waiting(&self, count: u64) {
        await_that("so many wait", || self.nodes[1].status()["locks"]["waiting"] == count);
    }
}

fn token(answer: &str) -> u64 {
    let mut words = answer.split(' ');
    assert_eq!(words.next(), Some("held"), "{answer}");
    words.next().unwrap().parse().unwrap()
}

#[test]
fn a_name_is_on_one_node_and_programs_of_both_take_turns() {
    let cluster = Cluster::<2>::start("locks-1");
    let (mut here, mut there) =
        (cluster.program(1, "lock journal"), cluster.program(2, "lock journal"));
    let first = token(&here.say("claim it held x wait"));
    assert_eq!(there.say("claim it held x try"), "late");
    assert_eq!(there.say("list"), "listed journal:lock:2:1:0");
    assert_eq!(here.say("list 2"), "listed journal:lock:2:1:0");
    assert_eq!(here.say("list"), "listed", "its own node has none");
    there.send("claim it held x wait");
    cluster.await_waiting(1);
    assert_eq!(here.say("holds held"), "true");
    here.does("release held");
    let second = token(&there.hear());
    assert!(second > first);
    here.send("claim it held x wait");
    cluster.await_waiting(1);
    there.does("release held");
    assert!(token(&here.hear()) > second);
    here.does("release held");
    assert_eq!(here.say("open other semaphore journal 2 on=2"), "error Shape");
    assert_eq!(here.say("open other lock journal on=9"), "error node 9");
    here.does("close it");
    await_that("its handle is given back", || there.say("list") == "listed journal:lock:1:0:0");
}

#[test]
fn lines_are_served_first_come_first_served_whoever_comes() {
    let cluster = Cluster::<3>::start("locks-2");
    let mut holder = cluster.program(2, "lock line");
    token(&holder.say("claim it held x wait"));
    let mut all: Vec<_> = [1, 3, 2, 1, 3].map(|node| cluster.program(node, "lock line")).into();
    for (count, program) in all.iter_mut().enumerate() {
        program.send("claim it held x wait");
        cluster.await_waiting(count as u64 + 1);
    }
    let mut last = 0;
    let mut before = &mut holder;
    for program in &mut all {
        before.does("release held");
        let token = token(&program.hear());
        assert!(token > last);
        last = token;
        before = program;
    }
}

#[test]
fn who_gives_up_leaves_the_line_of_the_other_node() {
    let cluster = Cluster::<2>::start("locks-3");
    let (mut here, mut there) = (cluster.program(1, "lock line"), cluster.program(2, "lock line"));
    token(&there.say("claim it held x wait"));
    assert_eq!(here.say("claim it held x 50"), "late");
    cluster.await_waiting(0);
    here.does("request it place");
    cluster.await_waiting(1);
    here.does("give_up place");
    cluster.await_waiting(0);
    here.does("request it place");
    there.does("release held");
    // Its turn has come, and it is given back by who does not want it.
    await_that("it is granted", || there.say("list") == "listed line:lock:2:1:0");
    here.does("give_up place");
    token(&there.say("claim it held x wait"));
}

#[test]
fn a_counter_that_programs_of_two_nodes_count_loses_nothing() {
    let cluster = Cluster::<2>::start("locks-4");
    let path = cluster.nodes[0].folder().join("count");
    crate::support::write_file(&path, &[0; 8]);
    let mut all: Vec<_> = [1, 1, 2, 2].map(|node| cluster.program(node, "lock count")).into();
    let line = format!("count it {} 300", path.display());
    all.iter_mut().for_each(|program| program.send(&line));
    all.iter_mut().for_each(|program| assert_eq!(program.hear(), "done"));
    let count = std::fs::read(&path).unwrap();
    assert_eq!(u64::from_le_bytes(count.try_into().unwrap()), 1200);
}

#[test]
fn threads_of_one_program_wait_for_another_node_at_the_same_time() {
    let cluster = Cluster::<2>::start("locks-5");
    let mut here = cluster.program(1, "lock threads");
    assert_eq!(here.say("together it 6 60"), "360 done, 0 met");
}

#[test]
fn readers_writers_and_permits_are_counted_over_nodes() {
    let cluster = Cluster::<2>::start("locks-6");
    let (mut here, mut there) =
        (cluster.program(1, "reader_writer book"), cluster.program(2, "reader_writer book"));
    token(&here.say("claim it held s wait"));
    token(&there.say("claim it held s wait"));
    assert_eq!(there.say("claim it writing x try"), "late");
    there.does("release held");
    there.send("claim it writing x wait");
    cluster.await_waiting(1);
    assert_eq!(here.say("claim it more s try"), "late", "nobody gets past a writer");
    here.does("release held");
    token(&there.hear());
    for program in [&mut here, &mut there] {
        program.does("open gate semaphore gate 3 on=2");
    }
    token(&here.say("claim gate two 2 wait"));
    assert_eq!(there.say("claim gate two 2 try"), "late");
    token(&there.say("claim gate one 1 wait"));
    assert_eq!(here.say("claim gate four 4 wait"), "error Count { count: 4, most: 3 }");
}

#[test]
fn a_barrier_over_three_nodes() {
    let cluster = Cluster::<3>::start("locks-7");
    let mut all: Vec<_> = [1, 2, 3].map(|node| cluster.program(node, "barrier step 3")).into();
    for generation in 1..20 {
        all.iter_mut().for_each(|program| program.send("arrive it wait"));
        let mut told: Vec<_> = all.iter_mut().map(Program::hear).collect();
        told.sort();
        let wanted = [0, 1, 2].map(|index| format!("passed {generation} {index}"));
        assert_eq!(told, wanted);
    }
    // One that has not arrived is killed.
    all[..2].iter_mut().for_each(|program| program.send("arrive it wait"));
    cluster.await_waiting(2);
    all.pop().unwrap().kill();
    for program in &mut all {
        assert_eq!(program.hear(), "error broken 20 Died");
    }
    all[0].does("reset it");
    all.push(cluster.program(3, "barrier step 3"));
    all[2].send("arrive it wait");
    cluster.await_waiting(1);
    assert_eq!(all[0].say("arrive it 50"), "late", "that breaks it");
    assert_eq!(all[2].hear(), "error broken 21 GaveUp");
}

#[test]
fn the_own_number_is_as_if_it_were_not_said() {
    let cluster = Cluster::<2>::start("locks-8");
    let mut there = cluster.program(2, "lock own");
    there.does("open same lock own");
    token(&there.say("claim same held x wait"));
    assert_eq!(there.say("claim it other x try"), "late");
    assert_eq!(there.say("holds held"), "true");
    assert_eq!(there.say("list 2"), "listed own:lock:2:1:0");
}

#[test]
fn rights_are_those_of_the_node_that_the_name_is_on() {
    if !may_become_others() {
        return;
    }
    let cluster = Cluster::<2>::start("locks-9");
    let mut there = cluster.program(2, "lock own");
    let mut other = Program::of_user(&cluster.nodes[0], NEIGHBOUR);
    assert_eq!(other.say("open it lock own user=0 on=2"), "error refused Denied 0");
    other.does("open it lock own on=2");
    token(&other.say("claim it held x wait"));
    token(&there.say("claim it held x wait"));
    assert_eq!(other.say("list 2"), "listed own:lock:1:1:0", "others' are not listed");
}

#[test]
fn a_revoked_session_has_nothing_on_another_node_either() {
    let cluster = Cluster::<2>::start("locks-10");
    let (mut here, mut there) = (cluster.program(1, "lock own"), cluster.program(2, "lock own"));
    token(&here.say("claim it held x wait"));
    there.send("claim it held x wait");
    cluster.await_waiting(1);
    let revoke = Request::Revoke { pid: here.pid() };
    assert_eq!(cluster.nodes[0].visit().ask(&revoke).0, Reply::Done);
    assert!(there.hear().ends_with("owner-died"));
    assert_eq!(here.say("open again lock own on=2"), "error refused Revoked 0");
    assert_eq!(here.say("claim it held x try"), "error refused Revoked 0");
}

#[test]
fn a_wait_of_many_takes_no_call_each() {
    let cluster = Cluster::<2>::start("locks-11");
    let mut there = cluster.program(2, "lock line");
    token(&there.say("claim it held x wait"));
    let mut here = cluster.program(1, "lock line");
    // More than one node has of calls in its window here.
    for count in 0..600 {
        here.does(&format!("request it place{count}"));
    }
    cluster.await_waiting(600);
    here.does("open other lock other on=2");
    token(&here.say("claim other held x wait"));
    there.does("release held");
    for count in 0..600 {
        token(&here.say(&format!("await place{count}")));
        here.does(&format!("release place{count}"));
    }
    std::thread::sleep(Duration::from_millis(1));
    token(&there.say("claim it held x wait"));
}

//! Locks between nodes whose holders, waiters, control planes and links end.

use std::time::{Duration, Instant};

use crate::support::cluster::{joined_count, nodes, SecretFile};
use crate::support::programs::Program;
use crate::support::{await_that, Daemon};
use rustix::process::Signal;

/// Three nodes, numbered from 1. The names are on node 2.
struct Cluster {
    nodes: [Daemon; 3],
    _secret: SecretFile,
}

impl Cluster {
    fn start(test: &str) -> Cluster {
        let secret = SecretFile::new(test, "6c");
        Cluster { nodes: nodes::<3>(&secret), _secret: secret }
    }

    fn program(&self, node: usize, what: &str) -> Program {
        let mut program = Program::start(&self.nodes[node - 1]);
        program.does(&format!("open it {what} on=2"));
        program
    }

    fn await_waiting(&self, count: u64) {
        await_that("so many wait", || self.nodes[1].status()["locks"]["waiting"] == count);
    }
}

fn is_held(answer: &str, owner_died: bool) {
    assert!(answer.starts_with("held "), "{answer}");
    assert_eq!(answer.ends_with(" owner-died"), owner_died, "{answer}");
}

#[test]
fn a_killed_holder_of_another_node_is_told_to_the_next() {
    let cluster = Cluster::start("lock-ends-1");
    let mut there = cluster.program(2, "lock owner");
    let mut third = cluster.program(3, "lock owner");
    let mut holder = cluster.program(1, "lock owner");
    is_held(&holder.say("claim it held x wait"), false);
    there.send("claim it held x wait");
    cluster.await_waiting(1);
    third.send("claim it held x wait");
    cluster.await_waiting(2);
    holder.kill();
    is_held(&there.hear(), true);
    // The other way round: that death is told on the asker's node.
    there.kill();
    is_held(&third.hear(), true);
    third.does("release held");
    is_held(&third.say("claim it held x wait"), false);
}

#[test]
fn a_killed_waiter_of_another_node_leaves_its_place() {
    let cluster = Cluster::start("lock-ends-2");
    let mut there = cluster.program(2, "lock line");
    let mut next = cluster.program(3, "lock line");
    let mut killed = cluster.program(1, "lock line");
    is_held(&there.say("claim it held x wait"), false);
    killed.send("claim it held x wait");
    cluster.await_waiting(1);
    next.send("claim it held x wait");
    cluster.await_waiting(2);
    killed.kill();
    cluster.await_waiting(1);
    there.does("release held");
    is_held(&next.hear(), false);
    await_that("nothing of it is left", || next.say("list 2") == "listed line:lock:2:1:0");
}

#[test]
fn what_a_killed_node_held_is_told_to_the_next() {
    let mut cluster = Cluster::start("lock-ends-3");
    let mut there = cluster.program(2, "lock owner");
    let mut holder = cluster.program(1, "lock owner");
    let mut waiter = cluster.program(1, "lock owner");
    is_held(&holder.say("claim it held x wait"), false);
    waiter.send("claim it held x wait");
    cluster.await_waiting(1);
    there.send("claim it held x wait");
    cluster.await_waiting(2);
    cluster.nodes[0].kill();
    is_held(&there.hear(), true);
    assert_eq!(waiter.hear(), "error Gone", "its own control plane is gone");
    assert_eq!(there.say("list"), "listed owner:lock:1:1:0:owner-died");
}

#[test]
fn who_waits_at_a_killed_node_is_told_which() {
    let mut cluster = Cluster::start("lock-ends-4");
    let mut holder = cluster.program(1, "lock owner");
    let mut waiter = cluster.program(3, "lock owner");
    let mut arrived = cluster.program(3, "barrier step 2");
    is_held(&holder.say("claim it held x wait"), false);
    waiter.send("claim it held x wait");
    cluster.await_waiting(1);
    arrived.send("arrive it wait");
    cluster.await_waiting(2);
    let killed = Instant::now();
    cluster.nodes[1].kill();
    assert_eq!(waiter.hear(), "error node 2", "it holds nothing");
    assert_eq!(arrived.hear(), "error node 2 maybe", "all may have arrived");
    assert!(killed.elapsed() < Duration::from_secs(20), "in the transport's time");
    await_that("the holder knows", || holder.say("holds held") == "false");
    assert_eq!(holder.say("release held"), "error node 2");
    assert_eq!(holder.say("claim it held x try"), "error node 2");
    assert_eq!(holder.say("open other lock owner on=2"), "error node 2");
    holder.does("close it");
    // It comes back, and is another life: what was opened before leads nowhere.
    cluster.nodes[1].restart();
    await_that("it is joined again", || joined_count(&cluster.nodes[2]) == 2);
    await_that("its names are opened again", || waiter.say("open new lock owner on=2") == "done");
    assert_eq!(waiter.say("claim it held x try"), "error node 2");
    is_held(&waiter.say("claim new held x wait"), false);
}

#[test]
fn a_grant_that_meets_a_hung_node_is_believed_by_one_side_only() {
    let cluster = Cluster::start("lock-ends-5");
    let mut there = cluster.program(2, "lock owner");
    let mut waiter = cluster.program(1, "lock owner");
    let mut holder = cluster.program(3, "lock owner");
    is_held(&holder.say("claim it held x wait"), false);
    waiter.send("claim it held x wait");
    cluster.await_waiting(1);
    there.send("claim it held x wait");
    cluster.await_waiting(2);
    // Granted to a node that does not hear it any more.
    cluster.nodes[0].signal(Signal::STOP);
    holder.does("release held");
    let answer = there.hear();
    assert!(answer.starts_with("held "), "{answer}");
    cluster.nodes[0].signal(Signal::CONT);
    // What it heard before it heard of the loss is void with the link.
    let heard = waiter.hear();
    if heard.starts_with("held ") {
        await_that("it is told", || waiter.say("holds held") == "false");
        assert_eq!(waiter.say("release held"), "error node 2");
    } else {
        assert_eq!(heard, "error node 2");
    }
    assert_eq!(there.say("holds held"), "true");
    await_that("it is joined again", || joined_count(&cluster.nodes[0]) == 2);
    await_that("its names are opened again", || waiter.say("open new lock owner on=2") == "done");
    assert_eq!(waiter.say("claim new other x try"), "late");
    there.does("release held");
    is_held(&waiter.say("claim new other x wait"), false);
}

#[test]
fn a_node_that_hangs_holds_nobody_up_and_loses_what_it_held() {
    let cluster = Cluster::start("lock-ends-6");
    let mut there = cluster.program(2, "lock owner");
    let mut holder = cluster.program(1, "lock owner");
    is_held(&holder.say("claim it held x wait"), false);
    cluster.nodes[0].signal(Signal::STOP);
    is_held(&there.say("claim it held x wait"), true);
    cluster.nodes[0].signal(Signal::CONT);
    await_that("the holder knows", || holder.say("holds held") == "false");
    assert_eq!(holder.say("release held"), "error node 2");
    assert_eq!(there.say("holds held"), "true");
}

#[test]
fn a_participant_whose_node_is_killed_breaks_the_barrier() {
    let mut cluster = Cluster::start("lock-ends-7");
    let mut all: Vec<_> = [1, 2, 3].map(|node| cluster.program(node, "barrier step 3")).into();
    all[1].send("arrive it wait");
    cluster.await_waiting(1);
    all[2].send("arrive it wait");
    cluster.await_waiting(2);
    cluster.nodes[0].kill();
    for program in &mut all[1..] {
        assert_eq!(program.hear(), "error broken 1 Died");
    }
}

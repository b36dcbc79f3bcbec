//! Regions that move to another node, while programs of three nodes go on with them, and nodes are killed.

use std::time::Duration;

use crate::support::cluster::{config, free_ports, joined_count, nodes, SecretFile};
use crate::support::programs::Program;
use crate::support::{await_that, Daemon};
use rustix::process::Signal;

fn memory(daemon: &Daemon, what: &str) -> u64 {
    daemon.status()["memory"][what].as_u64().unwrap()
}

/// A region on a node with bytes everywhere but in its first word.
fn owner(daemon: &Daemon, bytes: u64) -> Program {
    let mut owner = Program::start(daemon);
    assert_eq!(owner.say(&format!("allocate kv {bytes} name=kv")), "direct");
    owner.does(&format!("fill kv 5 8 {}", bytes - 8));
    owner
}

fn on(daemon: &Daemon, node: u64) -> Program {
    let mut program = Program::start(daemon);
    assert_eq!(program.say(&format!("on {node} map kv kv rwam")), format!("on {node}"));
    program
}

#[test]
fn programs_of_three_nodes_go_on_while_a_region_moves_from_node_to_node() {
    let secret = SecretFile::new("move-node-1", "7a");
    let [one, two, three] = nodes::<3>(&secret);
    let mut owner = owner(&one, 8 << 20);
    let mut near = Program::start(&one);
    assert_eq!(near.say("map kv kv rwa"), "direct");
    let (mut second, mut third) = (on(&two, 1), on(&three, 1));
    near.send("add kv 0 1 3000");
    second.send("add kv 0 1 1500");
    third.send("add kv 0 1 1500");
    let mut writer = Program::start(&one);
    writer.say("map kv kv rw");
    writer.send("refill kv 9 1000000 3000000 30");
    for node in [2, 3, 1, 2] {
        owner.does(&format!("move_to kv {node}"));
    }
    assert_eq!(writer.hear(), "same");
    near.hear();
    second.hear();
    third.hear();
    for program in [&mut owner, &mut near, &mut second, &mut third] {
        assert_eq!(program.say("add kv 0 0 1"), "6000");
        assert_eq!(program.say("check kv 5 8 999992"), "same");
        assert_eq!(program.say("check kv 9 1000000 3000000"), "same");
        assert_eq!(program.say("check kv 5 4000000 4388608"), "same");
        assert_eq!(program.say("size kv"), "8388608");
    }
    let places = [&mut owner, &mut near, &mut second, &mut third].map(|it| it.say("where kv"));
    assert_eq!(places, ["on 2", "on 2", "here", "on 2"]);
    assert_eq!((memory(&one, "regions"), memory(&two, "regions")), (0, 1));
    assert_eq!(memory(&three, "regions"), 0);
}

#[test]
fn a_region_is_on_the_other_node_what_it_was_and_its_name_leads_there() {
    let secret = SecretFile::new("move-node-2", "7b");
    let [one, two] = nodes::<2>(&secret);
    let mut owner = owner(&one, 3_000_000);
    owner.does("rename kv kv r");
    owner.does("appoint kv 4242 rw");
    owner.does("lasting kv yes");
    owner.does("move_to kv 2");
    let mut there = Program::start(&two);
    assert!(there.say("list").starts_with("listed kv:3000000:lasting:"), "{}", there.say("list"));
    assert_eq!(there.say("map kv kv rwam"), "direct");
    assert_eq!(there.say("check kv 5 8 2999992"), "same");
    let mut late = Program::start(&one);
    assert_eq!(late.say("list"), "listed");
    assert_eq!(late.say("map kv kv rw"), "on 2");
    assert_eq!(late.say("check kv 5 8 2999992"), "same");
    assert_eq!(owner.say("add kv 0 7 1"), "0");
    assert_eq!(there.say("add kv 0 0 1"), "7");
    await_that("nobody has its old bytes", || memory(&one, "bytes") == 0);
    assert_eq!(memory(&one, "departed"), 1);
    // The name is free here.
    assert_eq!(late.say("allocate own 64 name=kv"), "direct");
    assert_eq!(late.say("map again kv r"), "direct");
    there.does("free kv");
    assert_eq!(owner.say("read kv 0 8"), "error stale");
}

#[test]
fn a_region_lives_there_as_long_as_somebody_managed_it_here() {
    let secret = SecretFile::new("move-node-3", "7c");
    let [one, two] = nodes::<2>(&secret);
    let mut owner = owner(&one, 1_000_000);
    let mut manager = Program::start(&one);
    assert_eq!(manager.say("map kv kv rwam"), "direct");
    owner.does("move_to kv 2");
    owner.kill();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(memory(&two, "regions"), 1, "the other one manages it, and has not looked for it");
    assert_eq!(manager.say("check kv 5 8 999992"), "same");
    manager.does("drop kv");
    await_that("it ends with its last manager", || memory(&two, "regions") == 0);
    assert_eq!(memory(&one, "bytes"), 0);
}

#[test]
fn what_the_other_node_refuses_stays_and_nothing_is_left_there() {
    let secret = SecretFile::new("move-node-4", "7d");
    let ports = free_ports::<2>();
    let one = Daemon::with(&config(0, &ports, &secret), &[]);
    let limits = "[memory]\nbytes_per_user = 4000000\n";
    let two = Daemon::with(&format!("{}{limits}", config(1, &ports, &secret)), &[]);
    await_that("both are joined", || joined_count(&one) == 1 && joined_count(&two) == 1);
    let mut owner = owner(&one, 5_000_000);
    assert_eq!(owner.say("move_to kv 2"), "error not moved");
    assert_eq!(owner.say("move_to kv 7"), "error unreachable 0");
    assert_eq!(owner.say("check kv 5 8 4999992"), "same");
    // A name that another region has there.
    let mut there = Program::start(&two);
    there.say("allocate taken 64 name=small");
    assert_eq!(owner.say("allocate small 100000 name=small"), "direct");
    owner.does("fill small 3 0 100000");
    assert_eq!(owner.say("move_to small 2"), "error not moved");
    assert_eq!(owner.say("check small 3 0 100000"), "same");
    await_that("what was staged has ended", || memory(&two, "regions") == 1);
    // Somebody stays in it.
    let mut other = Program::start(&one);
    other.say("map kv small rw");
    other.does("stay kv 0 64");
    assert_eq!(owner.say("move_to small 2"), format!("error held {}", other.pid()));
    assert_eq!((memory(&one, "moving"), memory(&two, "regions")), (0, 1));
}

#[test]
fn a_target_that_is_killed_leaves_the_region_where_it_was() {
    let secret = SecretFile::new("move-node-5", "7e");
    let [one, mut two] = nodes::<2>(&secret);
    let mut owner = owner(&one, 60 << 20);
    let mut other = Program::start(&one);
    other.say("map kv kv rwa");
    owner.send("move_to kv 2");
    await_that("it is copied", || memory(&two, "regions") == 1 && memory(&one, "moving") == 1);
    other.send("add kv 0 1 10");
    two.kill();
    let answer = owner.hear();
    assert_eq!(answer, "error not moved");
    assert_eq!(other.hear(), "9");
    assert_eq!(owner.say("check kv 5 8 62914552"), "same");
    assert_eq!(owner.say("where kv"), "here");
}

#[test]
fn a_source_that_is_killed_leaves_no_orphan() {
    let secret = SecretFile::new("move-node-6", "7f");
    let [mut one, two] = nodes::<2>(&secret);
    let mut owner = owner(&one, 60 << 20);
    owner.send("move_to kv 2");
    await_that("it is copied", || memory(&two, "regions") == 1);
    let mut there = Program::start(&two);
    assert_eq!(there.say("list"), "listed", "nobody sees it before");
    one.kill();
    await_that("it ends with the link", || memory(&two, "regions") == 0);
    assert_eq!(memory(&two, "bytes"), 0);
}

#[test]
fn a_mover_that_is_killed_ends_no_move_and_a_region_that_is_freed_does() {
    let secret = SecretFile::new("move-node-7", "80");
    let [one, two] = nodes::<2>(&secret);
    let mut owner = owner(&one, 30 << 20);
    let mut mover = Program::start(&one);
    mover.say("map kv kv rwm");
    mover.send("move_to kv 2");
    await_that("it moves", || memory(&one, "moving") == 1);
    mover.kill();
    assert_eq!(owner.say("check kv 5 8 31457272"), "same");
    assert_eq!(owner.say("where kv"), "on 2");
    let mut other = Program::start(&one);
    assert_eq!(other.say("map kv kv rwm"), "on 2");
    other.send("move_to kv 1");
    await_that("it moves back", || memory(&two, "moving") == 1);
    owner.does("free kv");
    let answer = other.hear();
    assert!(answer == "error stale" || answer == "error not moved", "{answer}");
    await_that("it is nowhere", || memory(&one, "regions") + memory(&two, "regions") == 0);
}

#[test]
fn a_node_that_stands_still_in_the_midst_leaves_one_region_and_every_count() {
    let secret = SecretFile::new("move-node-8", "81");
    let [one, two] = nodes::<2>(&secret);
    let mut owner = Program::start(&one);
    owner.say("allocate kv 300000 name=kv lasting");
    owner.does("fill kv 5 8 299992");
    for time in 0..6u64 {
        let there = memory(&two, "regions");
        owner.send(if there == 0 { "move_to kv 2" } else { "move_to kv 1" });
        std::thread::sleep(Duration::from_micros(300 * time));
        two.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(1500));
        two.signal(Signal::CONT);
        owner.hear();
        await_that("both are joined", || joined_count(&one) == 1 && joined_count(&two) == 1);
        await_that("it is on one node", || {
            memory(&one, "moving") + memory(&two, "moving") == 0
                && memory(&one, "regions") + memory(&two, "regions") == 1
        });
        // Handles there ended with the link.
        let mut fresh = Program::start(&one);
        let node = if memory(&one, "regions") == 1 { 1 } else { 2 };
        let mapped = fresh.say(&format!("on {node} map kv kv rwam"));
        assert!(mapped == "direct" || mapped == format!("on {node}"), "{mapped}");
        assert_eq!(fresh.say("add kv 0 1 1"), time.to_string());
        assert_eq!(fresh.say("check kv 5 8 299992"), "same");
        owner = fresh;
    }
}

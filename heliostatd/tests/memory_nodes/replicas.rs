//! Memory regions on several nodes: real control planes that are killed and stopped in the middle of
//! writes, and programs that hear nothing of it.

use std::time::Duration;

use crate::support::await_that;
use crate::support::cluster::{nodes, SecretFile};
use crate::support::histories::record;
use crate::support::programs::Program;
use crate::support::registry::{self, EtcdServer};
use crate::support::Daemon;
use rustix::process::Signal;

/// Nodes 1 and on. The first keeps the records, and none of these tests kills it.
struct Cluster<const COUNT: usize> {
    daemons: [Daemon; COUNT],
    _secret: SecretFile,
}

impl<const COUNT: usize> Cluster<COUNT> {
    fn start(test: &str) -> Cluster<COUNT> {
        let secret = SecretFile::new(test, "7c");
        Cluster { daemons: nodes::<COUNT>(&secret), _secret: secret }
    }

    fn node(&self, number: usize) -> &Daemon {
        &self.daemons[number - 1]
    }

    fn program(&self, number: usize) -> Program {
        Program::start(self.node(number))
    }

    /// Makes a region on three nodes, of which node 2 has the primary; the program that did.
    fn region(&self, bytes: u64) -> Program {
        let mut maker = self.program(2);
        assert_eq!(maker.say(&format!("allocate kv {bytes} name=kv replicas=3")), "on 2");
        maker
    }

    /// Another program with a handle on it.
    fn user(&self, number: usize) -> Program {
        let mut program = self.program(number);
        assert_eq!(program.say("map kv kv rwa"), "on 2");
        program
    }

    /// What a node says of its replica: the primary, how many backups, and the epoch.
    fn seen_by(&self, number: usize) -> Option<(u64, usize, u64)> {
        let status = self.node(number).status();
        let all = status["replicas"].as_array()?;
        let its =
            all.iter().find(|it| it["name"].as_str().is_some_and(|it| it.ends_with("/kv")))?;
        let backups = its["backups"].as_array()?.len();
        Some((its["primary"].as_u64()?, backups, its["epoch"].as_u64()?))
    }
}

#[test]
fn programs_of_all_nodes_use_a_region_on_three_by_its_name() {
    let cluster = Cluster::<3>::start("replicas-1");
    let mut maker = cluster.region(1 << 20);
    let (mut one, mut three) = (cluster.user(1), cluster.user(3));
    await_that("it is seen", || cluster.seen_by(1) == Some((2, 2, 1)));
    one.does("write kv 8 8-bytes!");
    assert_eq!(three.say("read kv 8 8"), "read 8-bytes!");
    for (seed, bytes) in [8, 4096, 16_385, 262_145, 1_000_000].into_iter().enumerate() {
        one.does(&format!("fill kv {seed} 77 {bytes}"));
        assert_eq!(three.say(&format!("check kv {seed} 77 {bytes}")), "same", "{bytes}");
        maker.does(&format!("fill kv {} 77 {bytes}", seed + 50));
        assert_eq!(one.say(&format!("check kv {} 77 {bytes}", seed + 50)), "same", "{bytes}");
    }
    three.does("set kv 0 100 0");
    assert_eq!(three.say("add kv 0 5 10"), "45");
    assert_eq!(one.say("compare_swap kv 0 50 7"), "50");
    assert_eq!(one.say("compare_swap kv 0 50 8"), "7", "it was another");
    assert_eq!(maker.say("swap kv 0 9"), "7");
    one.does("fill kv 3 100 300000");
    one.does("copy kv 100 kv 700 300000");
    assert_eq!(three.say("check kv 3 100 600"), "same", "copied as memmove does");
}

#[test]
fn wrong_uses_have_the_errors_of_any_region() {
    let cluster = Cluster::<3>::start("replicas-2");
    let mut maker = cluster.region(4096);
    let mut one = cluster.user(1);
    assert_eq!(one.say("size kv"), "4096");
    for line in ["read kv 4090 7", "write kv 4096 x", "set kv 0 4097 1", "add kv 4096 1 1"] {
        assert!(one.say(line).starts_with("error range"), "{line}: {}", one.say(line));
    }
    assert_eq!(one.say("map only kv r"), "on 2");
    assert_eq!(one.say("write only 0 x"), "error denied write");
    assert_eq!(one.say("free only"), "error refused Denied 0");
    assert_eq!(one.say("grow kv 8192"), "error refused BadState 0");
    assert_eq!(one.say("map none other r"), "error refused NotFound 0");
    assert_eq!(one.say("allocate again 64 name=kv replicas=2"), "error refused BadState 0");
    assert_eq!(one.say("allocate wide 64 name=wide replicas=4"), "error refused Unreachable 0");
    maker.does("free kv");
    assert_eq!(one.say("read kv 0 1"), "error stale");
    assert_eq!(one.say("map anew kv r"), "error refused NotFound 0");
    await_that("its replicas are gone", || (1..=3).all(|it| cluster.seen_by(it).is_none()));
    assert_eq!(one.say("allocate anew 64 name=kv replicas=2"), "on 1");
}

#[test]
fn nothing_is_lost_when_the_node_of_the_primary_is_killed_in_the_middle_of_writes() {
    kill_in_the_middle_of_writes(Cluster::start("replicas-3"));
}

#[test]
fn nor_where_a_registry_keeps_the_records() {
    let Some(server) = EtcdServer::start("replicas") else { return };
    let secret = SecretFile::new("replicas-7", "7d");
    let daemons = registry::nodes::<3>(&secret, &server);
    kill_in_the_middle_of_writes(Cluster { daemons, _secret: secret });
}

fn kill_in_the_middle_of_writes(mut cluster: Cluster<3>) {
    let _maker = cluster.region(4 << 20);
    let mut adders: Vec<Program> = [1, 1, 3, 3].map(|it| cluster.user(it)).into();
    let mut writers: Vec<Program> = [1, 3].map(|it| cluster.user(it)).into();
    for adder in &mut adders {
        adder.send("add kv 0 1 1000");
    }
    for (number, writer) in writers.iter_mut().enumerate() {
        let offset = 100_000 + 1_000_000 * number;
        writer.send(&format!("refill kv {number} {offset} 300000 20"));
    }
    std::thread::sleep(Duration::from_millis(300));
    cluster.daemons[1].kill();
    for adder in &mut adders {
        let answer = adder.hear();
        assert!(answer.parse::<u64>().is_ok(), "{answer}");
    }
    for writer in &mut writers {
        assert_eq!(writer.hear(), "same", "what was written is read");
    }
    assert_eq!(adders[0].say("add kv 0 0 1"), "4000", "each was done once");
    assert_eq!(adders[3].say("add kv 0 0 1"), "4000", "on all nodes");
    await_that("one of both leads, the other follows", || {
        cluster.seen_by(1).is_some_and(|it| [1, 3].contains(&it.0) && it.1 == 1)
    });
    let mut late = cluster.program(3);
    assert!(late.say("map kv kv rwa").starts_with("on "));
    assert_eq!(late.say("check kv 0 100000 300000"), "same");
}

#[test]
fn a_primary_that_was_stopped_and_wakes_up_late_changes_nothing() {
    let cluster = Cluster::<3>::start("replicas-4");
    let mut maker = cluster.region(4096);
    let (mut one, mut three) = (cluster.user(1), cluster.user(3));
    three.send("add kv 0 1 150");
    maker.send("add kv 8 1 4000");
    std::thread::sleep(Duration::from_millis(100));
    cluster.node(2).signal(Signal::STOP);
    assert!(three.hear().parse::<u64>().is_ok());
    let other = one.say("add kv 8 0 1");
    one.does("write kv 16 anew----");
    cluster.node(2).signal(Signal::CONT);
    // Its own programs go on by the new primary, and none of their additions is lost or made twice.
    let told = maker.hear();
    let last: u64 = told.parse().unwrap_or_else(|_| panic!("{told}"));
    assert!(last >= other.parse().unwrap());
    assert_eq!(maker.say("read kv 16 8"), "read anew----");
    assert_eq!(maker.say("add kv 8 0 1"), "4000");
    assert_eq!(one.say("add kv 8 0 1"), "4000");
    assert_eq!(one.say("add kv 0 0 1"), "150");
}

#[test]
fn another_node_takes_the_place_of_a_backup_while_writes_go_on() {
    let mut cluster = Cluster::<4>::start("replicas-5");
    let _maker = cluster.region(2 << 20);
    await_that("on those with small numbers", || cluster.seen_by(3) == Some((2, 2, 1)));
    let (mut one, mut four) = (cluster.user(1), cluster.user(4));
    four.does("fill kv 1 500000 1000000");
    one.send("add kv 0 1 1000");
    cluster.daemons[2].kill();
    assert!(one.hear().parse::<u64>().is_ok());
    await_that("node 4 has it", || cluster.seen_by(4).is_some_and(|it| it.1 == 2));
    await_that("all of it", || cluster.seen_by(2).is_some_and(|it| it.1 == 2));
    cluster.daemons[1].kill();
    assert_eq!(one.say("add kv 0 0 1"), "1000");
    assert_eq!(four.say("check kv 1 500000 1000000"), "same");
    assert_eq!(four.say("add kv 0 0 1"), "1000");
}

#[test]
fn words_have_one_order_whoever_dies() {
    let mut cluster = Cluster::<3>::start("replicas-6");
    let _maker = cluster.region(4096);
    let mut programs: Vec<Program> = [1, 3, 1].map(|it| cluster.user(it)).into();
    let recorded = record(&mut programs, cluster.node(1).folder(), "kv", "800 4");
    std::thread::sleep(Duration::from_millis(60));
    cluster.daemons[1].kill();
    recorded.judge_words(&mut programs);
}

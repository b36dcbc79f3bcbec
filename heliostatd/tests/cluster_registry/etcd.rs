//! Nodes that know each other by etcd alone: who is a member is one answer for all.

use std::time::Instant;

use crate::support::await_that;
use crate::support::cluster::{
    incarnation, joined_count, list, list_as, state, words_of_failed_start, SecretFile,
};
use crate::support::programs::Program;
use crate::support::registry::{
    await_all_joined, config, is_one_epoch, nodes, told, EtcdServer, LEASE,
};
use crate::support::Daemon;
use heliostat_abi::cluster::{ClusterRequest, MemberState};
use rustix::process::Signal;

#[test]
fn nodes_without_a_list_join_each_other_in_one_epoch() {
    let Some(server) = EtcdServer::start("list") else { return };
    let secret = SecretFile::new("registry-1", "b1");
    let daemons = nodes::<3>(&secret, &server);
    let listed = list(&daemons[0]);
    let states: Vec<_> = listed.nodes.iter().map(|it| (it.node, it.state)).collect();
    let (here, joined) = (MemberState::Here, MemberState::Joined);
    assert_eq!(states, [(1, here), (2, joined), (3, joined)]);
    assert_eq!((listed.registry.kind, listed.registry.members), (heliostat_abi::cluster::ETCD, 3));
    assert!(listed.registry.lease_ms > 0 && listed.registry.lease_ms <= LEASE.as_millis() as u64);
    // Longer than a lease, and nothing has changed.
    std::thread::sleep(LEASE * 2);
    assert_eq!(list(&daemons[2]).epoch, listed.epoch);
    assert_eq!(daemons[0].status()["cluster"]["registry"]["is_member"], true);
}

#[test]
fn a_killed_node_is_declared_dead_to_all_and_comes_back_in_another_epoch() {
    let Some(server) = EtcdServer::start("killed") else { return };
    let secret = SecretFile::new("registry-2", "b2");
    let mut daemons = nodes::<3>(&secret, &server);
    let (epoch, before) = (list(&daemons[0]).epoch, incarnation(&daemons[0], 3));
    let start = Instant::now();
    daemons[2].kill();
    await_that("it is declared dead", || {
        daemons[..2].iter().all(|it| list(it).registry.members == 2)
    });
    // The lease, and what a busy machine takes: etcd looks at its leases twice a second.
    assert!(start.elapsed() < LEASE * 4, "{:?}", start.elapsed());
    let others = [&daemons[0], &daemons[1]];
    await_that("nobody seeks it", || others.iter().all(|it| state(it, 3).is_none()));
    await_that("the two have one epoch", || is_one_epoch(&others));
    assert!(list(&daemons[0]).epoch > epoch);
    daemons[2].restart();
    await_all_joined(&daemons.each_ref());
    assert!(incarnation(&daemons[0], 3) > before);
}

#[test]
fn a_node_that_ends_in_order_is_gone_at_once() {
    let Some(server) = EtcdServer::start("order") else { return };
    let secret = SecretFile::new("registry-3", "b3");
    let daemons = nodes::<2>(&secret, &server);
    daemons[1].signal(Signal::TERM);
    await_that("it is no member", || list(&daemons[0]).registry.members == 1);
    assert_eq!(state(&daemons[0], 2), None);
}

#[test]
fn a_node_that_is_declared_dead_is_left_though_its_link_works_and_stops_by_itself() {
    let Some(server) = EtcdServer::start("dead") else { return };
    let secret = SecretFile::new("registry-8", "b8");
    let daemons = nodes::<3>(&secret, &server);
    let lives = [1, 2].map(|node| incarnation(&daemons[2], node));
    let mut owner = Program::start(&daemons[1]);
    owner.say("allocate kv 4096 name=kv");
    let mut user = Program::start(&daemons[0]);
    assert_eq!(user.say("on 2 map kv kv rwa"), "on 2");
    server.delete("/heliostat/members/1");
    await_that("it has stopped and come back", || {
        [&daemons[1], &daemons[2]].iter().all(|it| incarnation(it, 1) > lives[0])
    });
    await_all_joined(&daemons.each_ref());
    assert_eq!(incarnation(&daemons[2], 2), lives[1], "the others have gone on");
    assert_eq!(daemons[1].status()["cluster"]["registry"]["is_member"], true);
    let answer = user.say("write kv 0 late!");
    assert!(answer.starts_with("error "), "{answer}");
    assert_eq!(owner.say("read kv 0 5"), "read .....");
}

/// Whether every thread of a daemon is stopped: the signal reaches one of them first.
fn is_stopped(daemon: &Daemon) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    let mut stats = tasks.map(|it| std::fs::read_to_string(it.unwrap().path().join("stat")));
    stats.all(|it| it.is_ok_and(|it| it.rsplit_once(") ").is_some_and(|it| it.1.starts_with('T'))))
}

#[test]
fn a_node_that_was_stopped_past_its_lease_neither_writes_nor_serves_late() {
    let Some(server) = EtcdServer::start("stopped") else { return };
    let secret = SecretFile::new("registry-4", "b4");
    let daemons = nodes::<3>(&secret, &server);
    let [one, two, three] = &daemons;
    let mut owner = Program::start(two);
    owner.say("allocate kv 4096 name=kv");
    let (mut late, mut well) = (Program::start(one), Program::start(three));
    for program in [&mut late, &mut well] {
        assert_eq!(program.say("on 2 map kv kv rwa"), "on 2");
    }
    late.does("write kv 0 early");
    assert_eq!(well.say("read kv 0 5"), "read early");
    let epoch = list(two).epoch;
    one.signal(Signal::STOP);
    await_that("all its threads are stopped", || is_stopped(one));
    // It is in the middle of this: its server loop and its node's thread are stopped.
    late.send("write kv 0 late!");
    await_that("it is declared dead", || {
        [two, three].iter().all(|it| list(it).registry.members == 2)
    });
    well.does("write kv 0 newer");
    one.signal(Signal::CONT);
    let answer = late.hear();
    assert_eq!(owner.say("read kv 0 5"), "read newer", "{answer}");
    assert!(answer.starts_with("error "), "{answer}");
    assert_eq!(well.say("read kv 0 5"), "read newer");
    // It comes back as another life, and what was granted to the first is void.
    await_all_joined(&daemons.each_ref());
    assert!(list(two).epoch > epoch);
    let answer = late.say("write kv 0 again");
    assert!(answer.starts_with("error "), "{answer}");
    assert_eq!(owner.say("read kv 0 5"), "read newer");
    assert!(one.status()["cluster"]["registry"]["is_member"] == true);
    let mut anew = Program::start(one);
    assert_eq!(anew.say("on 2 map kv kv rwa"), "on 2");
    anew.does("write kv 0 after");
    assert_eq!(owner.say("read kv 0 5"), "read after");
}

#[test]
fn links_go_on_while_the_lease_lasts_and_end_with_it_and_etcd_brings_all_back() {
    let Some(mut server) = EtcdServer::start("restarted") else { return };
    let secret = SecretFile::new("registry-5", "b5");
    let daemons = nodes::<2>(&secret, &server);
    let before = incarnation(&daemons[0], 2);
    // Back within the lease: nobody has noticed.
    server.restart();
    std::thread::sleep(LEASE * 2);
    assert_eq!((joined_count(&daemons[0]), incarnation(&daemons[0], 2)), (1, before));
    server.kill();
    await_that("the leases are over", || {
        daemons.iter().all(|it| told(it)["is_member"] == false && joined_count(it) == 0)
    });
    let why = told(&daemons[0])["why"].as_str().unwrap().to_owned();
    assert!(why.contains(&server.endpoint()) && why.contains("refused"), "{why}");
    server.restart();
    await_all_joined(&daemons.each_ref());
    assert!(incarnation(&daemons[0], 2) > before);
}

#[test]
fn a_registry_that_is_none_is_named_at_the_start() {
    let secret = SecretFile::new("registry-6", "b6");
    let words = words_of_failed_start(&config(1, &secret, "etcd:127.0.0.1:2379"));
    let wanted = "cluster.registry: \"127.0.0.1:2379\" is no endpoint of etcd: http://HOST:PORT is";
    assert!(words.contains(wanted), "{words}");
    // One that is only away is waited for, and said.
    let daemon = Daemon::with(&config(1, &secret, "etcd:http://127.0.0.1:1"), &[]);
    await_that("it says why", || told(&daemon)["why"].is_string());
    let why = told(&daemon)["why"].as_str().unwrap().to_owned();
    assert!(why.contains("http://127.0.0.1:1: ") && why.contains("refused"), "{why}");
    assert_eq!(list(&daemon).registry.lease_ms, 0);
}

#[test]
fn hostile_records_of_members_make_nobody_a_member() {
    let Some(server) = EtcdServer::start("hostile") else { return };
    let secret = SecretFile::new("registry-7", "b7");
    let daemons = nodes::<2>(&secret, &server);
    let long = "x".repeat(100_000);
    for (key, value) in [
        ("/heliostat/members/9", "nonsense"),
        ("/heliostat/members/10", "1 0 tcp:127.0.0.1:1"),
        ("/heliostat/members/11", "1 99999999999999999999 tcp:127.0.0.1:1"),
        ("/heliostat/members/12", "1 5 tcp:127.0.0.1:1 more"),
        ("/heliostat/members/13", long.as_str()),
        ("/heliostat/members/65536", "1 5 tcp:127.0.0.1:1"),
        ("/heliostat/members/07", "1 5 tcp:127.0.0.1:1"),
        ("/heliostat/members/", "1 5 tcp:127.0.0.1:1"),
        ("/heliostat/members/UPPER", "1 5 tcp:127.0.0.1:1"),
        ("/heliostat/members/14", "1 5 not-an-address"),
        ("/heliostat/members/15", "1 5 udp:[::1]:99999"),
    ] {
        server.put(key, value);
    }
    // One that could be a node, and is not there.
    server.put("/heliostat/members/20", "1 5 tcp:127.0.0.1:1");
    let numbers = |daemon: &Daemon| -> Vec<u64> {
        let listed = list_as(daemon, &ClusterRequest::Nodes { from: 3 });
        listed.nodes.into_iter().map(|it| it.node).collect()
    };
    await_that("all was heard", || numbers(&daemons[0]) == [14, 15, 20]);
    // Those two have no address that leads anywhere, and nobody is sought by it.
    let sought = daemons[0].status()["cluster"]["nodes"].as_array().unwrap().clone();
    let of = |node: u64| sought.iter().find(|it| it["node"] == node).unwrap().clone();
    assert_eq!((&of(14)["address"], &of(15)["address"]), (&"".into(), &"".into()));
    assert_eq!(of(14)["state"], "away");
    assert_eq!(joined_count(&daemons[0]), 1);
    // A node that starts among them.
    let third = Daemon::with(&config(3, &secret, &format!("etcd:{}", server.endpoint())), &[]);
    await_that("it is joined", || joined_count(&third) == 2);
    // Somebody takes a node's record: it stops, and comes back once it is free again.
    server.put("/heliostat/members/1", "1 18446744073709551615 tcp:127.0.0.1:1");
    await_that("it stops", || told(&daemons[0])["is_member"] == false);
    let why = || told(&daemons[0])["why"].as_str().unwrap_or_default().to_owned();
    await_that("it says why", || why().contains("a later life of node 1 is registered"));
    await_that("others have left it", || joined_count(&third) == 1);
}

//! Nodes of a cluster: they join, leave and lose each other, and ask each other.

mod support;

use std::time::Duration;

use heliostat_abi::cluster::{ClusterRequest, MemberState};
use heliostat_abi::code::Code;
use heliostat_abi::session::record::Reply;
use support::cluster::{
    ask, config, free_ports, incarnation, join, joined_count, list, list_as, nodes, state,
    SecretFile,
};
use support::{await_that, refused, Daemon};

#[test]
fn three_nodes_join_each_other_and_tell_of_each_other() {
    let secret = SecretFile::new("three", "a1");
    let daemons = nodes::<3>(&secret);
    let listed = list(&daemons[1]);
    let states: Vec<_> = listed.nodes.iter().map(|it| (it.node, it.state)).collect();
    let (here, joined) = (MemberState::Here, MemberState::Joined);
    assert_eq!((listed.own, states), (2, vec![(1, joined), (2, here), (3, joined)]));
    assert!(listed.epoch >= 2);
    await_that("the way there and back is measured", || {
        let others = list(&daemons[1]).nodes.into_iter().filter(|it| it.state == joined);
        others.into_iter().all(|it| it.round_trip_ns > 0)
    });
    // As another node sees it: that one is asked.
    let elsewhere = list_as(&daemons[0], &ClusterRequest::NodesOf { node: 3, from: 2 });
    let states: Vec<_> = elsewhere.nodes.iter().map(|it| (it.node, it.state)).collect();
    assert_eq!((elsewhere.own, states), (3, vec![(2, joined), (3, here)]));
    let own = list_as(&daemons[0], &ClusterRequest::NodesOf { node: 1, from: 0 });
    assert_eq!(own.own, 1);
}

#[test]
fn a_killed_node_is_lost_and_joined_again_in_a_later_life() {
    let secret = SecretFile::new("killed", "a2");
    let mut daemons = nodes::<3>(&secret);
    let before = incarnation(&daemons[0], 3);
    let epoch = list(&daemons[0]).epoch;
    let start = std::time::Instant::now();
    daemons[2].kill();
    await_that("both others have lost it", || {
        daemons[..2].iter().all(|it| state(it, 3) != Some(MemberState::Joined))
    });
    assert!(start.elapsed() < Duration::from_secs(10), "the transport's limit is one second");
    assert_eq!(joined_count(&daemons[0]), 1, "the third is none of it");
    let unreachable = ask(&daemons[0], &ClusterRequest::NodesOf { node: 3, from: 0 });
    assert_eq!(unreachable, refused(Code::Unreachable));
    daemons[2].restart();
    await_that("it is joined again", || daemons.iter().all(|it| joined_count(it) == 2));
    assert!(incarnation(&daemons[0], 3) > before);
    assert!(list(&daemons[0]).epoch >= epoch + 2);
}

#[test]
fn a_node_that_was_left_stays_away_until_it_is_joined_by_command() {
    let secret = SecretFile::new("left", "a3");
    let mut daemons = nodes::<2>(&secret);
    assert_eq!(ask(&daemons[0], &ClusterRequest::Leave { node: 2 }), Reply::Done);
    await_that("it is left on both sides", || {
        daemons.iter().zip([2, 1]).all(|(it, node)| state(it, node) == Some(MemberState::Left))
    });
    daemons[1].restart();
    await_that("it came and was left again", || state(&daemons[1], 1) == Some(MemberState::Left));
    assert_eq!(state(&daemons[0], 2), Some(MemberState::Left));
    assert_eq!(ask(&daemons[0], &join(2)), Reply::Done);
    await_that("it is joined", || daemons.iter().all(|it| joined_count(it) == 1));
    assert_eq!(ask(&daemons[0], &ClusterRequest::Leave { node: 0 }), Reply::Done);
    await_that("all are left", || daemons.iter().all(|it| joined_count(it) == 0));
    assert_eq!(ask(&daemons[0], &join(1)), refused(Code::BadState), "it is this node");
    assert_eq!(ask(&daemons[0], &join(9)), refused(Code::NotFound));
    assert_eq!(ask(&daemons[0], &ClusterRequest::Leave { node: 9 }), refused(Code::NotFound));
}

#[test]
fn a_node_that_ends_in_order_is_left_and_comes_back_by_itself() {
    let secret = SecretFile::new("ends", "a4");
    let mut daemons = nodes::<2>(&secret);
    daemons[1].signal(rustix::process::Signal::TERM);
    await_that("it said goodbye", || state(&daemons[0], 2) == Some(MemberState::Left));
    daemons[1].restart();
    await_that("it is joined again", || daemons.iter().all(|it| joined_count(it) == 1));
}

#[test]
fn nodes_join_with_no_more_than_the_shipped_unit_gives_them() {
    let secret = SecretFile::new("unit", "a6");
    let ports = free_ports::<2>();
    let daemons = [0, 1].map(|at| Daemon::as_unit(&config(at, &ports, &secret)));
    await_that("they are joined", || daemons.iter().all(|it| joined_count(it) == 1));
}

#[test]
fn without_a_cluster_there_is_nothing_to_ask_of_it() {
    let daemon = Daemon::start();
    let answer = ask(&daemon, &ClusterRequest::Nodes { from: 0 });
    assert_eq!(answer, refused(Code::BadState));
    assert!(daemon.status()["cluster"].is_null());
}

#[test]
fn a_port_that_is_taken_and_a_secret_of_others_are_said_at_the_start() {
    use std::os::unix::fs::PermissionsExt;
    let secret = SecretFile::new("start", "a5");
    let ports = free_ports::<2>();
    let text = config(0, &ports, &secret);
    let _taken = std::net::TcpListener::bind(("127.0.0.1", ports[0])).unwrap();
    let words = support::cluster::words_of_failed_start(&text);
    assert!(words.contains(&format!("cluster.listen: tcp:127.0.0.1:{}: ", ports[0])), "{words}");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&secret.0, open).unwrap();
    let words = support::cluster::words_of_failed_start(&text);
    assert!(words.contains("its mode is 644"), "{words}");
}

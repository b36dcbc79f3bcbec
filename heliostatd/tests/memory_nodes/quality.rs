//! Classes of operations on other nodes, and rates that the node with the region holds others to.

use std::time::{Duration, Instant};

use crate::support::await_that;
use crate::support::cluster::{config, figure, free_ports, joined_count, SecretFile};
use crate::support::programs::Program;
use crate::support::Daemon;
use heliostat_abi::session::record::Request;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Two nodes, 1 and 2, each with something more in its configuration.
fn pair(test: &str, more: [&str; 2]) -> ([Daemon; 2], SecretFile) {
    let (secret, ports) = (SecretFile::new(test, "9c"), free_ports::<2>());
    let daemons =
        [0, 1].map(|at| Daemon::with(&format!("{}{}", config(at, &ports, &secret), more[at]), &[]));
    await_that("they are joined", || daemons.iter().all(|it| joined_count(it) == 1));
    (daemons, secret)
}

/// A region of a name on node 2, by a program there and by one of node 1.
fn both(daemons: &[Daemon; 2], name: &str) -> (Program, Program) {
    let (mut there, mut here) = (Program::start(&daemons[1]), Program::start(&daemons[0]));
    assert_eq!(there.say(&format!("allocate kv {} name={name}", 8 * MIB)), "direct");
    assert_eq!(here.say(&format!("on 2 map kv {name} rwa")), "on 2");
    (there, here)
}

const CLASSES: &str = "[[class]]\nnames = [\"/memory/hot/*\"]\nclass = \"high\"\n\
     [[class]]\nnames = [\"/memory/bulk/*\"]\nclass = \"low\"\n";

#[test]
fn operations_are_of_the_class_that_their_regions_name_has() {
    let (daemons, _secret) = pair("classes", [CLASSES, CLASSES]);
    for (name, class) in [("hot/a", "high"), ("bulk/a", "low"), ("plain", "normal")] {
        let (mut there, mut here) = both(&daemons, name);
        let before = figure(&daemons[0], 2, class, "calls");
        for seed in 0..4 {
            here.does(&format!("fill kv {seed} 77 {}", 5 * MIB));
            assert_eq!(there.say(&format!("check kv {seed} 77 {}", 5 * MIB)), "same", "{name}");
            assert_eq!(here.say(&format!("check kv {seed} 77 {}", 5 * MIB)), "same", "{name}");
        }
        await_that("they are counted", || figure(&daemons[0], 2, class, "calls") >= before + 80);
        await_that("also there", || figure(&daemons[1], 1, class, "served") >= 80);
        await_that("nothing is left", || figure(&daemons[0], 2, class, "under_way") == 0);
        assert_eq!(figure(&daemons[0], 2, class, "refused"), 0);
    }
    let bytes = |class| figure(&daemons[0], 2, class, "bytes");
    assert!(bytes("high") > 20 * MIB && bytes("low") > 20 * MIB);
    let metrics = daemons[0].visit().text(&Request::Metrics);
    assert!(metrics.contains("heliostat_cluster_class_calls_total{node=\"2\",class=\"high\"}"));
}

#[test]
fn a_program_may_choose_a_lower_class_and_no_higher_one() {
    let (daemons, _secret) = pair("chosen", [CLASSES, CLASSES]);
    let calls = |class| figure(&daemons[0], 2, class, "calls");
    let (_there, mut here) = both(&daemons, "hot/a");
    here.does("class kv low");
    here.does("fill kv 1 0 1000000");
    await_that("it is low", || calls("low") >= 4);
    assert_eq!(calls("high"), 0);
    here.does("class kv high");
    here.does("fill kv 1 0 1000000");
    await_that("it is high again", || calls("high") >= 4);
    let (mut there, mut here) = both(&daemons, "bulk/a");
    let before = calls("high");
    here.does("class kv high");
    here.does("fill kv 1 0 1000000");
    await_that("it is low", || calls("low") >= 8);
    assert_eq!(calls("high"), before);
    assert_eq!(there.say("class kv low"), "error refused BadRecord 0", "not of another node");
}

#[test]
fn a_node_has_no_higher_class_here_than_it_may() {
    let most = "[[class]]\nnodes = [1]\nclass = \"low\"\n";
    let (daemons, _secret) = pair("ceiling", [CLASSES, most]);
    let (_there, mut here) = both(&daemons, "hot/a");
    here.does("fill kv 1 0 1000000");
    await_that("it is counted", || figure(&daemons[0], 2, "high", "calls") > 0);
    await_that("it is low there", || figure(&daemons[1], 1, "low", "served") > 0);
    assert_eq!(figure(&daemons[1], 1, "high", "served"), 0, "whatever it says");
    let quality = daemons[1].status()["cluster"]["quality"].clone();
    assert_eq!(quality["most_for_nodes"]["1"], "low");
}

#[test]
fn without_classes_there_is_one_and_nothing_is_said_of_it() {
    let (daemons, _secret) = pair("none", ["", "[quality]\nscheme = \"both\"\n"]);
    let (mut there, mut here) = both(&daemons, "hot/a");
    here.does("fill kv 3 0 8388608");
    assert_eq!(there.say("check kv 3 0 8388608"), "same");
    assert!(daemons.iter().all(|it| it.status()["cluster"]["quality"] == Value::Null));
}

/// A flood of low writes and a reader of a high word, with both schemes: all bytes are right, low ones
/// are slowed, and none is lost.
#[test]
fn with_both_schemes_low_writes_are_slowed_and_come_to_their_end() {
    let quality = format!("{CLASSES}[quality]\nscheme = \"both\"\nround_trip_us = 1\n");
    let (daemons, _secret) = pair("both", [&quality, &quality]);
    let (mut there, mut bulk) = both(&daemons, "bulk/a");
    let (_owner, mut hot) = both(&daemons, "hot/a");
    bulk.send(&format!("fill kv 5 0 {}", 8 * MIB));
    // Each is later than a microsecond.
    let slowed = || daemons[0].status()["cluster"]["quality"]["ways"]["2"]["slowed"].as_u64();
    let mut rounds = 0;
    while slowed() == Some(0) && rounds < 2000 {
        assert!(hot.say("add kv 0 1 100").parse::<u64>().is_ok());
        rounds += 1;
        if rounds % 20 == 0 {
            assert_eq!(bulk.hear(), "done");
            bulk.send(&format!("fill kv 5 0 {}", 8 * MIB));
        }
    }
    assert!(slowed() > Some(0), "after {rounds} rounds");
    assert_eq!(bulk.hear(), "done");
    assert_eq!(there.say(&format!("check kv 5 0 {}", 8 * MIB)), "same");
}

/// The node with the region lets others do four megabytes a second, all of a node together or one name.
#[test]
fn a_node_holds_others_to_its_rates() {
    let rates = [
        "[[rate]]\nnodes = \"all\"\nper = \"node\"\nbytes_per_second = 4194304\n",
        "[[rate]]\nnodes = [1]\nnames = [\"/memory/kv/*\"]\nbytes_per_second = 4194304\n",
    ];
    for (number, rate) in rates.into_iter().enumerate() {
        let (daemons, _secret) = pair(&format!("rates-{number}"), ["", rate]);
        let (mut there, mut here) = both(&daemons, "kv/a");
        let began = Instant::now();
        for seed in 0..3 {
            here.does(&format!("fill kv {seed} 0 {}", 2 * MIB));
            assert_eq!(there.say(&format!("check kv {seed} 0 {}", 2 * MIB)), "same", "{rate}");
        }
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(1200), "six megabytes, less what is owed: {took:?}");
        let status = daemons[1].status();
        assert!(status["memory"]["nodes"]["put_off_for_others"].as_u64() > Some(0), "{rate}");
        // Programs of the node itself are not meant.
        let began = Instant::now();
        let mut own = Program::start(&daemons[1]);
        own.say("map kv kv/a rwa");
        (0..20).for_each(|seed| own.does(&format!("fill kv {seed} 0 {}", 2 * MIB)));
        assert!(began.elapsed() < Duration::from_secs(9));
    }
}

#[test]
fn words_and_copies_count_too_and_another_user_of_the_node_has_a_rate_of_its_own() {
    let rate = "[[rate]]\nnodes = \"all\"\nper = \"user\"\noperations_per_second = 50\n";
    let (daemons, _secret) = pair("words", ["", rate]);
    let (mut there, mut here) = both(&daemons, "kv/a");
    let began = Instant::now();
    assert_eq!(here.say("add kv 0 1 100"), "99");
    assert!(began.elapsed() >= Duration::from_millis(1500), "{:?}", began.elapsed());
    here.does("copy kv 0 kv 100 8");
    assert_eq!(there.say("add kv 0 0 1"), "100", "each was done once");
}

//! Classes of calls to functions of other nodes, and of their replies.

use crate::support::await_that;
use crate::support::cluster::{figure, nodes_with, SecretFile};
use crate::support::programs::Program;
use crate::support::Daemon;

const CLASSES: &str = "[[class]]\nnames = [\"/rpc/hot/*\"]\nclass = \"high\"\n\
     [[class]]\nnames = [\"/rpc/bulk/*\"]\nclass = \"low\"\n";
const CALLS: u64 = 40;

/// Calls of a function on node 2 from node 1; how many more there are of a class on both ways.
fn call(nodes: &[Daemon; 2], name: &str, class: &str) {
    let (mut server, mut client) = (Program::start(&nodes[1]), Program::start(&nodes[0]));
    server.does(&format!("serve {name} mix"));
    assert_eq!(client.say(&format!("find_on 2 {name}")), "found 1048576 1048576");
    let calls = || (figure(&nodes[0], 2, class, "calls"), figure(&nodes[1], 1, class, "calls"));
    let before = calls();
    client.does(&format!("many {name} {CALLS} 1 200000"));
    await_that("calls are of the class", || calls().0 >= before.0 + CALLS);
    await_that("replies too", || calls().1 >= before.1 + CALLS);
    await_that("nothing is left", || figure(&nodes[0], 2, class, "under_way") == 0);
}

#[test]
fn calls_and_replies_are_of_the_class_that_the_functions_name_has() {
    let secret = SecretFile::new("rpc-classes", "9d");
    let nodes = nodes_with::<2>("tcp", CLASSES, &secret);
    for (name, class) in [("hot/a", "high"), ("bulk/a", "low"), ("plain", "normal")] {
        call(&nodes, name, class);
    }
    let high = figure(&nodes[0], 2, "high", "calls");
    call(&nodes, "bulk/b", "low");
    assert_eq!(figure(&nodes[0], 2, "high", "calls"), high, "none of another class");
}

#[test]
fn low_calls_that_nobody_serves_hold_up_no_high_ones() {
    let secret = SecretFile::new("rpc-flood", "9e");
    let nodes = nodes_with::<2>("tcp", CLASSES, &secret);
    let mut held: Vec<_> = (0..6).map(|_| Program::start(&nodes[0])).collect();
    let mut servers = Vec::new();
    for (number, client) in held.iter_mut().enumerate() {
        let mut server = Program::start(&nodes[1]);
        server.does(&format!("serve bulk/{number} hold"));
        assert_eq!(client.say(&format!("find_on 2 bulk/{number}")), "found 1048576 1048576");
        client.send(&format!("call bulk/{number} 1000000 20000"));
        servers.push(server);
    }
    await_that("they are on their way", || figure(&nodes[0], 2, "low", "calls") >= 6);
    for _ in 0..3 {
        call(&nodes, "hot/a", "high");
    }
}

#[test]
fn a_node_that_may_ask_for_less_gets_replies_of_less() {
    let secret = SecretFile::new("rpc-ceiling", "9f");
    let most = format!("{CLASSES}[[class]]\nnodes = [1]\nclass = \"low\"\n");
    let nodes = nodes_with::<2>("tcp", &most, &secret);
    let (mut server, mut client) = (Program::start(&nodes[1]), Program::start(&nodes[0]));
    server.does("serve hot/a mix");
    assert_eq!(client.say("find_on 2 hot/a"), "found 1048576 1048576");
    client.does("many hot/a 20 1 1000");
    await_that("calls are high", || figure(&nodes[0], 2, "high", "calls") >= 20);
    await_that("and low there", || figure(&nodes[1], 1, "low", "served") >= 20);
    await_that("as replies are", || figure(&nodes[1], 1, "low", "calls") >= 20);
    assert_eq!(figure(&nodes[1], 1, "high", "calls"), 0);
}

//! Programs and nodes that are killed, hang or leave: what calls between nodes become, and how soon.

use std::time::{Duration, Instant};

use crate::support::await_that;
use crate::support::cluster::{ask, config, free_ports, join, joined_count, SecretFile};
use crate::support::programs::Program;
use crate::support::Daemon;
use rustix::process::Signal;

use heliostat_abi::cluster::ClusterRequest;

/// Nodes 1 and 2, of which each can be started again.
struct Pair {
    ports: [u16; 2],
    secret: SecretFile,
    one: Daemon,
    two: Option<Daemon>,
}

impl Pair {
    fn start(test: &str) -> Pair {
        let (secret, ports) = (SecretFile::new(test, "7e"), free_ports::<2>());
        let one = Daemon::with(&config(0, &ports, &secret), &[]);
        let mut pair = Pair { ports, secret, one, two: None };
        pair.start_two();
        pair
    }

    fn start_two(&mut self) {
        self.two = Some(Daemon::with(&config(1, &self.ports, &self.secret), &[]));
        await_that("both are joined", || {
            joined_count(&self.one) == 1 && joined_count(self.two()) == 1
        });
    }

    fn two(&self) -> &Daemon {
        self.two.as_ref().unwrap()
    }
}

/// A server of node 2 and a client of node 1 that has found it.
fn both(pair: &Pair, mode: &str) -> (Program, Program) {
    let (mut server, mut client) = (Program::start(pair.two()), Program::start(&pair.one));
    server.does(&format!("serve kv {mode}"));
    assert_eq!(client.say("find_on 2 kv"), "found 1048576 1048576");
    (server, client)
}

/// A call that a server has received, and that is not answered.
fn open_call(pair: &Pair) -> (Program, Program) {
    let (mut server, mut client) = both(pair, "hold");
    client.send("call kv 1000000 60000");
    await_that("it was received", || server.say("seen") == "1 0 0");
    (server, client)
}

#[test]
fn a_killed_server_ends_its_calls_and_another_serves_on() {
    let pair = Pair::start("rpc-far-ends-1");
    let (server, mut client) = open_call(&pair);
    let mut other = Program::start(pair.two());
    other.does("serve kv mix");
    let killed = Instant::now();
    server.kill();
    let told = client.hear();
    eprintln!("the end of a server on another node was seen after {:?}", killed.elapsed());
    assert!(told.starts_with("error node 2 server ended, may have run after "), "{told}");
    client.does("call kv 100 20000");
}

#[test]
fn the_server_of_a_killed_client_hears_that_nobody_waits() {
    let pair = Pair::start("rpc-far-ends-2");
    let (mut server, client) = open_call(&pair);
    client.kill();
    await_that("its node was told", || server.say("list kv") == "listed kv:1:0");
    // By another way: between loops.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.say("answer_held"), "answered nobody waits");
    let mut next = Program::start(&pair.one);
    next.say("find_on 2 kv");
    assert_eq!(next.say("list_on 2 kv"), "listed kv:1:1");
}

#[test]
fn calls_in_line_of_a_killed_client_are_not_received() {
    let pair = Pair::start("rpc-far-ends-3");
    let (mut server, mut busy) = both(&pair, "slow=1500");
    busy.send("call kv 1 20000");
    await_that("it is busy", || server.say("seen") == "1 0 0");
    let mut client = Program::start(&pair.one);
    client.say("find_on 2 kv");
    client.does("begin kv 1000000 0");
    assert_eq!(client.say("look 100"), "under way");
    client.kill();
    assert_eq!(busy.hear(), "done");
    busy.does("call kv 10 20000");
    assert_eq!(server.say("seen"), "2 0 0");
}

#[test]
fn a_killed_control_plane_of_the_server_ends_calls_and_its_next_life_is_called_again() {
    let mut pair = Pair::start("rpc-far-ends-4");
    let (server, mut client) = open_call(&pair);
    let mut other = Program::start(&pair.one);
    other.say("find_on 2 kv");
    other.does("begin kv 1000 0");
    // Long enough that it was sent: one that was not would say that it did not run.
    assert_eq!(other.say("look 100"), "under way");
    let killed = Instant::now();
    pair.two().signal(Signal::KILL);
    let told = client.hear();
    let took = killed.elapsed();
    assert!(told.starts_with("error node 2 NodeLost, may have run"), "{told}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    eprintln!("the end of a node was seen after {took:?}");
    let told = other.say("await");
    assert_eq!(told, "error node 2 NodeLost, may have run");
    assert_eq!(client.say("ask kv x"), "error node 2 NodeDown, not run");
    assert_eq!(client.say("find_on 2 x"), "error node 2 refused Unreachable 0, not run");
    server.kill();
    pair.two = None;
    pair.start_two();
    let mut server = Program::start(pair.two());
    server.does("serve kv mix");
    client.does("call kv 300000 20000");
    other.does("call kv 10 20000");
}

#[test]
fn a_hung_node_is_lost_within_its_silence_and_called_again_afterwards() {
    let pair = Pair::start("rpc-far-ends-5");
    let (mut server, mut client) = open_call(&pair);
    let hung = Instant::now();
    pair.two().signal(Signal::STOP);
    let told = client.hear();
    assert!(told.starts_with("error node 2 NodeLost, may have run"), "{told}");
    assert!(hung.elapsed() < Duration::from_secs(10), "by the link's end, not by the call's time");
    pair.two().signal(Signal::CONT);
    await_that("both are joined", || joined_count(&pair.one) == 1 && joined_count(pair.two()) == 1);
    await_that("its caller is gone", || server.say("answer_held") != "answered heard");
    client.send("call kv 100 60000");
    await_that("it was received", || server.say("seen") == "2 0 0");
    assert_eq!(server.say("answer_held"), "answered heard");
    assert_eq!(client.hear(), "done");
}

#[test]
fn a_killed_control_plane_of_the_caller_leaves_servers_to_others() {
    let pair = Pair::start("rpc-far-ends-6");
    let (mut server, mut client) = open_call(&pair);
    pair.one.signal(Signal::KILL);
    let told = client.hear();
    assert!(told.starts_with("error control gone, may have run"), "{told}");
    await_that("the node is lost", || joined_count(pair.two()) == 0);
    assert_eq!(server.say("answer_held"), "answered nobody waits");
    let mut near = Program::start(pair.two());
    near.say("find kv");
    near.send("call kv 10 20000");
    await_that("it was received", || server.say("seen") == "2 0 0");
    assert_eq!(server.say("answer_held"), "answered heard");
    assert_eq!(near.hear(), "done");
}

#[test]
fn a_node_that_leaves_and_joins_again_is_called_again() {
    let pair = Pair::start("rpc-far-ends-7");
    let (mut server, mut client) = open_call(&pair);
    ask(&pair.one, &ClusterRequest::Leave { node: 2 });
    let told = client.hear();
    assert!(told.starts_with("error node 2 NodeLost, may have run"), "{told}");
    assert_eq!(client.say("ask kv x"), "error node 2 NodeDown, not run");
    ask(&pair.one, &join(2));
    await_that("both are joined", || joined_count(&pair.one) == 1 && joined_count(pair.two()) == 1);
    assert_eq!(server.say("answer_held"), "answered nobody waits");
    client.send("call kv 100 60000");
    await_that("it was received", || server.say("seen") == "2 0 0");
    assert_eq!(server.say("answer_held"), "answered heard");
    assert_eq!(client.hear(), "done");
}

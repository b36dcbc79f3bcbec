//! Functions of another node: control planes that are joined, programs of each, the same calls and errors.

use std::time::{Duration, Instant};

use crate::support::await_that;
use crate::support::beside::{may_become_others, NEIGHBOUR};
use crate::support::cluster::{nodes, SecretFile};
use crate::support::programs::Program;
use crate::support::Daemon;

/// Nodes 1 and 2.
struct Pair {
    one: Daemon,
    two: Daemon,
    _secret: SecretFile,
}

impl Pair {
    fn start(test: &str) -> Pair {
        let secret = SecretFile::new(test, "7c");
        let [one, two] = nodes::<2>(&secret);
        Pair { one, two, _secret: secret }
    }
}

/// A server of node 2 and a client of node 1 that has found it.
fn both(pair: &Pair, mode: &str) -> (Program, Program) {
    let (mut server, mut client) = (Program::start(&pair.two), Program::start(&pair.one));
    server.does(&format!("serve kv {mode}"));
    assert_eq!(client.say("find_on 2 kv"), "found 1048576 1048576");
    (server, client)
}

#[test]
fn a_program_calls_a_function_of_another_node_and_the_server_hears_who_calls() {
    let pair = Pair::start("rpc-remote-1");
    let (_server, mut client) = both(&pair, "who");
    let user = rustix::process::getuid().as_raw();
    let who = format!("{user} {} 1 19", client.pid());
    assert_eq!(client.say("ask kv x"), who);
    assert_eq!(client.say("find kv"), "error refused NotFound 0, not run", "none on its own node");
    let mut beside = Program::start(&pair.two);
    assert_eq!(beside.say("find_on 2 kv"), "found 1048576 1048576", "the own node by its number");
    assert_eq!(beside.say("ask kv x"), format!("{user} {} 0 19", beside.pid()));
}

#[test]
fn payloads_of_every_length_go_both_ways() {
    let pair = Pair::start("rpc-remote-2");
    let (_server, mut client) = both(&pair, "mix");
    for bytes in [0, 1, 64, 4096, 16_384, 16_385, 70_000, 500_001, 1 << 20] {
        client.does(&format!("call kv {bytes} 20000"));
    }
    client.does("many kv 300 1 200000");
    let long = client.say("call kv 1048577 20000");
    assert!(long.starts_with("error too long 1048576, not run"), "{long}");
}

#[test]
fn many_clients_of_both_nodes_are_served_by_servers_of_one() {
    let pair = Pair::start("rpc-remote-3");
    let (_server, client) = both(&pair, "mix threads=4");
    let mut all: Vec<_> = (0..3).map(|_| Program::start(&pair.one)).collect();
    all.push(client);
    all.iter_mut().for_each(|it| _ = it.say("find_on 2 kv"));
    let mut near = Program::start(&pair.two);
    near.say("find kv");
    all.push(near);
    for (seed, client) in all.iter_mut().enumerate() {
        client.send(&format!("many kv 400 {} 30000", seed * 1000));
    }
    for client in &mut all {
        assert_eq!(client.hear(), "done");
    }
}

#[test]
fn a_function_that_fails_drops_or_is_gone_says_so_and_names_the_node() {
    let pair = Pair::start("rpc-remote-4");
    let (mut server, mut client) = both(&pair, "fail");
    assert_eq!(client.say("ask kv x"), "error node 2 failed no such key, may have run");
    server.does("serve other drop");
    client.say("find_on 2 other");
    let dropped = client.say("ask other x");
    assert_eq!(dropped, "error node 2 failed the server dropped the call, may have run");
    server.does("stop kv");
    await_that("nobody serves it", || client.say("list_on 2 kv") == "listed");
    assert_eq!(client.say("ask kv x"), "error node 2 gone, not run");
    assert_eq!(client.say("find_on 2 kv"), "error node 2 refused NotFound 0, not run");
    server.does("serve kv mix");
    client.does("call kv 100 20000");
    assert_eq!(client.say("list_on 2 kv"), "listed kv:1:1", "what was gone is counted no more");
    assert_eq!(client.say("find_on 9 kv"), "error node 9 refused Unreachable 0, not run");
    client.does("forget kv");
    await_that("it is given back", || client.say("list_on 2 kv") == "listed kv:1:0");
}

#[test]
fn time_says_whether_the_function_may_have_run() {
    let pair = Pair::start("rpc-remote-5");
    let (mut server, mut client) = both(&pair, "hold");
    let received = client.say("call kv 100 300");
    assert!(received.starts_with("error node 2 TimedOut, may have run after 3"), "{received}");
    assert_eq!(server.say("seen"), "1 0 0");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.say("answer_held"), "answered nobody waits");
    // All of its threads are busy: nobody receives.
    server.does("serve busy slow=3000");
    client.say("find_on 2 busy");
    client.send("call busy 1 20000");
    await_that("it was received", || server.say("seen") == "2 0 0");
    let mut other = Program::start(&pair.one);
    other.say("find_on 2 busy");
    let waited = other.say("call busy 100 300");
    assert!(waited.starts_with("error node 2 TimedOut, not run after 3"), "{waited}");
    assert_eq!(client.hear(), "done");
    await_that("it is free", || server.say("seen") == "2 0 0");
    other.does("call busy 100 20000");
}

#[test]
fn a_call_is_cancelled_before_and_after_it_was_received() {
    let pair = Pair::start("rpc-remote-6");
    let (mut server, mut client) = both(&pair, "hold");
    let mut received = 0;
    // That it was cancelled may be on its way when the server replies.
    await_that("nobody waits", || {
        client.does("begin kv 100 0");
        received += 1;
        await_that("it was received", || server.say("seen") == format!("{received} 0 0"));
        assert_eq!(client.say("cancel"), "error node 2 Cancelled, may have run");
        std::thread::sleep(Duration::from_millis(20));
        server.say("answer_held") == "answered nobody waits"
    });
    let seen = |more: u64| format!("{} 0 0", received + more);
    server.does("serve busy slow=1500");
    client.say("find_on 2 busy");
    let mut other = Program::start(&pair.one);
    other.say("find_on 2 busy");
    other.send("call busy 1 20000");
    await_that("it was received", || server.say("seen") == seen(1));
    client.does("begin busy 1000000 0");
    assert_eq!(client.say("look 50"), "under way");
    assert_eq!(client.say("cancel"), "error node 2 Cancelled, not run");
    assert_eq!(other.hear(), "done");
    client.does("call busy 100 20000");
    assert_eq!(server.say("seen"), seen(2), "what was cancelled is not received");
}

#[test]
fn messages_wait_in_line_there_and_full_is_a_clear_no() {
    let pair = Pair::start("rpc-remote-7");
    let (mut server, mut client) = (Program::start(&pair.two), Program::start(&pair.one));
    server.does("serve kv slow=1000 queue=4");
    client.say("find_on 2 kv");
    client.send("call kv 1 20000");
    await_that("it is busy", || server.say("seen") == "1 0 0");
    let mut sender = Program::start(&pair.one);
    sender.say("find_on 2 kv");
    sender.does("send kv 65536 5000");
    sender.does("try_send kv 100");
    assert_eq!(sender.say("try_send kv 100"), "error node 2 Full, not run");
    let late = sender.say("send kv 1 200");
    assert_eq!(late, "error node 2 TimedOut, not run");
    let long = sender.say("send kv 65537 5000");
    assert_eq!(long, "error too long 65536, not run");
    // Room comes while it waits.
    sender.does("send kv 5 20000");
    assert_eq!(client.hear(), "done");
    await_that("all were received", || server.say("seen") == "1 3 0");
}

#[test]
fn long_calls_leave_the_way_to_others() {
    let pair = Pair::start("rpc-remote-8");
    let (mut server, mut client) = (Program::start(&pair.two), Program::start(&pair.one));
    // More bytes than a window between nodes holds, all with a server that does not answer.
    server.does("serve held hold threads=4");
    server.does("serve kv mix");
    let mut long: Vec<_> = (0..24).map(|_| Program::start(&pair.one)).collect();
    for client in &mut long {
        client.say("find_on 2 held");
        client.does("begin held 1000000 0");
    }
    await_that("all were received", || server.say("seen") == "24 0 0");
    client.say("find_on 2 kv");
    client.does("many kv 50 1 1048576");
    // And with one that nobody receives: its own lane is full, others are not.
    let mut idle = Program::start(&pair.two);
    idle.does("serve idle slow=4000");
    let mut waiting: Vec<_> = (0..12).map(|_| Program::start(&pair.one)).collect();
    for client in &mut waiting {
        client.say("find_on 2 idle");
        client.does("begin idle 1000000 0");
    }
    let begun = Instant::now();
    client.does("many kv 50 1 1048576");
    assert!(idle.say("seen") == "1 0 0" || begun.elapsed() > Duration::from_secs(4));
    let answered = server.say("answer_held");
    assert_eq!(answered.matches("heard").count(), 24, "{answered}");
    for client in &mut long {
        assert_eq!(client.say("await"), "replied");
    }
}

#[test]
fn one_call_to_functions_of_several_nodes_has_a_result_for_each() {
    let secret = SecretFile::new("rpc-remote-9", "7d");
    let [one, two, three] = nodes::<3>(&secret);
    let (mut second, mut third) = (Program::start(&two), Program::start(&three));
    second.does("serve kv mix");
    third.does("serve kv mix");
    third.does("serve slow slow=5000");
    third.does("serve no fail");
    let mut here = Program::start(&one);
    here.does("serve kv mix");
    let mut client = Program::start(&one);
    client.say("find kv");
    client.does("find_as 2 kv two");
    client.does("find_as 3 kv three");
    client.does("find_as 3 slow slow");
    client.does("find_as 3 no no");
    assert_eq!(client.say("multicast 200000 20000 kv two three"), "done; done; done");
    let told = client.say("multicast 100 500 two slow no kv");
    let slow = "error node 3 TimedOut, may have run";
    let no = "error node 3 failed no such key, may have run";
    assert_eq!(told, format!("done; {slow}; {no}; done"));
}

#[test]
fn other_users_call_what_is_open_to_them() {
    if !may_become_others() {
        return;
    }
    let pair = Pair::start("rpc-remote-10");
    let (mut server, _client) = both(&pair, "mix");
    server.does("serve open mix others");
    let mut other = Program::of_user(&pair.one, NEIGHBOUR);
    assert_eq!(other.say("find_on 2 kv 0"), "error node 2 refused Denied 0, not run");
    assert_eq!(other.say("find_on 2 none 0"), "error node 2 refused Denied 0, not run");
    assert_eq!(other.say("find_on 2 open 0"), "found 1048576 1048576");
    other.does("call open 100 20000");
    assert_eq!(other.say("list_on 2 o"), "listed", "others' functions are not listed");
}

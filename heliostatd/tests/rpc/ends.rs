//! Servers, clients and control planes that are killed: what their calls become, and how soon.

use std::time::{Duration, Instant};

use crate::support::programs::Program;
use crate::support::{await_that, Daemon};
use rustix::process::Signal;

/// Others see an end within so much.
const PROMISED: Duration = Duration::from_millis(100);
/// A machine that is busy with other tests may take longer to run them: one try of these has to keep it.
const TRIES: u32 = 10;

/// Measures until the promise is kept.
fn keeps_its_promise(what: &str, mut measured: impl FnMut() -> Duration) {
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        seen.push(measured());
        if seen.last() < Some(&PROMISED) {
            eprintln!("{what} was seen after {seen:?}");
            return;
        }
    }
    panic!("{what} was seen after {seen:?}, and {PROMISED:?} are promised");
}

#[test]
fn a_killed_server_ends_its_open_calls_at_once_and_others_serve_on() {
    let daemon = Daemon::start();
    let (mut other, mut client) = (Program::start(&daemon), Program::start(&daemon));
    keeps_its_promise("the end of a server", || {
        let mut server = Program::start(&daemon);
        server.does("serve kv hold");
        client.say("find kv");
        client.send("call kv 100 60000");
        await_that("it was received", || server.say("seen") == "1 0 0");
        other.does("serve kv mix");
        let killed = Instant::now();
        server.kill();
        let told = client.hear();
        let took = killed.elapsed();
        assert!(told.starts_with("error server ended, may have run after "), "{told}");
        client.does("call kv 100 10000");
        assert_eq!(client.say("list kv"), "listed kv:1:1");
        other.does("stop kv");
        await_that("nobody serves it", || client.say("list kv") == "listed");
        took
    });
}

#[test]
fn with_its_last_server_a_function_is_gone_and_the_next_one_is_found_again() {
    let daemon = Daemon::start();
    let (mut server, mut client) = (Program::start(&daemon), Program::start(&daemon));
    server.does("serve kv mix");
    client.say("find kv");
    client.does("call kv 100 10000");
    server.kill();
    await_that("it is gone", || client.say("call kv 100 10000").starts_with("error gone, not run"));
    let mut next = Program::start(&daemon);
    next.does("serve kv mix");
    client.does("call kv 100 10000");
}

#[test]
fn a_killed_client_is_answered_by_nobody() {
    let daemon = Daemon::start();
    let (mut server, mut client) = (Program::start(&daemon), Program::start(&daemon));
    server.does("serve kv hold threads=2");
    client.say("find kv");
    client.does("begin kv 1000000 0");
    await_that("it was received", || server.say("seen") == "1 0 0");
    client.kill();
    let mut other = Program::start(&daemon);
    other.say("find kv");
    other.does("begin kv 8 0");
    await_that("it was received", || server.say("seen") == "2 0 0");
    await_that("it has ended", || server.say("list kv") == "listed kv:1:1");
    assert_eq!(server.say("answer_held"), "answered nobody waits heard");
    assert_eq!(other.say("await"), "replied");
}

#[test]
fn programs_are_killed_amid_long_calls_and_the_others_go_on() {
    let daemon = Daemon::start();
    let (mut steady, mut client) = (Program::start(&daemon), Program::start(&daemon));
    steady.does("serve mix mix threads=2");
    client.say("find mix");
    client.send("many mix 3000 7 1048576");
    for round in 0..6 {
        let mut short = Program::start(&daemon);
        if round % 2 == 0 {
            short.say("find mix");
            short.send("many mix 1000000 9 1048576");
        } else {
            // What it has received when it is killed fails; so it serves a name of its own.
            short.does("serve own mix");
            short.say("find own");
            short.send("many own 1000000 9 1048576");
        }
        std::thread::sleep(Duration::from_millis(60));
        short.kill();
    }
    assert_eq!(client.hear(), "done");
    await_that("they are gone", || client.say("list mix") == "listed mix:1:1");
}

#[test]
fn a_killed_control_plane_ends_every_call() {
    keeps_its_promise("the end of the control plane", || {
        let daemon = Daemon::start();
        let (mut server, mut client) = (Program::start(&daemon), Program::start(&daemon));
        server.does("serve kv hold");
        client.say("find kv");
        client.send("call kv 100 60000");
        await_that("it was received", || server.say("seen") == "1 0 0");
        let killed = Instant::now();
        daemon.signal(Signal::KILL);
        let told = client.hear();
        let took = killed.elapsed();
        assert!(told.starts_with("error control gone, may have run after "), "{told}");
        took
    });
}

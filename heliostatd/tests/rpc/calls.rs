//! Remote procedure calls between programs, through a control plane: who answers what, and who may.

use std::time::Duration;

use crate::support::programs::Program;
use crate::support::{await_that, Daemon};

#[test]
fn one_program_calls_another() {
    let daemon = Daemon::start();
    let (mut server, mut client) = (Program::start(&daemon), Program::start(&daemon));
    server.does("serve kv/get mix");
    assert_eq!(client.say("find kv/get"), "found 1048576 1048576");
    for bytes in [0, 1, 8, 4096, 16384, 16385, 1_000_000, 1 << 20] {
        client.does(&format!("call kv/get {bytes} 10000"));
    }
    assert_eq!(client.say("call kv/get 1048577 10000"), "error too long 1048576, not run after 0");
}

#[test]
fn four_programs_make_ten_thousand_calls_each_and_every_reply_is_its_own() {
    let daemon = Daemon::start();
    let mut servers: Vec<_> = (0..2).map(|_| Program::start(&daemon)).collect();
    servers.iter_mut().for_each(|server| server.does("serve mix mix threads=2"));
    let mut clients: Vec<_> = (0..4).map(|_| Program::start(&daemon)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.say("find mix");
        client.send(&format!("many mix 10000 {number}000000 1048576"));
    }
    clients.iter_mut().for_each(|client| assert_eq!(client.hear(), "done"));
    let counts = servers.iter_mut().map(|server| {
        let seen = server.say("seen");
        seen.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    let counts: Vec<_> = counts.collect();
    assert_eq!(counts.iter().sum::<u64>(), 40_000);
    assert!(counts.iter().all(|count| *count > 4000), "one server had little to do: {counts:?}");
    let status = daemon.status();
    assert_eq!(status["rpc"]["operations"]["call"], 40_000);
    assert_eq!(status["rpc"]["functions"], 1);
    assert_eq!(status["rpc"]["listed"][0]["name"], "/rpc/mix");
    assert_eq!(status["rpc"]["listed"][0]["servers"], 2);
}

#[test]
fn a_server_is_told_who_calls_as_the_kernel_says_it() {
    let daemon = Daemon::start();
    let (mut server, mut client) = (Program::start(&daemon), Program::start(&daemon));
    server.does("serve who who");
    client.say("find who");
    let told = client.say("ask who x");
    let uid = rustix::process::geteuid().as_raw();
    // Of the twenty seconds that the call has, so many are left: a fast one has used none.
    let all = ["19", "20"].map(|left| format!("{uid} {} 0 {left}", client.pid()));
    assert!(all.contains(&told), "{told}");
}

#[test]
fn the_functions_no_is_not_a_failure_of_the_way_there() {
    let daemon = Daemon::start();
    let (mut server, mut client) = (Program::start(&daemon), Program::start(&daemon));
    server.does("serve a fail");
    server.does("serve b drop");
    client.say("find a");
    client.say("find b");
    assert_eq!(client.say("ask a x"), "error failed no such key, may have run");
    assert_eq!(client.say("ask b x"), "error failed the server dropped the call, may have run");
}

#[test]
fn a_function_is_what_its_first_server_said_and_is_listed() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    assert_eq!(one.say("find kv/get"), "error refused NotFound 0, not run");
    one.does("serve kv/get mix request=100 reply=100");
    other.does("serve kv/get mix request=5 reply=5");
    assert_eq!(other.say("find kv/get"), "found 100 100");
    other.does("call kv/get 100 10000");
    assert_eq!(other.say("call kv/get 101 10000"), "error too long 100, not run after 0");
    assert_eq!(other.say("list kv/"), "listed kv/get:2:1");
    one.does("stop kv/get");
    await_that("one serves", || other.say("list kv/") == "listed kv/get:1:1");
    other.does("call kv/get 7 10000");
    other.does("stop kv/get");
    await_that("nobody serves", || other.say("list kv/") == "listed");
    let gone = other.say("call kv/get 7 10000");
    assert!(gone.starts_with("error gone, not run"), "{gone}");
}

#[test]
fn one_call_goes_to_many_functions_and_each_answers_for_itself() {
    let daemon = Daemon::start();
    let (mut server, mut client) = (Program::start(&daemon), Program::start(&daemon));
    server.does("serve a mix");
    server.does("serve b fail");
    server.does("serve c hold");
    server.does("serve d mix request=10");
    ["a", "b", "c", "d"].iter().for_each(|name| _ = client.say(&format!("find {name}")));
    let told = client.say("multicast 1000 300 a b c d a");
    let wanted = "done; error failed no such key, may have run; error TimedOut, may have run; \
                  error too long 10, not run; done";
    assert_eq!(told, wanted);
}

#[test]
fn a_call_that_is_cancelled_says_whether_it_was_received() {
    let daemon = Daemon::start();
    let (mut server, mut client) = (Program::start(&daemon), Program::start(&daemon));
    server.does("serve a hold");
    server.does("serve b slow=2000");
    client.say("find a");
    client.say("find b");
    client.does("begin a 100 0");
    await_that("it was received", || server.say("seen") == "1 0 0");
    assert_eq!(client.say("look 20"), "under way");
    assert_eq!(client.say("cancel"), "error Cancelled, may have run");
    assert_eq!(server.say("answer_held"), "answered nobody waits");
    // The only server is busy with the first.
    client.does("begin b 100 0");
    await_that("it was received", || server.say("seen") == "2 0 0");
    let mut other = Program::start(&daemon);
    other.say("find b");
    other.does("begin b 100 0");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(other.say("cancel"), "error Cancelled, not run");
    await_that("it has ended", || client.say("look 100") == "ended");
    assert_eq!(client.say("await"), "replied");
}

#[test]
fn a_deadline_says_whether_it_was_received() {
    let daemon = Daemon::start();
    let (mut server, mut client) = (Program::start(&daemon), Program::start(&daemon));
    server.does("serve a hold");
    server.does("serve nobody mix threads=0");
    client.say("find a");
    client.say("find nobody");
    let told = client.say("call nobody 100 200");
    let waited = told.strip_prefix("error TimedOut, not run after ").unwrap();
    assert!((190..2000).contains(&waited.parse::<u64>().unwrap()), "{told}");
    let told = client.say("call a 100 200");
    assert!(told.starts_with("error TimedOut, may have run after "), "{told}");
    assert_eq!(server.say("answer_held"), "answered nobody waits");
}

#[test]
fn messages_wait_in_a_bounded_line_and_outlive_their_sender() {
    let daemon = Daemon::start();
    let (mut server, mut client) = (Program::start(&daemon), Program::start(&daemon));
    server.does("serve log mix threads=0 queue=4");
    client.say("find log");
    client.does("try_send log 100");
    client.does("send log 65536 0");
    assert_eq!(client.say("try_send log 100"), "error Full, not run");
    assert_eq!(client.say("send log 100 100"), "error TimedOut, not run");
    assert_eq!(client.say("send log 65537 100"), "error too long 65536, not run");
    client.send("send log 100 0");
    let mut second = Program::start(&daemon);
    second.does("serve log mix");
    assert_eq!(client.hear(), "done", "there is room now");
    await_that("all are received", || second.say("seen") == "0 3 0");
    server.does("stop log");
    client.does("try_send log 8");
    client.kill();
    await_that("the last one too", || second.say("seen") == "0 4 0");
}

#[test]
fn a_user_calls_its_own_functions_and_those_that_are_open() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let daemon = Daemon::start();
    let mut server = Program::start(&daemon);
    server.does("serve closed mix");
    server.does("serve open mix others");
    let mut other = Program::of_user(&daemon, 65_534);
    assert_eq!(
        other.say("find open"),
        "error refused Denied 0, not run".replace("Denied", "NotFound")
    );
    let root = rustix::process::geteuid().as_raw();
    assert_eq!(other.say(&format!("find closed {root}")), "error refused Denied 0, not run");
    assert_eq!(other.say(&format!("find missing {root}")), "error refused Denied 0, not run");
    assert_eq!(other.say(&format!("find open {root}")), "found 1048576 1048576");
    other.does("call open 1000 10000");
    other.does("serve closed mix");
    assert_eq!(server.say("list closed"), "listed closed:1:0 closed:1:0");
    assert_eq!(other.say("list closed"), "listed closed:1:0");
}

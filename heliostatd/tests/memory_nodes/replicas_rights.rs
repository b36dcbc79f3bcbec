//! Regions on several nodes: who may use them is altered while they are used, rates of their names, and
//! what a node gives to them.

use std::time::{Duration, Instant};

use crate::support::await_that;
use crate::support::beside::{may_become_others, NEIGHBOUR};
use crate::support::cluster::{nodes, nodes_with, SecretFile};
use crate::support::networks::transport;
use crate::support::programs::Program;
use crate::support::Daemon;

fn replicas(daemon: &Daemon) -> u64 {
    daemon.status()["replicas"].as_array().map_or(0, |it| it.len() as u64)
}

#[test]
fn users_are_appointed_and_others_let_in_on_whatever_node_that_is_asked() {
    if !may_become_others() {
        return;
    }
    let secret = SecretFile::new("replicas-rights", "a1");
    let mut daemons = nodes::<3>(&secret);
    let mut owner = Program::start(&daemons[1]);
    assert_eq!(owner.say("allocate kv 4096 name=kv replicas=3"), "on 2");
    owner.does("write kv 0 first");
    let mut other = Program::of_user(&daemons[2], NEIGHBOUR);
    let denied = "error refused Denied 0";
    assert_eq!(other.say("map kv kv r 0"), denied);
    // Asked of a node that has not the primary.
    let mut far = Program::start(&daemons[0]);
    assert_eq!(far.say("map kv kv rwasm"), "on 2");
    far.does(&format!("appoint kv {NEIGHBOUR} r"));
    assert_eq!(other.say("map kv kv r 0"), "on 2");
    assert_eq!(other.say("read kv 0 5"), "read first");
    assert_eq!(other.say("map more kv rw 0"), denied);
    owner.does(&format!("appoint kv {NEIGHBOUR} rwa"));
    assert_eq!(other.say("map more kv rwa 0"), "on 2");
    other.does("write more 0 other");
    assert_eq!(other.say("map all kv rwam 0"), denied);
    assert_eq!(other.say(&format!("appoint more {NEIGHBOUR} rwam")), denied);
    // Of everybody else.
    owner.does("rename kv kv r");
    let mut third = Program::of_user(&daemons[0], NEIGHBOUR + 1);
    assert_eq!(third.say("map kv kv r 0"), "on 2");
    assert_eq!(third.say("read kv 0 5"), "read other");
    assert_eq!(owner.say("rename kv another r"), "error refused BadState 0");
    // The next primary knows it.
    daemons[1].kill();
    assert_eq!(other.say("read more 0 5"), "read other");
    other.does("write more 0 after");
    assert_eq!(third.say("read kv 0 5"), "read after");
    let mut late = Program::of_user(&daemons[0], NEIGHBOUR);
    assert!(late.say("map kv kv rwa 0").starts_with("on "));
    // What is taken back holds at once, also for handles that there are.
    far.does(&format!("appoint kv {NEIGHBOUR} -"));
    far.does("rename kv kv -");
    assert_eq!(other.say("map again kv r 0"), denied);
    assert!(other.say("write more 0 never").starts_with("error "), "by its record");
    assert_eq!(far.say("read kv 0 5"), "read after");
}

#[test]
fn no_more_users_are_appointed_than_a_record_has_room_for() {
    let secret = SecretFile::new("replicas-appointed", "a2");
    let daemons = nodes::<2>(&secret);
    let mut owner = Program::start(&daemons[0]);
    assert_eq!(owner.say("allocate kv 4096 name=kv replicas=2"), "on 1");
    let mut far = Program::start(&daemons[1]);
    assert_eq!(far.say("map kv kv rwasm"), "on 1");
    for user in 0..16 {
        let program = if user % 2 == 0 { &mut owner } else { &mut far };
        program.does(&format!("appoint kv {} r", 5000 + user));
    }
    assert_eq!(owner.say("appoint kv 6000 r"), "error refused Full 16");
    assert_eq!(far.say("appoint kv 6000 r"), "error refused Full 16");
    far.does("appoint kv 5003 -");
    owner.does("appoint kv 6000 rw");
    assert_eq!(owner.say("add kv 0 1 1"), "0");
}

#[test]
fn a_rate_of_a_name_holds_for_a_region_with_replicas() {
    let secret = SecretFile::new("replicas-rates", "a3");
    let rate =
        "[[rate]]\nnames = [\"/memory/slow/*\"]\nper = \"user\"\nbytes_per_second = 1048576\n";
    let daemons = nodes_with::<2>(&transport(), rate, &secret);
    let mut owner = Program::start(&daemons[0]);
    assert_eq!(owner.say("allocate free 4194304 name=free replicas=2"), "on 1");
    assert_eq!(owner.say("allocate kv 4194304 name=slow/kv replicas=2"), "on 1");
    let mut took = |key: &str| {
        owner.does(&format!("set {key} 0 1 1"));
        let began = Instant::now();
        owner.does(&format!("fill {key} 1 0 1048576"));
        owner.does(&format!("set {key} 0 1 1"));
        began.elapsed()
    };
    let (free, slow) = (took("free"), took("kv"));
    assert!(slow >= Duration::from_millis(700), "{slow:?}");
    assert!(free < slow, "{free:?} {slow:?}");
    // By a handle that was there before the session was served: the name's rate holds too.
    let mut late = Program::start(&daemons[1]);
    assert_eq!(late.say("map kv slow/kv rw"), "on 1");
    let began = Instant::now();
    late.say("check kv 1 0 1048576");
    late.say("read kv 0 1");
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
}

#[test]
fn what_a_node_gives_to_replicas_is_configured() {
    let secret = SecretFile::new("replicas-limits", "a4");
    let more = "[memory]\nreplicas = 2\nreplica_bytes = 100000\nreplica_bytes_per_user = 50000\n\
                replicas_found = 3\n";
    let daemons = nodes_with::<2>(&transport(), more, &secret);
    let mut owner = Program::start(&daemons[0]);
    assert_eq!(owner.say("allocate much 50001 name=much replicas=2"), "error refused Full 50000");
    assert_eq!(owner.say("allocate a 1000 name=a replicas=2"), "on 1");
    assert_eq!(owner.say("allocate b 1000 name=b replicas=2"), "on 1");
    assert_eq!(owner.say("allocate c 1000 name=c replicas=2"), "error refused Full 2");
    // The other node's limit.
    let mut there = Program::start(&daemons[1]);
    assert_eq!(there.say("map a a rw"), "on 1");
    owner.does("free b");
    await_that("its replicas are gone", || daemons.iter().all(|it| replicas(it) == 1));
    assert_eq!(owner.say("allocate c 1000 name=c replicas=2"), "on 1");
    assert_eq!(there.say("map c c rw"), "on 1");
    there.does("write c 0 c");
    assert_eq!(owner.say("read c 0 1"), "read c");
}

//! Nodes in networks of their own whose wires are cut: exact errors, and nothing that happens later.
//!
//! `make test-cluster` makes the networks and says what the wires do besides; without them nothing is
//! tested here.

mod support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use heliostat_abi::cluster::MemberState;
use support::cluster::{joined_count, list, nodes, state, SecretFile};
use support::programs::{play, Program};
use support::{await_that, networks, Daemon};

#[test]
fn program_process() {
    play();
}

/// A node is lost after a second of silence; signs of life go every quarter of one.
const SHORTER: Duration = Duration::from_millis(400);
const LONGER: Duration = Duration::from_millis(2500);

/// Three nodes, and a region on node 2 by its owner there.
fn three(test: &str) -> Option<([Daemon; 3], Program, SecretFile)> {
    if !networks::are_used() {
        eprintln!("tested nothing: see `make test-cluster`");
        return None;
    }
    networks::wire("");
    let secret = SecretFile::new(test, "e7");
    let daemons = nodes::<3>(&secret);
    let mut owner = Program::start(&daemons[1]);
    assert_eq!(owner.say("allocate kv 1048576 name=kv lasting"), "direct");
    Some((daemons, owner, secret))
}

/// Maps the region. Where the wire loses much, its node may be lost and joined again before that.
fn map(program: &mut Program) {
    await_that("it is mapped", || {
        let said = program.say("on 2 map kv kv rwa");
        assert!(said == "on 2" || said == "error unreachable 2", "{said}");
        said == "on 2"
    });
}

/// What a program has counted: additions that were answered, and those of which nobody knows.
#[derive(Clone, Copy, Default, Debug)]
struct Counted {
    answered: u64,
    unknown: u64,
    refused: u64,
}

/// Adds one to a word again and again until it is told to stop, and maps the region again where its
/// handle has ended with a link.
fn count(program: &mut Program, word: u64, until: impl Fn() -> bool) -> Counted {
    let (mut counted, mut is_mapped) = (Counted::default(), true);
    let began = Instant::now();
    while !until() {
        assert!(began.elapsed() < Duration::from_secs(240), "{counted:?}");
        if !is_mapped {
            let said = program.say("on 2 map kv kv rwa");
            is_mapped = said == "on 2";
            assert!(is_mapped || said == "error unreachable 2", "{said}");
            if !is_mapped {
                sleep(Duration::from_millis(20));
            }
            continue;
        }
        let said = program.say(&format!("add kv {} 1 1", 8 * word));
        match said.as_str() {
            number if number.parse::<u64>().is_ok() => counted.answered += 1,
            // It may have been done: the node was lost while it was on the way.
            "error node 2 Lost" => (counted.unknown, is_mapped) = (counted.unknown + 1, false),
            // It was not: nothing of it has left this node.
            // An operation that is the session's first is told so by its handle.
            "error node 2 Down" | "error unreachable 2" => {
                (counted.refused, is_mapped) = (counted.refused + 1, false);
            }
            other => panic!("{other} after {counted:?}"),
        }
    }
    counted
}

/// What a word is, which has to be as much as was answered, and at most what may have been besides.
fn check(owner: &mut Program, word: u64, counted: Counted) {
    let is = |owner: &mut Program| owner.say(&format!("add kv {} 0 1", 8 * word)).parse().unwrap();
    let found: u64 = is(owner);
    let most = counted.answered + counted.unknown;
    assert!((counted.answered..=most).contains(&found), "{found}: {counted:?}");
    // What was on the way is gone, and comes no later.
    sleep(Duration::from_millis(1500));
    assert_eq!(is(owner), found, "{counted:?}");
}

#[test]
fn a_cut_shorter_than_the_silence_is_only_a_wait() {
    let Some((daemons, mut owner, _secret)) = three("net-short") else { return };
    let mut here = Program::start(&daemons[0]);
    map(&mut here);
    let before = list(&daemons[0]).epoch;
    let began = Instant::now();
    let cutter = std::thread::spawn(|| {
        sleep(Duration::from_millis(200));
        networks::wire("\"cut\": [2]");
        sleep(SHORTER);
        networks::wire("");
    });
    let counted = count(&mut here, 1, || began.elapsed() > Duration::from_secs(3));
    cutter.join().unwrap();
    // Where the wire loses a retransmission after the cut, TCP's own wait may be longer than the limit.
    if list(&daemons[0]).epoch == before {
        assert_eq!((counted.unknown, counted.refused), (0, 0), "{counted:?}");
    }
    assert!(counted.answered > 10, "{counted:?}");
    check(&mut owner, 1, counted);
}

#[test]
fn a_cut_longer_than_the_silence_ends_links_and_is_healed() {
    let Some((daemons, mut owner, _secret)) = three("net-long") else { return };
    let mut here = Program::start(&daemons[0]);
    map(&mut here);
    let began = Instant::now();
    let cutter = std::thread::spawn(|| {
        sleep(Duration::from_millis(200));
        networks::wire("\"cut\": [2]");
        sleep(LONGER);
        networks::wire("");
    });
    let long = Duration::from_secs(6);
    let counted = count(&mut here, 2, || began.elapsed() > long && joined_count(&daemons[0]) == 2);
    cutter.join().unwrap();
    assert!(counted.unknown + counted.refused >= 1, "the link was lost: {counted:?}");
    assert!(counted.answered > 10, "{counted:?}");
    await_that("all are joined", || daemons.iter().all(|it| joined_count(it) == 2));
    check(&mut owner, 2, counted);
}

/// Whom a cut leaves together goes on, and both sides lose the other.
#[test]
fn a_node_that_is_cut_off_is_lost_by_all_and_loses_all() {
    let Some((daemons, mut owner, _secret)) = three("net-halves") else { return };
    let mut here = Program::start(&daemons[0]);
    map(&mut here);
    networks::wire("\"cut\": [3]");
    await_that("1 and 2 have lost 3", || {
        daemons[..2].iter().all(|it| state(it, 3) != Some(MemberState::Joined))
    });
    await_that("3 has lost both", || joined_count(&daemons[2]) == 0);
    let mut alone = Program::start(&daemons[2]);
    assert_eq!(alone.say("on 2 map kv kv rwa"), "error unreachable 2");
    let began = Instant::now();
    let counted = count(&mut here, 3, || began.elapsed() > Duration::from_secs(1));
    assert!(counted.answered > 10, "{counted:?}");
    networks::wire("");
    await_that("all are joined", || daemons.iter().all(|it| joined_count(it) == 2));
    map(&mut alone);
    check(&mut owner, 3, counted);
}

/// Programs of two nodes beside each other, for some seconds of whatever the wire does.
#[test]
fn additions_of_two_nodes_are_each_done_once_whatever_the_wire_does() {
    let Some((daemons, mut owner, _secret)) = three("net-two") else { return };
    let mut both = [0, 2].map(|at| Program::start(&daemons[at]));
    for program in &mut both {
        map(program);
    }
    let began = Instant::now();
    let counted = std::thread::scope(|scope| {
        let each = both.iter_mut().map(|program| {
            scope.spawn(move || count(program, 4, || began.elapsed() > Duration::from_secs(5)))
        });
        let each: Vec<_> = each.collect();
        each.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    let sum = |of: fn(&Counted) -> u64| counted.iter().map(of).sum();
    let all =
        Counted { answered: sum(|it| it.answered), unknown: sum(|it| it.unknown), refused: 0 };
    check(&mut owner, 4, all);
}

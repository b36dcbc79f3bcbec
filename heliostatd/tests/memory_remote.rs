//! Memory regions of another node: two control planes, programs of both, the same calls and errors.

mod support;

use std::time::{Duration, Instant};

use heliostat_abi::session::record::{Reply, Request};
use rustix::process::Signal;
use support::await_that;
use support::beside::{may_become_others, NEIGHBOUR};
use support::cluster::{nodes, SecretFile};
use support::programs::{play, Program};
use support::Daemon;

#[test]
fn program_process() {
    play();
}

/// Two nodes, numbers 1 and 2.
struct Pair {
    one: Daemon,
    two: Daemon,
    _secret: SecretFile,
}

impl Pair {
    fn start(test: &str) -> Pair {
        let secret = SecretFile::new(test, "5a");
        let [one, two] = nodes::<2>(&secret);
        Pair { one, two, _secret: secret }
    }
}

/// A region on node 2, by its owner there and by a program of node 1.
fn both(pair: &Pair, bytes: u64) -> (Program, Program) {
    let (mut there, mut here) = (Program::start(&pair.two), Program::start(&pair.one));
    assert_eq!(there.say(&format!("allocate kv {bytes} name=kv")), "direct");
    assert_eq!(here.say("on 2 map kv kv rwa"), "on 2");
    (there, here)
}

#[test]
fn a_program_reads_a_region_of_another_node_by_its_name() {
    let pair = Pair::start("remote-1");
    let (mut there, mut here) = both(&pair, 4096);
    there.does("write kv 8 8-bytes!");
    assert_eq!(here.say("read kv 8 8"), "read 8-bytes!");
    assert_eq!(here.say("size kv"), "4096");
    assert_eq!(here.say("map other kv r"), "error refused NotFound 0", "not on its own node");
}

#[test]
fn bytes_of_every_length_are_the_same_on_both_nodes() {
    let pair = Pair::start("remote-2");
    let (mut there, mut here) = both(&pair, 17 << 20);
    // By a call, in one message, in several, in several slots, and as many as are on the way at once.
    let lengths = [8, 4096, 16_384, 16_385, 262_144, 300_000, 2_500_000, 16 << 20];
    for (seed, bytes) in lengths.into_iter().enumerate() {
        here.does(&format!("fill kv {seed} 77 {bytes}"));
        assert_eq!(there.say(&format!("check kv {seed} 77 {bytes}")), "same", "{bytes}");
        there.does(&format!("fill kv {} 77 {bytes}", seed + 100));
        assert_eq!(here.say(&format!("check kv {} 77 {bytes}", seed + 100)), "same", "{bytes}");
    }
    assert_eq!(there.say("read kv 0 77"), format!("read {}", ".".repeat(77)), "and none before");
}

#[test]
fn operations_that_complete_later_reach_another_node_too() {
    let pair = Pair::start("remote-14");
    let (mut there, mut here) = both(&pair, 17 << 20);
    // Parts of both lengths that a slot may have, and operations of several parts.
    for (seed, bytes) in [(1, 1000), (2, 16_385), (3, 262_144), (4, 700_001)] {
        assert_eq!(here.say(&format!("operations taken kv {seed} 20 {bytes}")), "same");
        assert_eq!(there.say(&format!("check kv {seed} 0 {}", 20 * bytes)), "same", "{bytes}");
        assert_eq!(here.say(&format!("operations futures kv {} 20 {bytes}", seed + 10)), "same");
        // The first word was changed behind them.
        let rest = format!("check kv {} 8 {}", seed + 10, 20 * bytes - 8);
        assert_eq!(there.say(&rest), "same", "{bytes}");
        let pieces = format!("{} 20 800000 {bytes}", seed + 20);
        here.does(&format!("operations write_pieces kv {pieces}"));
        for program in [&mut there, &mut here] {
            assert_eq!(program.say(&format!("operations read_pieces kv {pieces}")), "same");
        }
    }
    assert_eq!(here.say("operations urgent kv 17000000"), "urgent first");
}

#[test]
fn bytes_are_set_and_copied_where_they_are() {
    let pair = Pair::start("remote-3");
    let (mut there, mut here) = both(&pair, 5_000_000);
    here.does("set kv 1 4999998 66");
    assert_eq!(there.say("read kv 4999997 3"), "read BB.");
    assert_eq!(there.say("read kv 0 3"), "read .BB");
    there.does("write kv 10 0123456789");
    here.does("copy kv 10 kv 12 8");
    assert_eq!(there.say("read kv 10 11"), "read 0101234567B");
    // Both directions of an overlap that takes several messages.
    there.does("fill kv 5 0 5000000");
    here.does("copy kv 0 kv 1000000 3500000");
    assert_eq!(here.say("check kv 5 0 1000000"), "same");
    let mut other = Program::start(&pair.two);
    other.say("map kv kv rw");
    assert_eq!(here.say("on 2 allocate second 100"), "on 2");
    here.does("write second 90 far");
    here.does("copy second 90 kv 4000000 3");
    assert_eq!(there.say("read kv 4000000 3"), "read far");
    // Through the program, where the two are not on one node.
    assert_eq!(here.say("allocate own 300000"), "direct");
    here.does("fill own 9 0 300000");
    here.does("copy own 0 kv 0 300000");
    assert_eq!(there.say("check kv 9 0 300000"), "same");
    here.does("set own 0 300000 0");
    here.does("copy kv 0 own 0 300000");
    assert_eq!(here.say("check own 9 0 300000"), "same");
}

#[test]
fn words_change_in_one_step_and_tell_what_they_were() {
    let pair = Pair::start("remote-4");
    let (mut there, mut here) = both(&pair, 4096);
    assert_eq!(here.say("add kv 8 5 1"), "0");
    assert_eq!(there.say("add kv 8 1 1"), "5");
    assert_eq!(here.say("compare_swap kv 8 5 9"), "6");
    assert_eq!(here.say("compare_swap kv 8 6 18446744073709551615"), "6");
    assert_eq!(here.say("swap kv 8 1"), "18446744073709551615", "no errno");
    assert_eq!(there.say("swap kv 8 2"), "1");
}

#[test]
fn words_that_programs_of_both_nodes_change_add_up() {
    let pair = Pair::start("remote-5");
    let (mut there, here) = both(&pair, 4096);
    let mut more = Program::start(&pair.two);
    more.say("map kv kv rwa");
    let mut far = Program::start(&pair.one);
    assert_eq!(far.say("on 2 map kv kv rwa"), "on 2");
    let mut all = [here, more, far];
    there.send("add kv 64 1 3000");
    all.iter_mut().for_each(|program| program.send("add kv 64 1 3000"));
    all.iter_mut().for_each(|program| drop(program.hear()));
    there.hear();
    assert_eq!(there.say("add kv 64 0 1"), "12000");
}

#[test]
fn errors_are_those_of_the_own_node() {
    let pair = Pair::start("remote-6");
    let (mut there, mut here) = both(&pair, 100);
    let wrong = [
        "read kv 100 1",
        "write kv 98 abc",
        "set kv 0 101 1",
        "copy kv 0 kv 99 2",
        "copy kv 99 kv 0 2",
        "add kv 96 1 1",
        "add kv 4 1 1",
        "compare_swap kv 100 0 1",
        "read kv 18446744073709551615 8",
        "write kv 9223372036854775807 x",
        "read kv 4611686018427387904 20000",
        "fill kv 1 0 300000",
    ];
    for line in wrong {
        let answer = there.say(line);
        assert!(answer.starts_with("error"), "{line}");
        assert_eq!(here.say(line), answer, "{line}");
    }
    assert_eq!(there.say("read kv 0 100"), format!("read {}", ".".repeat(100)), "nothing written");
    there.does("free kv");
    for line in ["read kv 0 1", "write kv 0 x", "set kv 0 1 1", "add kv 0 1 1", "size kv"] {
        assert_eq!(here.say(line), "error stale", "{line}");
    }
    assert_eq!(here.say("on 2 map gone kv r"), "error refused NotFound 0");
    assert_eq!(here.say("on 9 map gone kv r"), "error unreachable 9");
}

#[test]
fn a_handle_allows_what_was_asked_for_and_nothing_else() {
    let pair = Pair::start("remote-7");
    let (mut there, mut here) = both(&pair, 100);
    assert_eq!(here.say("on 2 map only kv r"), "on 2");
    assert_eq!(here.say("read only 0 1"), "read .");
    assert_eq!(here.say("write only 0 x"), "error denied write");
    assert_eq!(here.say("set only 0 1 1"), "error denied write");
    assert_eq!(here.say("add only 0 1 1"), "error denied atomic");
    for wrong in ["grow only 8192", "rename only other r", "lasting only yes", "free only"] {
        assert_eq!(here.say(wrong), "error refused Denied 0", "{wrong}");
    }
    assert_eq!(there.say("read kv 0 1"), "read .");
}

#[test]
fn a_region_is_allocated_and_managed_on_another_node() {
    let pair = Pair::start("remote-8");
    let (mut there, mut here) = (Program::start(&pair.two), Program::start(&pair.one));
    assert_eq!(here.say("on 2 allocate kv 1000 name=kv"), "on 2");
    assert_eq!(here.say("on 2 allocate kept 1000 name=kept lasting"), "on 2");
    here.does("fill kv 3 0 1000");
    assert_eq!(there.say("map kv kv rw"), "direct");
    assert_eq!(there.say("check kv 3 0 1000"), "same");
    here.does("grow kv 100000");
    assert_eq!(there.say("size kv"), "100000");
    assert_eq!(here.say("size kv"), "100000");
    here.does("fill kv 4 90000 10000");
    assert_eq!(there.say("check kv 4 90000 10000"), "same");
    here.does("rename kv second -");
    assert_eq!(there.say("list"), "listed second:100000:leased:2 kept:1000:lasting:1");
    assert_eq!(here.say("on 2 list s"), "listed second:100000:leased:2");
    assert_eq!(here.say("list"), "listed", "its own node has none");
    assert_eq!(here.say("on 1 allocate own 64"), "direct", "its own number");
    here.does("drop kv");
    // It does not wait for the other node.
    await_that("its last manager has given it back", || there.say("read kv 0 1") == "error stale");
    here.kill();
    await_that("the handle is given back", || there.say("list") == "listed kept:1000:lasting:0");
}

#[test]
fn a_revoked_session_gets_nothing_of_another_node_either() {
    let pair = Pair::start("remote-revoked");
    let (mut there, mut here) = both(&pair, 100);
    assert_eq!(pair.one.visit().ask(&Request::Revoke { pid: here.pid() }).0, Reply::Done);
    await_that("its handle is gone", || there.say("list") == "listed kv:100:leased:1");
    assert_eq!(here.say("on 2 map again kv r"), "error refused Revoked 0");
    assert_eq!(here.say("on 2 allocate new 100 name=new"), "error refused Revoked 0");
    assert_eq!(there.say("list"), "listed kv:100:leased:1");
}

#[test]
fn a_killed_program_leaves_no_handle_on_the_other_node() {
    let pair = Pair::start("remote-9");
    let (mut there, here) = both(&pair, 100);
    assert_eq!(there.say("list"), "listed kv:100:leased:2");
    here.kill();
    await_that("its handle is gone", || there.say("list") == "listed kv:100:leased:1");
}

#[test]
fn a_killed_control_plane_leaves_no_handle_on_the_other_node() {
    let mut pair = Pair::start("remote-10");
    let (mut there, _here) = both(&pair, 100);
    pair.one.kill();
    await_that("its handles are gone", || there.say("list") == "listed kv:100:leased:1");
}

#[test]
fn operations_end_when_the_control_plane_of_the_holder_is_killed() {
    let mut pair = Pair::start("remote-11");
    let (_there, mut here) = both(&pair, 16 << 20);
    here.send("add kv 0 1 10000000");
    std::thread::sleep(Duration::from_millis(100));
    let killed = Instant::now();
    pair.two.kill();
    // What was under way then may have been done; what comes later is not.
    let answer = here.hear();
    assert!(["error node 2 Lost", "error node 2 Down"].contains(&answer.as_str()), "{answer}");
    assert!(killed.elapsed() < Duration::from_secs(20), "in the transport's time");
    assert_eq!(here.say("read kv 0 8"), "error node 2 Down");
    assert_eq!(here.say("size kv"), "error unreachable 2");
    assert_eq!(here.say("on 2 map again kv r"), "error unreachable 2");
    here.does("drop kv");
    assert_eq!(here.say("allocate own 100"), "direct", "its own node goes on");
}

#[test]
fn operations_end_when_the_control_plane_of_the_holder_hangs() {
    let pair = Pair::start("remote-13");
    let (mut there, mut here) = both(&pair, 16 << 20);
    let mut other = Program::start(&pair.one);
    assert_eq!(other.say("on 2 map kv kv rw"), "on 2");
    here.send("add kv 0 1 10000000");
    std::thread::sleep(Duration::from_millis(100));
    let hung = Instant::now();
    pair.two.signal(Signal::STOP);
    // One was under way, the other begins when nobody knows yet.
    other.send("fill kv 1 0 16000000");
    for program in [&mut here, &mut other] {
        let answer = program.hear();
        assert!(["error node 2 Lost", "error node 2 Down"].contains(&&*answer), "{answer}");
    }
    assert!(hung.elapsed() < Duration::from_secs(10), "by the link's end, not by the part's time");
    assert_eq!(here.say("read kv 0 8"), "error node 2 Down");
    assert_eq!(here.say("on 2 map again kv r"), "error unreachable 2");
    assert_eq!(here.say("allocate own 100"), "direct", "its own node goes on");
    pair.two.signal(Signal::CONT);
    await_that("it is mapped anew", || here.say("on 2 map again kv rwa") == "on 2");
    there.does("write kv 8 8-bytes!");
    assert_eq!(here.say("read again 8 8"), "read 8-bytes!");
    here.does("fill again 2 77 3000000");
    assert_eq!(there.say("check kv 2 77 3000000"), "same");
    assert_eq!(here.say("read kv 0 8"), "error node 2 Down", "handles end with the link");
    await_that("and are gone there", || there.say("list") == "listed kv:16777216:leased:2");
}

#[test]
fn other_users_have_what_the_owner_lets_others_have() {
    if !may_become_others() {
        return;
    }
    let pair = Pair::start("remote-12");
    let mut there = Program::start(&pair.two);
    there.say("allocate kv 100 name=kv");
    there.say("allocate open 100 name=open others=r");
    let mut other = Program::of_user(&pair.one, NEIGHBOUR);
    assert_eq!(other.say("on 2 map kv kv r 0"), "error refused Denied 0");
    assert_eq!(other.say("on 2 map open open rw 0"), "error refused Denied 0");
    assert_eq!(other.say("on 2 map open open r 0"), "on 2");
    assert_eq!(other.say("write open 0 x"), "error denied write");
    assert_eq!(other.say("on 2 list"), "listed", "others' regions are not listed");
    let id = there.say("id kv");
    assert_eq!(other.say(&format!("on 2 map_region kv {id} r")), "error refused Denied 0");
    there.does(&format!("appoint kv {NEIGHBOUR} r"));
    assert_eq!(other.say(&format!("on 2 map_region kv {id} r")), "on 2");
}

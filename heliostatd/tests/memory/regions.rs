//! Memory regions between programs: what they share, what outlives them, and what never comes back.

use crate::support::programs::Program;
use crate::support::{await_that, Daemon};

#[test]
fn two_programs_share_a_region_by_its_name() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    assert_eq!(one.say("allocate kv 100000 name=kv/cache"), "direct");
    assert_eq!(other.say("map kv kv/cache rwa"), "direct");
    assert_eq!(other.say("read kv 99990 10"), "read ..........", "it is zero");
    one.does("write kv 50000 hello");
    assert_eq!(other.say("read kv 49999 7"), "read .hello.");
    assert_eq!(other.say("add kv 8 5 1"), "0");
    assert_eq!(one.say("add kv 8 1 1"), "5");
    assert_eq!(one.say("compare_swap kv 8 5 9"), "6");
    assert_eq!(one.say("compare_swap kv 8 6 9"), "6");
    assert_eq!(other.say("swap kv 8 1"), "9");
    other.does("set kv 99000 1000 65");
    assert_eq!(one.say("read kv 98999 3"), "read .AA");
    other.does("copy kv 50000 kv 50002 5");
    assert_eq!(one.say("read kv 50000 7"), "read hehello");
    assert_eq!(one.say("size kv"), "100000");
}

#[test]
fn what_does_not_lie_in_a_region_is_refused_with_its_length() {
    let daemon = Daemon::start();
    let mut one = Program::start(&daemon);
    one.say("allocate kv 100");
    for wrong in ["read kv 100 1", "write kv 98 abc", "set kv 0 101 1", "copy kv 0 kv 99 2"] {
        assert_eq!(one.say(wrong), "error range 100", "{wrong}");
    }
    assert_eq!(one.say("read kv 18446744073709551615 8"), "error range 100");
    assert_eq!(one.say("add kv 96 1 1"), "error range 100");
    assert_eq!(one.say("add kv 4 1 1"), "error misaligned");
    assert_eq!(one.say("read kv 0 100"), format!("read {}", ".".repeat(100)));
}

#[test]
fn a_handle_allows_what_was_asked_for_and_nothing_else() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    one.say("allocate kv 4096 name=kv");
    other.say("map kv kv r");
    assert_eq!(other.say("read kv 0 1"), "read .");
    assert_eq!(other.say("write kv 0 x"), "error denied write");
    assert_eq!(other.say("set kv 0 1 1"), "error denied write");
    assert_eq!(other.say("add kv 0 1 1"), "error denied atomic");
    for wrong in ["grow kv 8192", "rename kv other r", "lasting kv yes", "free kv"] {
        assert_eq!(other.say(wrong), "error refused Denied 0", "{wrong}");
    }
}

#[test]
fn a_killed_program_takes_what_is_not_lasting_along_and_nobody_sees_other_bytes() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    one.say("allocate kv 4096 name=kv");
    one.does("set kv 0 4096 97");
    other.say("map kv kv rw");
    other.send("await_stale kv");
    one.kill();
    // Whoever comes next writes all that may be had.
    let mut next = Program::start(&daemon);
    for round in 0..50 {
        next.say(&format!("allocate {round} 4096"));
        next.does(&format!("set {round} 0 4096 98"));
    }
    assert_eq!(other.hear(), "stale");
    for late in ["write kv 0 x", "read kv 0 1", "add kv 0 1 1", "set kv 0 1 1", "size kv"] {
        assert_eq!(other.say(late), "error stale", "{late}");
    }
    for round in 0..50 {
        assert_eq!(next.say(&format!("read {round} 4095 1")), "read b");
    }
    assert_eq!(next.say("map gone kv r"), "error refused NotFound 0");
}

#[test]
fn bytes_of_a_freed_region_are_nobody_elses() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    for round in 0..20 {
        one.say("allocate kv 100000");
        one.does("set kv 0 100000 97");
        one.does("free kv");
        other.say(&format!("allocate {round} 100000"));
        assert_eq!(
            other.say(&format!("read {round} 99900 100")),
            format!("read {}", ".".repeat(100))
        );
    }
}

#[test]
fn a_lasting_region_outlives_its_program_and_is_listed_and_freed() {
    let mut daemon = Daemon::start();
    let mut one = Program::start(&daemon);
    one.say("allocate kv 5000 name=kv/kept lasting");
    one.say("allocate lost 5000 name=kv/lost");
    one.does("write kv 10 kept");
    one.kill();
    let mut next = Program::start(&daemon);
    let listed = "listed kv/kept:5000:lasting:0";
    await_that("the other one is gone", || next.say("list kv/") == listed);
    assert_eq!(next.say("map kv kv/kept rwm"), "direct");
    assert_eq!(next.say("read kv 10 4"), "read kept");
    next.does("free kv");
    assert_eq!(next.say("list kv/"), "listed");
    assert_eq!(next.say("map kv kv/kept r"), "error refused NotFound 0");
    assert_eq!(daemon.ended(), None);
}

#[test]
fn the_last_manager_decides_how_long_a_region_lives() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    one.say("allocate kv 100 name=kv");
    other.say("map kv kv rwm");
    one.kill();
    other.does("write kv 0 alive");
    assert_eq!(other.say("read kv 0 5"), "read alive");
    let mut third = Program::start(&daemon);
    third.say("map kv kv r");
    other.does("drop kv");
    assert_eq!(third.say("read kv 0 5"), "error stale");
}

#[test]
fn a_region_that_is_made_lasting_or_not_is_so() {
    let daemon = Daemon::start();
    let mut one = Program::start(&daemon);
    one.say("allocate a 100 name=a");
    one.say("allocate b 100 name=b lasting");
    one.does("lasting a yes");
    one.does("lasting b no");
    one.does("none");
    assert_eq!(one.say("list"), "listed a:100:lasting:0");
}

#[test]
fn a_region_that_grows_keeps_its_bytes_and_its_handles() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    one.say("allocate kv 1000 name=kv");
    other.say("map kv kv rw");
    one.does("fill kv 3 0 1000");
    // A neighbour is in the way, so that pieces are added.
    for (round, bytes) in [5_000, 80_000, 300_000, 5_000_000].into_iter().enumerate() {
        other.say(&format!("allocate {round} 100"));
        assert_eq!(other.say(&format!("read kv {} 1", bytes - 1)).split(' ').nth(1), Some("range"));
        one.does(&format!("grow kv {bytes}"));
        assert_eq!(other.say("size kv"), bytes.to_string());
        assert_eq!(other.say("check kv 3 0 1000"), "same");
        assert_eq!(other.say(&format!("read kv {} 1", bytes - 1)), "read .");
        other.does(&format!("fill kv {round} 1000 {}", bytes - 1000));
        assert_eq!(one.say(&format!("check kv {round} 1000 {}", bytes - 1000)), "same");
    }
    assert_eq!(one.say("grow kv 4999999"), "error size 5000000");
    assert_eq!(one.say("allocate none 0"), "error size 1");
}

#[test]
fn names_are_given_changed_and_taken_back() {
    let daemon = Daemon::start();
    let (mut one, mut other) = (Program::start(&daemon), Program::start(&daemon));
    one.say("allocate kv 100 name=first");
    assert_eq!(other.say("allocate kv 100 name=first").split(' ').nth(1), Some("refused"));
    one.does("rename kv second -");
    assert_eq!(other.say("map kv first r"), "error refused NotFound 0");
    assert_eq!(other.say("map kv second r"), "direct");
    one.does("rename kv - -");
    assert_eq!(other.say("map again second r"), "error refused NotFound 0");
    assert_eq!(other.say("read kv 0 1"), "read .", "handles stay");
    other.say("allocate named 100 name=first");
    assert_eq!(one.say("list f"), "listed first:100:leased:1");
}

#[test]
fn regions_larger_than_an_arena_are_whole() {
    let daemon = Daemon::start();
    let mut one = Program::start(&daemon);
    let bytes = 200u64 << 20;
    assert_eq!(one.say(&format!("allocate kv {bytes}")), "direct");
    for at in [0, (64 << 20) - 100, bytes - 5000] {
        one.does(&format!("fill kv 9 {at} 5000"));
        assert_eq!(one.say(&format!("check kv 9 {at} 5000")), "same");
    }
}

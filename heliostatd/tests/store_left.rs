//! What is left of areas' users: operations under way, holes in the store's file, claims on logs.

mod support;

use std::os::unix::fs::MetadataExt;

use support::areas;
use support::programs::Program;
use support::stores::{namespace, StoreFile, GRAIN};
use support::{await_that, Daemon};

/// Not a test: the programs of the tests below.
#[test]
fn program_process() {
    areas::play();
}

const WAYS: [&str; 2] = ["emulated", "direct"];

fn store(bytes: u64, more: &str) -> (StoreFile, Daemon) {
    let file = StoreFile::new(bytes);
    let daemon = Daemon::with(&file.config(more), &[]);
    (file, daemon)
}

#[test]
fn a_queue_that_is_left_with_a_write_under_way_lends_its_memory_to_nobody_before_the_loop_is_done()
{
    let (_file, daemon) = store(64 * GRAIN, "");
    let mut one = Program::start(&daemon);
    for name in ["a", "b"] {
        one.does(&format!("create {name} {} emulated", 16 * GRAIN));
        one.does(&format!("write {name} 0 65536 1"));
    }
    daemon.stop();
    one.does("begin a 65536 7");
    one.does("leave a");
    one.does("begin b 65536 9");
    daemon.go_on();
    one.does("finish b");
    assert_eq!(one.say("read b 0 65536"), "all 9");
    let found = one.say("read a 0 65536");
    assert!(["all 1", "all 7"].contains(&found.as_str()), "{found}");
    // All that was lent comes back: much more is written than the window has.
    (0..200).for_each(|_| one.does("write a 0 65536 3"));
    assert_eq!(one.say("read a 0 65536"), "all 3");
}

#[test]
fn what_a_rate_holds_is_cancelled_with_its_queue_and_never_written() {
    let (_file, daemon) = store(64 * GRAIN, "");
    let mut one = Program::start(&daemon);
    for name in ["a", "b"] {
        one.does(&format!("create {name} {} emulated", 16 * GRAIN));
        one.does(&format!("write {name} 0 65536 1"));
    }
    // The first is on trust, for an hour.
    one.does("rate a 16");
    one.does("write a 0 65536 2");
    one.does("begin a 65536 7");
    one.does("leave a");
    one.does("begin b 65536 9");
    one.does("finish b");
    one.does("rate a 0");
    assert_eq!(
        (one.say("read a 0 65536"), one.say("read b 0 65536")),
        ("all 2".into(), "all 9".into())
    );
}

#[test]
fn a_file_gets_holes_by_programs_only_where_the_configuration_says_so() {
    if namespace().is_some() {
        return;
    }
    let each = |more| WAYS.map(|way| (more, way));
    for (more, way) in ["", "discard = \"no\"", "discard = \"yes\""].into_iter().flat_map(each) {
        let (file, daemon) = store(512 * GRAIN, more);
        let mut one = Program::start(&daemon);
        one.does(&format!("create a {} {way}", 256 * GRAIN));
        one.does("write_durable a 0 1048576 5");
        let blocks = || std::fs::metadata(file.path()).unwrap().blocks();
        let before = blocks();
        one.does("discard a 0 1048576");
        assert_eq!(one.say("read a 0 1048576"), "all 0");
        assert_eq!(blocks() < before, more.contains("yes"), "{way}, {more}");
    }
}

#[test]
fn who_writes_a_log_directly_keeps_writers_out_after_a_restart_of_the_control_plane_too() {
    let (_file, mut daemon) = store(64 * GRAIN, "");
    let (mut direct, mut raw) = (Program::start(&daemon), Program::start(&daemon));
    direct.does(&format!("create_log a {} direct", 8 * GRAIN));
    assert_eq!(direct.say("claim a"), "true");
    direct.does("write a 0 4096 1");
    raw.does(&format!("create b {} direct", 8 * GRAIN));
    // The lock of its name is what keeps others out of a log as long as the control plane lives.
    let mut other = Program::start(&daemon);
    other.does("open a data emulated");
    daemon.kill();
    daemon.restart();
    let mut other = Program::start(&daemon);
    for opening in ["open a data emulated", "open a data direct", "open a all any"] {
        assert_eq!(other.say(opening), "error HasWriters 0 1", "a process that it does not know");
    }
    other.does("open a read any");
    other.does("open b data any");
    direct.does("write_durable a 0 4096 7");
    assert_eq!(other.say("read a 0 4096"), "all 7");
    direct.kill();
    await_that("the claim goes with its writer", || other.say("open a data emulated") == "done");
    other.does("open a data direct");
    assert_eq!(other.say("claim a"), "true");
    let mut third = Program::start(&daemon);
    third.does("open a data emulated");
}

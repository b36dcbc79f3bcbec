//! Very many memory regions, and limits.

use std::time::Instant;

use crate::support::beside::{may_become_others, NEIGHBOUR};
use crate::support::programs::Program;
use crate::support::Daemon;

#[test]
fn a_program_has_a_hundred_thousand_regions_and_gives_them_back() {
    let daemon = Daemon::start();
    let mut one = Program::start(&daemon);
    let begun = Instant::now();
    one.does("many 100000 64");
    let allocated = begun.elapsed();
    one.does("write many-99999 0 last");
    assert_eq!(one.say("read many-50000 0 4"), "read ....");
    assert_eq!(one.say("read many-99999 0 4"), "read last");
    let begun = Instant::now();
    one.does("none");
    eprintln!("100,000 regions: allocated in {allocated:?}, freed in {:?}", begun.elapsed());
    // Whoever comes next finds as much room, and a program that is killed leaves as little.
    let mut next = Program::start(&daemon);
    next.does("many 100000 64");
    next.kill();
    let mut last = Program::start(&daemon);
    assert_eq!(last.say("allocate kv 64 name=kv"), "direct");
    assert_eq!(last.say("list"), "listed kv:64:leased:1");
}

#[test]
fn a_limit_that_is_reached_is_named_and_what_was_there_stays() {
    let config =
        "[memory]\nregions_per_user = 3\nhandles_per_session = 5\nbytes_per_user = 1000000\n";
    if !may_become_others() {
        return;
    }
    let daemon = Daemon::with(config, &[]);
    // Root and the control plane's owner have what is there.
    let mut one = Program::of_user(&daemon, NEIGHBOUR);
    for key in ["a", "b", "c"] {
        assert_eq!(one.say(&format!("allocate {key} 1000 name={key}")), "direct");
    }
    assert_eq!(one.say("allocate d 1000"), "error refused Full 3");
    assert_eq!(one.say("map e a r"), "direct");
    assert_eq!(one.say("map f a r"), "direct");
    assert_eq!(one.say("map g a r"), "error refused Full 5");
    one.does("drop f");
    assert_eq!(one.say("map g a r"), "direct");
    assert_eq!(one.say("grow b 2000000"), "error refused Full 1000000");
    one.does("write a 0 stays");
    assert_eq!(one.say("read g 0 5"), "read stays");
    one.does("free c");
    assert_eq!(one.say("allocate d 1000"), "direct");
}

//! Very many memory regions, and limits.

mod support;

use std::time::Instant;

use support::programs::{play, Program};
use support::Daemon;

#[test]
fn program_process() {
    play();
}

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

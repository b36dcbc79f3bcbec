//! Very many memory regions on another node, and the limits that a program meets there.
//!
//! By default fewer of them, so that the test takes seconds: `HELIOSTAT_REMOTE_REGIONS=100000` has a
//! hundred thousand.

use std::time::{Duration, Instant};

use crate::support::cluster::{nodes, nodes_with, SecretFile};
use crate::support::programs::Program;
use crate::support::{await_that, Daemon};

/// Handles of one session on regions of other nodes: `abi/src/memory/peer.rs`.
const HANDLES_MAX: u64 = 16_384;
/// What a region may cost the control plane that has it: its record, name, word, and room for growth
/// of the tables that they are in.
const KIB_PER_REGION: f64 = 2.0;

/// Of so many regions one is used.
const EVERY: u64 = 20;

fn count() -> u64 {
    std::env::var("HELIOSTAT_REMOTE_REGIONS").map_or(4000, |text| text.parse().unwrap())
}

/// Memory that a control plane has in use.
fn kib(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn there(daemon: &Daemon, what: &str) -> u64 {
    daemon.status()["memory"][what].as_u64().unwrap()
}

/// Does something with every so many'th of all regions, a tenth at a time; microseconds that each took, by
/// tenths.
fn by_tenths(all: u64, step: u64, mut act: impl FnMut(u64, u64)) -> String {
    let each = all / 10;
    let tenths = (0..10).map(|tenth| {
        let begun = Instant::now();
        act(tenth * each, each);
        let took: Duration = begun.elapsed();
        format!("{:.0}", took.as_secs_f64() * 1e6 / (each / step) as f64)
    });
    tenths.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_program_makes_finds_uses_and_frees_very_many_regions_of_another_node() {
    let (all, secret) = (count(), SecretFile::new("remote-many", "91"));
    let [one, two] = nodes::<2>(&secret);
    let mut program = Program::start(&one);
    program.does("on 2 named make 0 10 64");
    program.does("on 2 named free 0 10");
    let before = [kib(&one), kib(&two)];
    let mut grown = Vec::new();
    for round in 0..2 {
        let made = by_tenths(all, 1, |first, each| {
            program.does(&format!("on 2 named make {first} {each} 64"));
        });
        assert_eq!(there(&two, "regions"), all);
        let used = by_tenths(all, EVERY, |first, each| {
            program.does(&format!("on 2 named use {first} {each} {EVERY}"));
        });
        let begun = Instant::now();
        assert_eq!(program.say("on 2 named count"), all.to_string());
        let listed = begun.elapsed();
        grown.push([kib(&one) - before[0].min(kib(&one)), kib(&two) - before[1].min(kib(&two))]);
        let freed = by_tenths(all, 1, |first, each| {
            program.does(&format!("on 2 named free {first} {each}"));
        });
        eprintln!(
            "{all} regions, us for one by tenths: made {made}; mapped, written, read {used}; freed \
             {freed}; all listed in {listed:?}; KiB more on each node {:?}",
            grown[round]
        );
        assert_eq!((there(&two, "regions"), there(&two, "names")), (0, 0));
    }
    // The asking node keeps nothing of a region whose handle was given back; the other one its record.
    assert!(grown[0][0] < 4096, "{grown:?}");
    assert!((grown[0][1] as f64) < 4096.0 + KIB_PER_REGION * all as f64, "{grown:?}");
    let more = [0, 1].map(|node| grown[1][node].saturating_sub(grown[0][node]));
    assert!(more.iter().all(|more| *more < 4096), "the second time takes no more: {grown:?}");
}

#[test]
fn handles_there_are_refused_at_the_limit_and_all_come_back_at_a_programs_end() {
    let secret = SecretFile::new("remote-handles", "92");
    let [one, two] = nodes::<2>(&secret);
    let mut program = Program::start(&one);
    let refused = format!("{HANDLES_MAX} error refused Full {HANDLES_MAX}");
    assert_eq!(program.say("on 2 keep_until_refused 20000"), refused);
    assert_eq!(there(&two, "regions"), HANDLES_MAX, "what was refused is not there");
    program.does("write kept-0 0 first");
    program.does(&format!("write kept-{} 0 last", HANDLES_MAX - 1));
    assert_eq!(program.say("read kept-0 0 5"), "read first");
    // One that is given back is one that may be had, and another program is not held up.
    program.does("drop kept-7");
    assert_eq!(program.say("on 2 allocate again 64"), "on 2");
    let mut other = Program::start(&one);
    assert_eq!(other.say("on 2 allocate kv 64 name=kv"), "on 2");
    program.kill();
    await_that("all are given back", || there(&two, "regions") == 1);
    assert_eq!(other.say("on 2 list kv"), "listed kv:64:leased:1");
}

#[test]
fn limits_of_the_other_node_are_named_to_the_program_and_what_is_there_stays() {
    let secret = SecretFile::new("remote-limits", "93");
    let limits = "[memory]\nregions_per_user = 1000\n";
    let [one, two] = nodes_with::<2>(&crate::support::networks::transport(), limits, &secret);
    let mut program = Program::start(&one);
    program.does("on 2 named make 0 1000 64");
    let mut refused = || program.say("on 2 named make 1000 1 64");
    assert_eq!(refused(), "error refused Full 1000");
    assert_eq!(refused(), "error refused Full 1000");
    assert_eq!(there(&two, "regions"), 1000);
    program.does("on 2 named use 0 1000 50");
    program.does("on 2 named free 999 1");
    program.does("on 2 named make 999 1 64");
    assert_eq!(program.say("on 2 named count"), "1000");
}

//! Versions under free run: each test is one run of the verifier, which checks every page of every
//! version in processes of their own while it kills, stops and forks them.
//!
//! Engines, placements, memory and policies are words; longer runs and 1 GiB are in `verify/soak.py`.

use std::process::{Command, Output};

fn verifier(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_snapshot-verifier"));
    command.args(words.split(' ')).output().unwrap()
}

/// Runs it; its words for people, when all was as promised.
fn whole(words: &str) -> String {
    let output = verifier(words);
    let (said, wrong) = (&output.stdout, &output.stderr);
    let (said, wrong) = (String::from_utf8_lossy(said), String::from_utf8_lossy(wrong));
    println!("{words}: {said}");
    assert!(output.status.success(), "{words}: {wrong}\n{said}");
    said.into_owned()
}

/// True where write tracking works here; says so where it does not.
fn is_tracked() -> bool {
    let refused = heliostat_backend_pages::track::probe().err();
    refused.iter().for_each(|why| println!("skipped: the engine that tracks ({why})"));
    refused.is_none()
}

/// Ways to copy memory that is there: each engine, and each placement.
fn copying() -> Vec<&'static str> {
    let all = [
        "engine=tracked placement=chunks",
        "engine=tracked placement=slab",
        "engine=declared placement=chunks",
        "engine=whole placement=slab",
    ];
    all.into_iter().filter(|way| !way.contains("tracked") || is_tracked()).collect()
}

/// The same, and memory of the region's own.
fn ways() -> Vec<&'static str> {
    [copying(), vec!["engine=remap"]].concat()
}

#[test]
fn consumers_that_are_killed_stopped_and_forked_see_whole_versions_of_64_mib() {
    for way in copying() {
        whole(&format!("run mib=64 {way} consumers=3 rounds=40 chaos=all seed=2"));
    }
    // Each chunk that is written is copied whole: fewer of them do.
    whole("run mib=24 engine=remap consumers=3 rounds=50 chaos=all seed=2");
}

#[test]
fn eight_consumers_of_every_pace_see_whole_versions() {
    for way in ways() {
        whole(&format!("run mib=8 {way} consumers=8 rounds=60 chaos=all seed=3"));
    }
}

#[test]
fn every_policy_keeps_its_versions_whole() {
    for (flow, seed) in [("latest", 4), ("keep", 5), ("wait", 6), ("skip", 7)] {
        for (way, also) in ways().into_iter().zip(0..) {
            let seed = seed * 10 + also;
            whole(&format!(
                "run mib=6 {way} flow={flow} consumers=3 rounds=50 chaos=all seed={seed}"
            ));
        }
    }
}

/// Who reads in order asks for versions by number, just when they may be retired.
#[test]
fn a_version_that_was_wanted_by_its_number_is_whole_or_gone() {
    for way in ways() {
        whole(&format!("run mib=2 {way} flow=keep consumers=8 rounds=200 seed=52"));
    }
}

#[test]
fn every_kind_of_memory_gives_whole_versions() {
    for memory in ["malloc", "anonymous", "huge", "file", "memfd"] {
        for way in copying() {
            whole(&format!("run mib=5 memory={memory} {way} rounds=50 least=80 chaos=all seed=8"));
        }
    }
    whole("run kib=900 memory=stack rounds=80 least=20 seed=9");
}

#[test]
fn what_the_kernel_writes_is_in_the_next_version() {
    let said = whole("run mib=4 rounds=60 least=200 seed=10");
    let ways = ["Read", "Readv", "Direct", "Receive", "VmWrite", "ProcMem", "Uring"];
    let seen = |way: &&&str| said.contains(&format!("\"{way}\": "));
    let skipped = |way: &&&str| said.contains(&format!("skipped: writes by {way}: "));
    assert!(ways.iter().all(|way| seen(&way) != skipped(&way)), "{said}");
    assert!(ways.iter().filter(seen).count() >= 4, "{said}");
}

#[test]
fn pinned_device_writes_are_seen_once_they_are_declared() {
    for way in copying() {
        whole(&format!("pinned kib=256 {way}"));
    }
}

#[test]
fn a_sandbox_without_tracking_gets_whole_copies_and_a_reason() {
    for lack in ["userfaultfd", "uffd-absent", "scan"] {
        whole(&format!("run mib=4 lack={lack} expects=whole rounds=40 chaos=all seed=11"));
        let output = verifier(&format!("run mib=4 lack={lack} engine=tracked"));
        assert!(!output.status.success(), "{lack}: tracked without what it needs");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        let call = if lack == "scan" { "PAGEMAP_SCAN" } else { "userfaultfd" };
        assert!(why.contains(call), "{why}");
    }
}

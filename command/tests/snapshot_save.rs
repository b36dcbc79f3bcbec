//! Saving versions and getting them back, with a producer in another process.

mod support;

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use support::producer::{moving, play, stamped, ARRAY_BYTES, BYTES};
use support::*;

/// Not a test: the producer's part. Does nothing when run by itself.
#[test]
fn produce() {
    play();
}

/// The bytes in a file, by way of `export`.
fn exported(daemon: &TestDaemon, file: &str) -> Vec<u8> {
    daemon.said(&["export", file, "-o", "out.bin"]);
    std::fs::read(daemon.file("out.bin")).unwrap()
}

fn version(daemon: &TestDaemon, file: &str) -> u64 {
    let shown = daemon.said(&["show", file, "--json", "--check"]);
    serde_json::from_str::<serde_json::Value>(&shown).unwrap()["version"].as_u64().unwrap()
}

#[test]
fn what_is_saved_while_the_producer_goes_on_is_one_version() {
    let Some(daemon) = TestDaemon::new() else { return };
    let mut producer = daemon.producer("stamps");
    let early = daemon.refusal(&["save", "model/a"]);
    assert!(early.contains("no version yet"), "{early}");
    producer.tell("run");
    for level in ["--compress=1", "--no-compress", "--compress=-3", "--wait"] {
        daemon.said(&["save", "model/a", "a.hsnap", level]);
        assert_eq!(stamped(&exported(&daemon, "a.hsnap")), version(&daemon, "a.hsnap"));
    }
    let gone = daemon.refusal(&["save", "model/a", "--version", "1"]);
    assert!(gone.contains("its versions are ["), "{gone}");
}

/// Five files, each on the one before, and each version saved whole as well.
fn chain(daemon: &TestDaemon) {
    let mut producer = daemon.producer("moving");
    for number in 1..=5u64 {
        assert_eq!(producer.tell("publish"), number.to_string());
        let (file, whole) = (format!("{number}.hsnap"), format!("whole{number}.hsnap"));
        daemon.said(&["save", "model/a", &whole, "--no-compress"]);
        let base = format!("{}.hsnap", number - 1);
        match number {
            1 => daemon.said(&["save", "model/a", &file]),
            _ => daemon.said(&["save", "model/a", &file, "--no-compress", "--incremental", &base]),
        };
    }
}

#[test]
fn a_chain_gives_the_same_bytes_as_whole_files() {
    let Some(daemon) = TestDaemon::new() else { return };
    chain(&daemon);
    for number in 1..=5 {
        let wanted = moving(number);
        assert!(exported(&daemon, &format!("whole{number}.hsnap")) == wanted, "{number}");
        assert!(exported(&daemon, &format!("{number}.hsnap")) == wanted, "{number}");
        let out = std::fs::metadata(daemon.file("out.bin")).unwrap();
        assert!((out.len(), out.blocks() * 512 < out.len() / 2) == (BYTES as u64, true));
    }
    let size = |name: &str| std::fs::metadata(daemon.file(name)).unwrap().len();
    assert!(size("5.hsnap") * 2 < size("whole5.hsnap"));
    assert!(daemon.said(&["show", "5.hsnap"]).contains("builds on 4.hsnap, 4 files below"));
    assert!(daemon.call(&["diff", "5.hsnap", "whole5.hsnap"]).status.success());
}

#[test]
fn a_damaged_missing_or_wrong_base_is_named() {
    let Some(daemon) = TestDaemon::new() else { return };
    chain(&daemon);
    let good = std::fs::read(daemon.file("2.hsnap")).unwrap();
    let mut bad = good.clone();
    bad[300] ^= 1;
    std::fs::write(daemon.file("2.hsnap"), &bad).unwrap();
    assert!(daemon.refusal(&["export", "5.hsnap"]).contains("damaged"));
    std::fs::write(daemon.file("2.hsnap"), &good[..good.len() - 1]).unwrap();
    assert!(daemon.refusal(&["export", "5.hsnap"]).contains("ends before its index"));
    std::fs::copy(daemon.file("1.hsnap"), daemon.file("2.hsnap")).unwrap();
    assert!(daemon.refusal(&["export", "5.hsnap"]).contains("is not the base"));
    std::fs::remove_file(daemon.file("2.hsnap")).unwrap();
    let missing = daemon.refusal(&["export", "5.hsnap"]);
    assert!(missing.contains("3.hsnap needs its base 2.hsnap"), "{missing}");
    std::fs::write(daemon.file("2.hsnap"), &good).unwrap();
    assert!(exported(&daemon, "5.hsnap") == moving(5));
    assert!(!files(&daemon).iter().any(|name| name == "5.bin"));
}

#[test]
fn an_array_is_exported_for_numpy() {
    let Some(daemon) = TestDaemon::new() else { return };
    let mut producer = daemon.producer("array");
    producer.tell("publish");
    daemon.said(&["save", "/snapshot/model/a"]);
    assert_eq!(files(&daemon), ["model-a-1.hsnap"]);
    daemon.said(&["restore", "model-a-1.hsnap", "-o", "a.npy"]);
    let array = std::fs::read(daemon.file("a.npy")).unwrap();
    assert_eq!((&array[..6], array.len()), (&b"\x93NUMPY"[..], 128 + ARRAY_BYTES));
    assert!(array[128..] == exported(&daemon, "model-a-1.hsnap"));
}

#[test]
fn a_file_that_cannot_grow_leaves_nothing() {
    let Some(daemon) = TestDaemon::new() else { return };
    let mut producer = daemon.producer("stamps");
    producer.tell("publish");
    let mut limited = Command::new("sh");
    let script = format!("ulimit -f 100; exec {HELIOSTAT} snapshot save --no-compress model/a a");
    limited.args(["-c", &script]).current_dir(daemon.folder());
    limited.env("HELIOSTAT_SOCKET", daemon.file("control.sock"));
    let output = limited.output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("cannot write a: File too large"), "{said}");
    assert_eq!((output.status.code(), files(&daemon)), (Some(1), vec![]));
}

#[test]
fn who_ends_a_save_leaves_the_old_file_or_the_new_one() {
    let Some(daemon) = TestDaemon::new() else { return };
    let mut producer = daemon.producer("stamps");
    producer.tell("publish");
    daemon.said(&["save", "model/a", "a.hsnap"]);
    producer.tell("run");
    for (signal, delay_ms) in [("-KILL", 5), ("-INT", 10), ("-KILL", 20), ("-INT", 40)] {
        let arguments = ["save", "model/a", "a.hsnap", "--compress=12"];
        let mut save = daemon.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay_ms));
        Command::new("kill").args([signal, &save.id().to_string()]).status().unwrap();
        save.wait().unwrap();
        assert_eq!(files(&daemon), ["a.hsnap"]);
        daemon.said(&["show", "--check", "a.hsnap"]);
    }
}

#[test]
fn a_version_is_saved_whole_though_its_producer_is_killed() {
    let Some(daemon) = TestDaemon::new() else { return };
    let mut producer = daemon.producer("stamps");
    producer.tell("run");
    let mut save = daemon.command(&["save", "model/a", "a.hsnap", "--compress=15"]);
    let save = save.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    await_that("the save is attached", || {
        daemon.said(&["list", "--json"]).contains(&format!("{},", save.id()))
            || daemon.said(&["list", "--json"]).contains(&format!("{}]", save.id()))
            || daemon.file("a.hsnap").parse::<std::path::PathBuf>().unwrap().exists()
    });
    producer.kill();
    let output = save.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    stamped(&exported(&daemon, "a.hsnap"));
}

#[test]
fn what_is_not_there_or_not_yours_is_refused() {
    let Some(daemon) = TestDaemon::new() else { return };
    assert!(daemon.refusal(&["save", "nobody"]).contains("no region is called nobody"));
    let mut producer = daemon.producer("moving");
    producer.tell("publish");
    let denied = daemon.refusal(&["save", "model/a", "--owner", "54321"]);
    assert!(denied.contains("not yours to attach to"), "{denied}");
    daemon.said(&["save", "model/a", "a"]);
    std::fs::write(daemon.file("x.hsnap"), "text").unwrap();
    let foreign = daemon.refusal(&["save", "model/a", "b", "--incremental", "x.hsnap"]);
    assert!(foreign.contains("no snapshot file"), "{foreign}");
    let own = daemon.refusal(&["save", "model/a", "a", "--incremental", "a"]);
    assert!(own.contains("would take its place"), "{own}");
    assert!(daemon.refusal(&["export", "no.hsnap"]).contains("No such file"));
}

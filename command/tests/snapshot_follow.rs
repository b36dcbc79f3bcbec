//! Comparing and following versions, with a producer in another process.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;
use support::producer::{moving, play};
use support::*;

/// Not a test: the producer's part. Does nothing when run by itself.
#[test]
fn produce() {
    play();
}

#[test]
fn saved_and_live_versions_are_compared_byte_by_byte() {
    let Some(daemon) = TestDaemon::new() else { return };
    let mut producer = daemon.producer("moving");
    producer.tell("publish");
    daemon.said(&["save", "model/a", "1.hsnap"]);
    let same = daemon.call(&["diff", "1.hsnap", "model/a"]);
    assert_eq!((same.status.code(), text(&same.stdout)), (Some(0), String::new()));
    producer.tell("publish");
    daemon.said(&["save", "model/a", "2.hsnap"]);
    let wanted = moving(1).iter().zip(moving(2)).filter(|(a, b)| **a != *b).count();
    for (a, b) in [("1.hsnap", "2.hsnap"), ("1.hsnap", "model/a"), ("1.hsnap", "model/a@2")] {
        let differ = daemon.call(&["diff", a, b, "--json", "--ranges"]);
        let said: Value = serde_json::from_slice(&differ.stdout).unwrap();
        assert_eq!((differ.status.code(), &said["bytes"]), (Some(1), &wanted.into()), "{a} {b}");
        let ranges = said["ranges"].as_array().unwrap();
        assert!(ranges.iter().all(|range| range[1].as_u64().unwrap() <= 8), "{ranges:?}");
    }
    let text = text(&daemon.call(&["diff", "1.hsnap", "2.hsnap", "--ranges"]).stdout);
    assert!(text.contains("pages differ") && text.contains('+'), "{text}");
    assert_eq!(daemon.call(&["diff", "1.hsnap", "nobody"]).status.code(), Some(2));
    assert_eq!(daemon.call(&["diff", "1.hsnap", "model/a@77"]).status.code(), Some(2));
}

struct Watch(Child, BufReader<ChildStdout>);

impl Watch {
    fn start(daemon: &TestDaemon, more: &[&str]) -> Watch {
        let arguments = [&["watch", "model/a", "--json"], more].concat();
        let mut command = daemon.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Watch(child, stdout)
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn each_version_is_told_until_the_producer_is_killed() {
    let Some(daemon) = TestDaemon::new() else { return };
    let mut producer = daemon.producer("moving");
    let mut watch = Watch::start(&daemon, &[]);
    for number in 1..=3u64 {
        producer.tell("publish");
        let line = watch.line();
        assert_eq!((&line["version"], &line["missed"]), (&number.into(), &0.into()));
        assert_eq!(line["interval_ns"].is_null(), number == 1);
        let dirty = line["dirty"].as_f64().unwrap();
        let least = if number == 1 { 1.0 } else { f64::MIN_POSITIVE };
        assert!(
            (least..=1.0).contains(&dirty),
            "the first version counts all its bytes as written"
        );
    }
    producer.kill();
    assert!(watch.0.wait().unwrap().success());
}

#[test]
fn fast_versions_are_told_together_and_counted() {
    let Some(daemon) = TestDaemon::new() else { return };
    let mut producer = daemon.producer("stamps");
    producer.tell("run");
    let mut watch = Watch::start(&daemon, &[]);
    let lines: Vec<Value> = (0..6).map(|_| watch.line()).collect();
    for pair in lines.windows(2) {
        let number = |line: &Value, key: &str| line[key].as_u64().unwrap();
        let passed = number(&pair[1], "version") - number(&pair[0], "version");
        assert_eq!(passed, number(&pair[1], "missed") + 1);
        let apart = number(&pair[1], "published_ns") - number(&pair[0], "published_ns");
        assert_eq!(apart, number(&pair[1], "interval_ns"));
    }
}

#[test]
fn a_watch_that_follows_goes_on_with_the_next_producer() {
    let Some(daemon) = TestDaemon::new() else { return };
    let mut watch = Watch::start(&daemon, &["--follow"]);
    for generation in 1..=2u64 {
        let mut producer = daemon.producer("moving");
        producer.tell("publish");
        let line = watch.line();
        assert_eq!((&line["generation"], &line["version"]), (&generation.into(), &1.into()));
        producer.kill();
        await_that("the name is free", || !daemon.said(&["list"]).contains("model/a"));
    }
}

/// The control plane that comes next counts producers from 1 again.
#[test]
fn a_watch_that_follows_goes_on_over_the_death_of_the_control_plane() {
    let Some(mut daemon) = TestDaemon::new() else { return };
    let mut watch = Watch::start(&daemon, &["--follow"]);
    for _ in 0..2 {
        let mut producer = daemon.producer("moving");
        producer.tell("publish");
        let line = watch.line();
        assert_eq!((&line["generation"], &line["version"]), (&1.into(), &1.into()));
        producer.kill();
        daemon.restart();
    }
}

#[test]
fn what_is_published_between_two_savings_is_saved_though_nothing_follows() {
    let Some(daemon) = TestDaemon::new() else { return };
    let mut producer = daemon.producer("moving");
    producer.tell("publish");
    let arguments = ["save", "model/a", "s", "--every", "1s"];
    let mut save = daemon.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
    let is_there = |name: &str| files(&daemon).iter().any(|file| file == name);
    await_that("the first is saved", || is_there("s-1.hsnap"));
    producer.tell("publish");
    await_that("the second is saved", || is_there("s-2.hsnap"));
    producer.kill();
    assert!(!save.wait().unwrap().success());
}

#[test]
fn saving_at_intervals_keeps_the_newest_files() {
    let Some(daemon) = TestDaemon::new() else { return };
    let mut producer = daemon.producer("moving");
    producer.tell("run");
    let arguments = ["save", "model/a", "s", "--every", "20ms", "--keep", "2"];
    let mut save = daemon.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let told = BufReader::new(save.stdout.take().unwrap());
    assert_eq!(told.lines().take(5).count(), 5);
    producer.kill();
    // Its output is closed now, which ends nothing; the producer's end does.
    let status = save.wait().unwrap();
    let kept = files(&daemon);
    assert!(!status.success() && kept.len() == 2, "{kept:?}");
    kept.iter().for_each(|file| drop(daemon.said(&["show", "--check", file])));
}

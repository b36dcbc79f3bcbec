//! `heliostat store` and `heliostat area`: a store that is made, given to a control plane, used, and shown.

mod support;

use std::process::{Command, Output};

use serde_json::{json, Value};
use support::*;

fn call(daemon: Option<&TestDaemon>, arguments: &[&str]) -> Output {
    let mut command = Command::new(HELIOSTAT);
    command.args(arguments);
    if let Some(daemon) = daemon {
        command.env("HELIOSTAT_SOCKET", daemon.file("control.sock"));
    }
    command.output().unwrap()
}

/// What a call prints that must succeed.
fn said(daemon: Option<&TestDaemon>, arguments: &[&str]) -> String {
    let output = call(daemon, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn told(daemon: Option<&TestDaemon>, arguments: &[&str]) -> Value {
    serde_json::from_str(&said(daemon, arguments)).unwrap()
}

/// What a call says that must fail.
fn refusal(daemon: Option<&TestDaemon>, arguments: &[&str]) -> String {
    let output = call(daemon, arguments);
    assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

/// A folder for stores, gone with the value.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn a_store_is_made_once_and_says_what_durable_writes_cost() {
    let folder = folder();
    let store = path(&folder, "store");
    let made = told(None, &["store", "init", &store, "--size", "8M", "--json"]);
    assert_eq!((&made["grain_bytes"], &made["areas_max"]), (&json!(4096), &json!(1024)));
    assert!(["dsync", "flush", "dsync_alone"].contains(&made["durable_by"].as_str().unwrap()));
    assert!(made["dsync_us"].as_u64() > Some(0) && made["together"] == 16);
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&store).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    let twice = refusal(None, &["store", "init", &store]);
    assert!(twice.contains("a store already") && twice.contains("--force"), "{twice}");
    let other = said(None, &["store", "init", &store, "--force", "--grain", "64K", "--areas", "9"]);
    assert!(other.contains("at most 9 areas, in grains of 64.0 KiB"), "{other}");
    let seen = told(None, &["store", "inspect", &store, "--json"]);
    assert_ne!(seen["identity"], made["identity"]);
    assert_eq!((&seen["areas_max"], &seen["areas"]), (&json!(9), &json!([])));
    assert!(seen["zeroing_bytes"].as_u64() > Some(0), "what was there is zeroed first");
    assert_eq!((&seen["driven"]["by"], &made["driven"]["by"]), (&json!("file"), &json!("file")));
}

#[test]
fn what_is_no_store_is_overwritten_by_force_only() {
    let folder = folder();
    let file = path(&folder, "file");
    let missing = refusal(None, &["store", "init", &file]);
    assert!(missing.contains("--size"), "{missing}");
    std::fs::write(&file, vec![0x33; 4 << 20]).unwrap();
    let no = refusal(None, &["store", "init", &file]);
    assert!(no.contains("no store; --force"), "{no}");
    let no = refusal(None, &["store", "inspect", &file]);
    assert!(no.contains("holds something that is no store"), "{no}");
    let no = refusal(None, &["store", "init", &file, "--size", "1M", "--force"]);
    assert!(no.contains("leave --size out"), "{no}");
    assert_eq!(std::fs::read(&file).unwrap(), vec![0x33; 4 << 20]);
    said(None, &["store", "init", &file, "--force"]);
    let small = path(&folder, "small");
    let no = refusal(None, &["store", "init", &small, "--size", "64K"]);
    assert!(no.contains("bytes of the device"), "{no}");
    assert!(!std::path::Path::new(&small).exists(), "nothing is left of what was not made");
    for what in ["init", "inspect"] {
        let no = refusal(None, &["store", what, "/dev/null"]);
        assert!(no.contains("/dev/null: neither a file nor a disk nor an NVMe namespace"), "{no}");
    }
    std::fs::write(&small, [1; 100]).unwrap();
    let no = refusal(None, &["store", "inspect", &small]);
    assert!(no.contains("smaller than one sector"), "{no}");
    let odd = refusal(None, &["store", "init", &small, "--size", "12X"]);
    assert!(odd.contains("is no size"), "{odd}");
}

#[test]
fn areas_are_made_shown_resized_shared_and_deleted() {
    let Some(daemon) = TestDaemon::new() else { return };
    let daemon = Some(&daemon);
    let folder = folder();
    let store = path(&folder, "store");
    said(None, &["store", "init", &store, "--size", "16M"]);
    let none = said(daemon, &["store", "inspect"]);
    assert!(none.contains("heliostat store attach"), "{none}");
    let none = refusal(daemon, &["area", "create", "a", "--size", "64K"]);
    assert!(none.contains("has no store"), "{none}");
    let attached = said(daemon, &["store", "attach", &store]);
    assert!(attached.contains(&store) && attached.contains("0 areas"), "{attached}");
    let shown = said(daemon, &["store", "inspect"]);
    assert!(shown.contains("driven by the kernel's file system: it lies in a file"), "{shown}");
    assert_eq!(told(daemon, &["store", "inspect", "--json"])["driven"]["by"], "file");
    assert_eq!(said(daemon, &["area", "list"]), "there is no area that you may see\n");
    said(daemon, &["area", "create", "redis/log", "--size", "1M", "--kind", "log"]);
    said(daemon, &["area", "create", "b", "--size", "64K", "--others", "read,write"]);
    let list = told(daemon, &["area", "list", "redis/", "--json"]);
    assert_eq!((&list[0]["name"], &list[0]["kind"]), (&json!("redis/log"), &json!("log")));
    assert_eq!(list[0]["bytes"], 1 << 20);
    assert_eq!(list.as_array().unwrap().len(), 1);
    said(daemon, &["area", "resize", "redis/log", "--size", "2M"]);
    said(daemon, &["area", "resize", "redis/log", "--size", "512K"]);
    said(daemon, &["area", "rate", "b", "--bytes", "1M"]);
    said(daemon, &["area", "appoint", "b"]);
    let seen = told(daemon, &["area", "inspect", "b", "--json"]);
    assert_eq!((&seen["others"], &seen["way"]), (&json!("none"), &json!("emulated")));
    assert!(seen["why"].as_str().unwrap().contains("rate"), "{seen}");
    let seen = said(daemon, &["area", "inspect", "redis/log"]);
    assert!(seen.contains("512.0 KiB") && seen.contains("directly"), "{seen}");
    let odd = refusal(daemon, &["area", "resize", "b", "--size", "5000"]);
    assert!(odd.contains("a multiple of 4096"), "{odd}");
    let used = refusal(None, &["store", "init", &store, "--force"]);
    assert!(used.contains("in use"), "{used}");
    let lies = told(None, &["store", "inspect", &store, "--json"]);
    assert_eq!(lies["areas"].as_array().unwrap().len(), 2);
    said(daemon, &["area", "delete", "b"]);
    let gone = refusal(daemon, &["area", "delete", "b"]);
    assert!(gone.contains("no area has that name"), "{gone}");
    // Programs that have just ended may not be gone yet.
    await_that("nobody has a handle", || call(daemon, &["store", "detach"]).status.success());
    let info = told(daemon, &["store", "inspect", "--json"]);
    assert_eq!(info["state"], "none");
}

#[test]
fn the_store_of_the_configuration_and_its_areas_are_there_after_a_restart() {
    let folder = folder();
    let store = path(&folder, "store");
    said(None, &["store", "init", &store, "--size", "8M"]);
    let Some(mut daemon) = TestDaemon::with(&format!("[store]\npath = \"{store}\"\n")) else {
        return;
    };
    said(Some(&daemon), &["area", "create", "a", "--size", "64K"]);
    daemon.restart();
    await_that("the area is there again", || {
        call(Some(&daemon), &["area", "inspect", "a"]).status.success()
    });
}

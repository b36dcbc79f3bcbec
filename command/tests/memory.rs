//! `heliostat memory`, with regions of this process and a control plane of its own.

mod support;

use heliostat_client::session;
use heliostat_stub_memory::{Memory, MemoryError};
use support::*;

fn memory(daemon: &TestDaemon, arguments: &[&str]) -> (bool, String) {
    let mut command = std::process::Command::new(HELIOSTAT);
    command.arg("memory").args(arguments).env("HELIOSTAT_SOCKET", daemon.file("control.sock"));
    let output = command.output().unwrap();
    let said = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn a_region_is_listed_shown_read_and_freed_by_its_name() {
    let Some(daemon) = TestDaemon::new() else { return };
    let said = |arguments: &[&str]| memory(&daemon, arguments);
    assert_eq!(said(&["list"]), (true, "there is no region that you may see\n".into()));
    session::configure(daemon.file("control.sock"), "test".into());
    let programs = Memory::open().unwrap();
    let region = programs.allocate(3).name("kv/a").lasting().make().unwrap();
    let nameless = programs.allocate(5000).make().unwrap();
    region.write(0, b"abc").unwrap();
    let listed: serde_json::Value = serde_json::from_str(&said(&["list", "--json"]).1).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["bytes"]), (&"kv/a".into(), &3.into()));
    assert_eq!((&listed[1]["name"], &listed[1]["lasting"]), (&().into(), &false.into()));
    assert!(!said(&["list", "kv/b"]).1.contains("kv/a"));
    let shown = said(&["inspect", "/memory/kv/a"]).1;
    assert!(shown.contains("lasting  true") && shown.contains("path     direct"), "{shown}");
    assert_eq!(said(&["cat", "kv/a"]), (true, "abc".into()));
    assert_eq!(said(&["free", "kv/a"]), (true, String::new()));
    let stale = region.read(0, &mut [0]);
    assert!(matches!(stale, Err(MemoryError::Stale { .. })), "{stale:?}");
    let id = format!("@{}.{}", nameless.id().index, nameless.id().generation);
    assert_eq!(said(&["free", &id]), (true, String::new()));
    assert!(!said(&["free", "kv/a"]).0 && !said(&["inspect", "kv/a"]).0);
    assert_eq!(said(&["list"]).1, "there is no region that you may see\n");
}

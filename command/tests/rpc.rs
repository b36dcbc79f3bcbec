//! `heliostat rpc`, with functions of this process and a control plane of its own.

mod support;

use heliostat_client::session;
use heliostat_stub_rpc::Rpc;
use support::*;

fn listed(daemon: &TestDaemon, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(HELIOSTAT);
    command.args(["rpc", "list"]).args(arguments);
    let output = command.env("HELIOSTAT_SOCKET", daemon.file("control.sock")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_served_is_listed_with_who_serves_and_calls_it() {
    let Some(daemon) = TestDaemon::new() else { return };
    assert_eq!(listed(&daemon, &[]), "there is no function that you may see\n");
    session::configure(daemon.file("control.sock"), "test".into());
    let rpc = Rpc::open().unwrap();
    let get = rpc.publish("kv/get").request_bytes(100).reply_bytes(4096).serve().unwrap();
    let step = rpc.publish("step").others().serve().unwrap();
    let found = rpc.find("kv/get").unwrap();
    let told: serde_json::Value = serde_json::from_str(&listed(&daemon, &["--json"])).unwrap();
    assert_eq!((&told[0]["name"], &told[0]["callers"]), (&"kv/get".into(), &1.into()));
    assert_eq!((&told[0]["servers"], &told[0]["others"]), (&1.into(), &false.into()));
    assert_eq!((&told[0]["request_bytes"], &told[0]["reply_bytes"]), (&100.into(), &4096.into()));
    assert_eq!((&told[1]["name"], &told[1]["others"]), (&"step".into(), &true.into()));
    assert_eq!(told[0]["id"], get.id().to_string());
    let table = listed(&daemon, &["kv/"]);
    assert!(table.contains("4.0 KiB") && !table.contains("step"), "{table}");
    assert!(!listed(&daemon, &["--owner", "12345"]).contains("kv/get"));
    drop((get, step, found));
    assert_eq!(listed(&daemon, &[]), "there is no function that you may see\n");
}

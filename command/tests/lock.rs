//! `heliostat lock`, with locks of this process and a control plane of its own.

mod support;

use heliostat_client::session;
use heliostat_stub_lock::Locks;
use support::*;

fn listed(daemon: &TestDaemon, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(HELIOSTAT);
    command.args(["lock", "list"]).args(arguments);
    let output = command.env("HELIOSTAT_SOCKET", daemon.file("control.sock")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_open_is_listed_with_its_holders() {
    let Some(daemon) = TestDaemon::new() else { return };
    assert_eq!(listed(&daemon, &[]), "there is no lock that you may see\n");
    session::configure(daemon.file("control.sock"), "test".into());
    let locks = Locks::open().unwrap();
    let gate = locks.semaphore("jobs/gate", 3).unwrap();
    let held = gate.acquire(2).unwrap();
    let step = locks.barrier("step", 2).unwrap();
    let told: serde_json::Value = serde_json::from_str(&listed(&daemon, &["--json"])).unwrap();
    assert_eq!((&told[0]["name"], &told[0]["held"]), (&"jobs/gate".into(), &1.into()));
    assert_eq!((&told[1]["kind"], &told[1]["count"]), (&"barrier".into(), &2.into()));
    assert_eq!(told[0]["last"], held.token());
    let table = listed(&daemon, &["jobs/"]);
    assert!(table.contains("semaphore of 3") && !table.contains("step"), "{table}");
    assert!(!listed(&daemon, &["--owner", "12345"]).contains("jobs"));
    drop((held, gate, step));
    assert_eq!(listed(&daemon, &[]), "there is no lock that you may see\n");
}

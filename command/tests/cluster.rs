//! `heliostat cluster`, with two control planes that are nodes of one cluster.

mod support;

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;
use support::*;

fn heliostat(daemon: &TestDaemon, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(HELIOSTAT);
    command.args(arguments).env("HELIOSTAT_SOCKET", daemon.file("control.sock"));
    let output = command.output().unwrap();
    let said = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), text(&said))
}

/// What doctor finds, whatever else is missing on this machine.
fn doctor(daemon: &TestDaemon) -> String {
    let mut command = Command::new(HELIOSTAT);
    command.arg("doctor").env("HELIOSTAT_SOCKET", daemon.file("control.sock"));
    text(&command.output().unwrap().stdout)
}

fn states(daemon: &TestDaemon, more: &[&str]) -> Vec<(u64, String)> {
    let (is_done, told) = heliostat(daemon, &[&["cluster", "list", "--json"], more].concat());
    assert!(is_done, "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    let nodes = told["nodes"].as_array().unwrap().iter();
    nodes.map(|it| (it["node"].as_u64().unwrap(), it["state"].as_str().unwrap().into())).collect()
}

#[test]
fn nodes_are_listed_left_and_joined_from_the_command_line() {
    let secret = std::env::temp_dir().join(format!("heliostat-secret-{}", std::process::id()));
    std::fs::write(&secret, "0f".repeat(32)).unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = listeners.each_ref().map(|it| it.local_addr().unwrap().port());
    drop(listeners);
    // The second knows nobody: it is joined by the first.
    let config = |node: u64, port: u16| {
        let secret = secret.display();
        format!(
            "[cluster]\nnode = {node}\nlisten = \"tcp:127.0.0.1:{port}\"\nsecret = \"{secret}\"\n"
        )
    };
    let Some(one) = TestDaemon::with(&config(1, ports[0])) else { return };
    let Some(two) = TestDaemon::with(&config(2, ports[1])) else { return };
    let state = |number, word: &str| (number, word.to_owned());
    assert_eq!(states(&one, &[]), [state(1, "here")]);
    let address = format!("tcp:127.0.0.1:{}", ports[1]);
    let join = ["cluster", "join", "2", "--address", &address, "--json"];
    assert_eq!(heliostat(&one, &join), (true, "{\"joining\":2}\n".into()));
    let joined = [state(1, "here"), state(2, "joined")];
    await_that("it is joined", || states(&one, &[]) == joined);
    assert_eq!(states(&one, &["--seen-by", "2"]), [state(1, "joined"), state(2, "here")]);
    let (_, table) = heliostat(&one, &["cluster", "list"]);
    assert!(table.starts_with("node  address") && table.contains(&address), "{table}");
    let (_, status) = heliostat(&one, &["status"]);
    assert!(status.contains("node 1 of a cluster by TCP, 1 of 1 others joined"), "{status}");
    let found = doctor(&one);
    assert!(found.contains("node 1 by TCP, 1 of 1 others joined"), "{found}");
    assert_eq!(heliostat(&one, &["cluster", "leave", "2"]), (true, String::new()));
    await_that("it is left", || states(&one, &[]) == [state(1, "here"), state(2, "left")]);
    await_that("its guest is forgotten", || states(&two, &[]) == [state(2, "here")]);
    let (is_done, said) = heliostat(&one, &["cluster", "list", "--seen-by", "2"]);
    assert!(!is_done && said.contains("node 2 is not joined"), "{said}");
    assert!(!heliostat(&two, &["cluster", "join", "7"]).0);
    assert!(!heliostat(&two, &["cluster", "join", "7", "--address", "ucx:[::1]:1"]).0);
    assert_eq!(heliostat(&one, &["cluster", "leave", "--all"]), (true, String::new()));
    std::fs::remove_file(secret).unwrap();
}

#[test]
fn without_a_cluster_the_command_line_says_so() {
    let Some(daemon) = TestDaemon::new() else { return };
    let (is_done, said) = heliostat(&daemon, &["cluster", "list"]);
    assert!(!is_done && said.contains("no node of a cluster"), "{said}");
    assert!(doctor(&daemon).contains("none: the control plane runs alone"));
}

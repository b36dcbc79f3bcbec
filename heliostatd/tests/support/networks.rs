//! Nodes in networks of their own, where `make test-cluster` has made some; else on loopback.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// The processes whose network namespaces nodes 1 and on have, if they have such.
fn holders() -> Vec<String> {
    let given = std::env::var("HELIOSTAT_TEST_NETWORKS").unwrap_or_default();
    given.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// Whether nodes have networks of their own.
pub fn are_used() -> bool {
    !holders().is_empty()
}

/// What carries messages between nodes, where a test does not say.
pub fn transport() -> String {
    std::env::var("HELIOSTAT_TEST_TRANSPORT").unwrap_or_else(|_| "tcp".into())
}

/// The host of a node, from 0 on.
pub fn host(at: usize) -> String {
    if at < holders().len() {
        format!("10.77.0.{}", at + 1)
    } else {
        "127.0.0.1".into()
    }
}

/// What starts a program in the network of the node that listens as its configuration says.
pub fn command(program: &Path, folder: &Path) -> Command {
    let config = std::fs::read_to_string(folder.join("config.toml")).unwrap_or_default();
    let listens = config.lines().find(|line| line.starts_with("listen = "));
    let holders = holders();
    let at = (0..holders.len())
        .find(|at| listens.is_some_and(|line| line.contains(&format!(":10.77.0.{}:", at + 1))));
    let Some(pid) = at.and_then(|at| holders.get(at)) else { return Command::new(program) };
    let mut command = Command::new("nsenter");
    command.args(["--target", pid, "--net", "--"]).arg(program);
    command
}

/// Has the wire do something besides what it does in this run: `"cut": [2]`.
pub fn wire(besides: &str) {
    let is = std::env::var("HELIOSTAT_TEST_WIRE_IS").unwrap_or_else(|_| "{}".into());
    let inner = is.trim().trim_start_matches('{').trim_end_matches('}').to_owned();
    let parts: Vec<&str> =
        [inner.as_str(), besides].into_iter().filter(|it| !it.is_empty()).collect();
    let path = std::env::var("HELIOSTAT_TEST_WIRE").unwrap();
    let mut told = UnixStream::connect(path).unwrap();
    told.write_all(format!("{{{}}}\n", parts.join(", ")).as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(told).read_line(&mut line).unwrap();
    assert_eq!(line, "{}\n");
}

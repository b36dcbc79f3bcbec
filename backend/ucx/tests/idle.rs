//! Nodes over UCX at rest on loopback: no processor but for signs of life, no signal of the program's
//! taken, and no port on another interface.
//!
//! Alone in its process, since it measures the process.

#[path = "../../transport/tests/loopback/rest.rs"]
mod rest;
#[path = "../../transport/tests/loopback/station.rs"]
#[allow(dead_code)]
mod station;

use heliostat_backend_ucx::{version, Ucx};
use station::Station;

fn ucx() -> Ucx {
    Ucx::listen("127.0.0.1:0".parse().expect("an address")).expect("UCX listens")
}

/// The signals that this process has handlers for.
fn caught_signals() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("its status");
    status.lines().find(|line| line.starts_with("SigCgt")).expect("a line").to_string()
}

/// The IPv4 addresses that sockets of this process listen at, as the kernel writes them.
fn listening_addresses() -> Vec<String> {
    let own: Vec<String> = std::fs::read_dir("/proc/self/fd")
        .expect("descriptors")
        .filter_map(|fd| std::fs::read_link(fd.expect("one").path()).ok())
        .filter_map(|link| {
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_string())
        })
        .collect();
    let table = std::fs::read_to_string("/proc/self/net/tcp").expect("a table");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Columns: the local address, the state (0A: listens), the inode.
    rows.filter(|row| row.get(3) == Some(&"0A") && own.iter().any(|inode| row[9] == inode))
        .map(|row| row[1].split(':').next().expect("an address").to_string())
        .collect()
}

#[test]
fn two_joined_nodes_at_rest_take_no_time_no_signal_and_no_port_elsewhere() {
    let signals = caught_signals();
    if let Err(why) = version() {
        println!("not tested: {why}");
        return;
    }
    let (one, two) = (Station::start(1, 7, ucx), Station::start(2, 7, ucx));
    assert_eq!(caught_signals(), signals);
    one.join(two.address);
    let at = listening_addresses();
    assert!(at.len() >= 2 && at.iter().all(|address| address == "0100007F"), "{at:?}");
    one.call(2, vec![1; 100_000]).expect("answered");
    rest::assert_at_rest();
    assert!(one.lost.try_recv().is_err(), "they stay joined");
}

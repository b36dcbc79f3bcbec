//! The other ends that no session has: which processes hold them, by the kernel's own tables.
//!
//! A native connection whose other end nobody reports may lead to a program that was never under
//! Heliostat, to one that is native as a whole, to another control plane's, or to nobody any more.
//! The kernel's list of connections and the descriptors of processes tell which.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;

use heliostat_backend_socket::owner::{rows, Row};
use serde_json::{json, Value};

use super::cause::Cause;
use crate::proc;

/// Reasons that only the other end can explain.
const OF_OTHER_END: [&str; 4] = ["NoOffer", "PeerNotOurs", "PeerAsked", "NotAccepted"];

/// Names the processes at the other ends of a process's connections that no session has, and mends
/// the reasons.
pub fn name_others(explained: &mut Value, pid: u32, socket: &Path) {
    let Some(connections) = explained["connections"].as_array_mut() else { return };
    let is_wanted = |connection: &&mut Value| {
        let reason = connection["reason"].as_str().unwrap_or_default();
        let has_peers = connection["peers"].as_array().is_some_and(|peers| !peers.is_empty());
        !has_peers && OF_OTHER_END.contains(&reason)
    };
    let mut wanted: Vec<_> = connections.iter_mut().filter(is_wanted).collect();
    if wanted.is_empty() {
        return;
    }
    let tables = table(pid);
    let found: Vec<_> = wanted.iter().map(|connection| other_end(connection, &tables)).collect();
    let inodes: HashSet<u64> = found.iter().flatten().map(|row| row.inode).collect();
    let holders = proc::holders(&inodes);
    for (connection, row) in wanted.iter_mut().zip(found) {
        tell(connection, row, &holders, socket);
    }
}

/// The connections of the process's network namespace, by their two addresses.
fn table(pid: u32) -> HashMap<(SocketAddr, SocketAddr), Row> {
    let files = ["tcp", "tcp6"].map(|name| format!("/proc/{pid}/net/{name}"));
    let texts = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
    let mut found = HashMap::new();
    for text in texts {
        found.extend(rows(&text).map(|row| ((row.local, row.remote), row)));
    }
    found
}

fn other_end(connection: &Value, table: &HashMap<(SocketAddr, SocketAddr), Row>) -> Option<Row> {
    let address = |name: &str| connection[name].as_str()?.parse::<SocketAddr>().ok();
    table.get(&(address("peer")?, address("local")?)).copied()
}

fn tell(connection: &mut Value, row: Option<Row>, holders: &HashMap<u64, u32>, socket: &Path) {
    // Ends that are closed have no inode left: they only wait for the connection's end.
    let Some(row) = row.filter(|row| row.inode != 0) else {
        connection["reason_text"] = json!("not known any more: the other end is closed");
        return;
    };
    let Some(pid) = holders.get(&row.inode) else {
        connection["outside"] = json!({ "uid": row.uid });
        return;
    };
    let cause = Cause::of(*pid, socket);
    let program = proc::name(*pid).unwrap_or_default();
    connection["outside"] = json!({ "pid": pid, "uid": row.uid, "program": program });
    if cause.is_under() {
        connection["outside"]["no_session"] = json!(cause.to_string());
        connection["reason_text"] = json!(format!("the other end has no session here: {cause}"));
    }
}

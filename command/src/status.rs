//! `heliostat status` and `heliostat metrics`: what the control plane tells of itself.

use heliostat_abi::session::record::Request;
use serde_json::Value;

use crate::args::{ControlPlace, Look};
use crate::client::ask;
use crate::place::{meant, surroundings};
use crate::show::{print, ShowError};
use crate::table::{bytes, cell, list, Table};
use crate::{delegated, store};

/// `heliostat status`.
pub fn status(look: &Look) -> Result<(), ShowError> {
    let here = meant(&look.whose).map_err(ShowError::NoPlace)?;
    let text = ask(&here, &Request::Status)?;
    if look.json {
        return print(&format!("{text}\n"));
    }
    let status: Value = serde_json::from_str(&text).map_err(ShowError::Json)?;
    print(&status_text(&status))
}

/// The status as people read it.
pub fn status_text(status: &Value) -> String {
    let mut sessions = Table::new(&[
        "#pid",
        "#uid",
        "program",
        "#ports",
        "#channels",
        "#shared",
        "#open",
        "#direct",
        "#native",
        "#files",
    ]);
    for session in list(status, "sessions") {
        let counter = |name| cell(&session["counters"], name);
        sessions.row([
            cell(session, "pid"),
            cell(session, "uid"),
            cell(session, "program"),
            cell(session, "ports"),
            cell(session, "channels"),
            bytes(session["shared_bytes"].as_u64().unwrap_or(0)),
            open_now(session),
            counter("direct_streams"),
            counter("native_connections"),
            cell(session, "leases"),
        ]);
    }
    let mut ports = Table::new(&["listening on", "#uid", "#sessions", "#channels"]);
    for port in list(status, "ports") {
        let listeners = cell(port, "session_count");
        ports.row([cell(port, "address"), cell(port, "uid"), listeners, cell(port, "channels")]);
    }
    format!(
        "heliostatd {} (process {}), up {} s, {} sessions, {} addresses, {} channels\n{}\n{}\n{}{}{}",
        cell(status, "version"),
        cell(status, "pid"),
        cell(status, "uptime_s"),
        list(status, "sessions").len(),
        list(status, "ports").len(),
        cell(status, "channels"),
        cluster_text(&status["cluster"]),
        sessions.render(),
        ports.render(),
        delegated::status_text(status),
        store::status_text(&status["store"]),
    )
}

/// One line of the cluster, where there is one.
fn cluster_text(cluster: &Value) -> String {
    if cluster.is_null() {
        return String::new();
    }
    format!(
        "node {} of a cluster by {}, {} of {} others joined, epoch {}\n",
        cell(cluster, "node"),
        cell(cluster, "transport"),
        cell(cluster, "joined"),
        list(cluster, "nodes").len(),
        cell(cluster, "epoch"),
    )
}

/// Connections that a session has now, as its report lists them; direct and native were counted where
/// they began, which a forked child that serves them did not see.
fn open_now(session: &Value) -> String {
    let listed = &session["connections"];
    let count = |path: &str| listed[path].as_u64();
    let both = count("direct").zip(count("native"));
    both.map_or_else(|| "?".to_owned(), |(direct, native)| (direct + native).to_string())
}

/// `heliostat metrics`.
pub fn metrics(place: &ControlPlace) -> Result<(), ShowError> {
    print(&ask(&surroundings(place), &Request::Metrics)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_without_anything_still_prints() {
        assert!(status_text(&json!({})).starts_with("heliostatd"));
    }

    #[test]
    fn a_cluster_is_one_line() {
        let cluster =
            json!({ "node": 3, "transport": "TCP", "joined": 1, "epoch": 4, "nodes": [{}, {}] });
        let wanted = "\nnode 3 of a cluster by TCP, 1 of 2 others joined, epoch 4\n";
        assert!(status_text(&json!({ "cluster": cluster })).contains(wanted));
    }
}

//! Heliostat's own parts on this machine: the site list of libc and the control plane.

use heliostat_abi::session::record::Request;
use heliostat_interpose::{libc_path, scan_file};
use serde_json::Value;

use super::Check;
use crate::args::ControlPlace;
use crate::client::{ask, ClientError};
use crate::place::surroundings;
use crate::table::bytes;

/// All checks of this file.
pub fn checks(place: &ControlPlace) -> Vec<Check> {
    vec![sites(), control_plane(place), copies(place), cluster(place), ucx()]
}

fn sites() -> Check {
    let name = "system calls of libc";
    let Some(libc) = libc_path() else {
        return Check::fail(name, "no libc was found", "only glibc is supported");
    };
    match scan_file(&libc) {
        Err(error) => Check::fail(
            name,
            format!("{}: {error}", libc.display()),
            "programs run natively with this C library",
        ),
        Ok(list) => {
            let refused = list.sites.iter().filter(|site| site.refusal.is_some()).count();
            let caught = list.sites.len() - refused;
            let found = format!(
                "{}: {caught} sites can be caught, {refused} cannot (their calls stay native)",
                libc.display()
            );
            match caught {
                0 => Check::fail(name, found, "programs run natively with this C library"),
                _ => Check::ok(name, found),
            }
        }
    }
}

fn control_plane(place: &ControlPlace) -> Check {
    let name = "control plane";
    let here = surroundings(place);
    match ask(&here, &Request::Metrics) {
        Ok(_) => Check::ok(name, format!("answers on {}", here.socket_path().display())),
        Err(ClientError::NotRunning { socket, .. }) => {
            Check::ok(name, format!("not running on {}; run starts it", socket.display()))
        }
        Err(error) => {
            Check::fail(name, error.to_string(), "heliostat stop, or another HELIOSTAT_SOCKET")
        }
    }
}

/// From which size on the control plane copies payload around the cache, which it measures at its start.
fn copies(place: &ControlPlace) -> Check {
    let status = ask(&surroundings(place), &Request::Status).ok();
    let status = status.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let found = status.as_ref().map(|status| &status["copies"]).filter(|it| it.is_object());
    Check::ok("large copies", found.map_or(UNMEASURED.into(), copies_text))
}

/// Whether the control plane is a node of a cluster, and how many others are joined.
fn cluster(place: &ControlPlace) -> Check {
    let status = ask(&surroundings(place), &Request::Status).ok();
    let status = status.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let found = status.as_ref().map(|status| &status["cluster"]).filter(|it| it.is_object());
    cluster_check(found)
}

fn cluster_check(found: Option<&Value>) -> Check {
    let name = "cluster";
    let Some(found) = found else {
        return Check::ok(name, "none: the control plane runs alone, or not at all");
    };
    let nodes = found["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let joined = nodes.iter().filter(|node| node["state"] == "joined").count();
    let text = format!(
        "node {} by {}, {joined} of {} others joined",
        found["node"],
        found["transport"].as_str().unwrap_or("?"),
        nodes.len()
    );
    if found["is_ended"] == true {
        return Check::warn(name, text, "its transport broke: start the control plane again");
    }
    let registry = &found["registry"];
    if registry.is_object() && registry["is_member"] != true {
        let named = registry["name"].as_str().unwrap_or("?");
        let why = registry["why"].as_str().unwrap_or("not asked yet");
        let text = format!("{text}; no member by its registry {named}: {why}");
        let advice = "it neither asks other nodes nor serves them until the registry answers";
        return Check::warn(name, text, advice);
    }
    let is_sought = |node: &&Value| node["state"] != "joined" && node["state"] != "left";
    match nodes.iter().find(is_sought) {
        Some(_) => Check::warn(name, text, "heliostat status --json says why each is not joined"),
        None => Check::ok(name, text),
    }
}

/// UCX is needed by nodes that listen by it and by nobody else.
fn ucx() -> Check {
    let name = "UCX, for nodes that use it";
    match heliostat_backend_ucx::version() {
        Ok((major, minor)) => Check::ok(name, format!("version {major}.{minor}")),
        Err(error) => Check::ok(name, format!("{error}: nodes use TCP")),
    }
}

/// What is said while no control plane has measured.
const UNMEASURED: &str = "measured when the control plane starts";

fn copies_text(copies: &Value) -> String {
    let is_measured = copies["measured"].as_array().is_some_and(|samples| !samples.is_empty());
    let how = if is_measured { "measured" } else { "configured, or not measured" };
    match copies["around_from_bytes"].as_u64() {
        Some(from) => format!("around the cache from {} on ({how})", bytes(from)),
        None => format!("all through the cache ({how})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_that_is_sought_is_a_loss_and_one_that_left_is_none() {
        let nodes = |state| json!([{ "state": "joined" }, { "state": state }]);
        let found = |state| json!({ "node": 1, "transport": "TCP", "nodes": nodes(state) });
        let lost = cluster_check(Some(&found("lost")));
        assert_eq!(lost.found, "node 1 by TCP, 1 of 2 others joined");
        assert!(!lost.advice.is_empty());
        assert!(cluster_check(Some(&found("left"))).advice.is_empty());
        let mut ended = found("left");
        ended["is_ended"] = json!(true);
        assert!(!cluster_check(Some(&ended)).advice.is_empty());
        assert!(cluster_check(None).advice.is_empty());
    }

    #[test]
    fn what_was_measured_or_configured_is_one_line() {
        let measured = json!([{ "bytes": 65536, "through_ns": 1.0, "around_ns": 2.0 }]);
        let never = json!({ "around_from_bytes": null, "measured": measured });
        assert_eq!(copies_text(&never), "all through the cache (measured)");
        let from = json!({ "around_from_bytes": 1 << 20, "measured": [] });
        let text = copies_text(&from);
        assert!(
            text.starts_with("around the cache from ") && text.contains("configured"),
            "{text}"
        );
    }
}

//! `heliostat cluster`: the nodes of a cluster, from the command line.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use heliostat_abi::session::record::Request;
use heliostat_stub_cluster::{self as cluster, ClusterError, ListedNode, ListedRegistry};
use heliostat_stub_cluster::{MemberState, Nodes, ETCD, NO_REGISTRY};
use serde_json::{json, Value};

use crate::args::cluster::{ClusterCommand, ClusterLeaveArguments, ClusterListArguments};
use crate::args::ControlPlace;
use crate::client::{ask, open_session, ClientError};
use crate::place::surroundings;
use crate::quality::classes_text;
use crate::show::{print, ShowError};
use crate::table::Table;

/// Why it was not done.
#[derive(Debug)]
enum NodeFault {
    /// There is no control plane, or none to be trusted.
    Client(ClientError),
    /// The control plane says no.
    Cluster(ClusterError),
    /// It could not be shown.
    Show(ShowError),
}

impl fmt::Display for NodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Cluster(error) => error.fmt(f),
            Self::Show(error) => error.fmt(f),
        }
    }
}

impl From<ClusterError> for NodeFault {
    fn from(error: ClusterError) -> Self {
        Self::Cluster(error)
    }
}

/// Does what the command line says.
pub fn run(command: &ClusterCommand) -> ExitCode {
    let done = match command {
        ClusterCommand::List(arguments) => list(arguments),
        ClusterCommand::Join { node, address, json, place } => {
            join(*node, address.as_deref(), *json, place)
        }
        ClusterCommand::Leave(arguments) => leave(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list(arguments: &ClusterListArguments) -> Result<(), NodeFault> {
    open(&arguments.format.place)?;
    let seen = match arguments.seen_by {
        Some(node) => cluster::nodes_of(node)?,
        None => cluster::nodes()?,
    };
    let text =
        if arguments.format.json { format!("{}\n", nodes_json(&seen)) } else { table(&seen) };
    let classes = match (arguments.seen_by, arguments.format.json) {
        (None, false) => classes(&arguments.format.place)?,
        _ => String::new(),
    };
    print(&(text + &classes)).map_err(NodeFault::Show)
}

/// How classes of calls fare, where there are some.
fn classes(place: &ControlPlace) -> Result<String, NodeFault> {
    let text = ask(&surroundings(place), &Request::Status).map_err(NodeFault::Client)?;
    let status: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(classes_text(&status["cluster"]))
}

fn join(
    node: u64,
    address: Option<&str>,
    is_json: bool,
    place: &ControlPlace,
) -> Result<(), NodeFault> {
    open(place)?;
    cluster::join(node, address)?;
    said(is_json, &json!({ "joining": node }))
}

fn leave(arguments: &ClusterLeaveArguments) -> Result<(), NodeFault> {
    open(&arguments.format.place)?;
    match arguments.node {
        Some(node) => cluster::leave(node)?,
        None => cluster::leave_all()?,
    }
    let left = arguments.node.map_or_else(|| json!("all"), |node| json!(node));
    said(arguments.format.json, &json!({ "left": left }))
}

/// What was done, for programs; people see by silence that it was.
fn said(is_json: bool, told: &Value) -> Result<(), NodeFault> {
    if is_json {
        print(&format!("{told}\n")).map_err(NodeFault::Show)?;
    }
    Ok(())
}

fn open(place: &ControlPlace) -> Result<(), NodeFault> {
    open_session(place).map_err(NodeFault::Client)
}

fn nodes_json(seen: &Nodes) -> Value {
    let each = seen.nodes.iter().map(|node| {
        json!({
            "node": node.node,
            "address": node.address.as_str(),
            "state": node.state.word(),
            "incarnation": node.incarnation,
            "since_ms": node.since_ms,
            "round_trip_ns": (node.round_trip_ns > 0).then_some(node.round_trip_ns),
        })
    });
    let ListedRegistry { members, lease_ms, .. } = seen.registry;
    json!({
        "node": seen.own,
        "epoch": seen.epoch,
        "registry": registry_text(seen.registry),
        "members": members,
        "lease_ms": lease_ms,
        "nodes": each.collect::<Vec<_>>(),
    })
}

fn table(seen: &Nodes) -> String {
    let mut table = Table::new(&["#node", "address", "state", "#for", "#there and back"]);
    for node in &seen.nodes {
        let address = if node.address.is_none() { "-" } else { node.address.as_str() };
        table.row([
            node.node.to_string(),
            address.to_owned(),
            node.state.to_string(),
            format!("{} s", Duration::from_millis(node.since_ms).as_secs()),
            distance(node),
        ]);
    }
    format!("{}{}", table.render(), membership(seen))
}

fn registry_text(registry: ListedRegistry) -> String {
    match registry.kind {
        NO_REGISTRY => "none".to_owned(),
        ETCD => "etcd".to_owned(),
        node => format!("node:{node}"),
    }
}

/// The epoch, and whose it is.
fn membership(seen: &Nodes) -> String {
    let (epoch, registry) = (seen.epoch, seen.registry);
    if registry.kind == NO_REGISTRY {
        return format!("epoch {epoch}, of this node alone: there is no registry\n");
    }
    let lease = match registry.lease_ms {
        0 => "no lease: this node is no member now".to_owned(),
        ms => format!("lease for {}.{} s", ms / 1000, ms % 1000 / 100),
    };
    let (name, members) = (registry_text(registry), registry.members);
    format!("epoch {epoch}, registry {name} ({members} members), {lease}\n")
}

/// How far a node is, where that says something.
fn distance(node: &ListedNode) -> String {
    match (node.state, node.round_trip_ns) {
        (MemberState::Joined, ns) if ns > 0 => format!("{} us", ns.div_ceil(1000)),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use heliostat_stub_cluster::MemberAddress;

    use super::*;

    fn seen() -> Nodes {
        let node = |node, state, round_trip_ns, address: &str| ListedNode {
            node,
            incarnation: 7,
            state,
            since_ms: 61_500,
            round_trip_ns,
            address: MemberAddress::parse(address).unwrap(),
        };
        let nodes = vec![
            node(1, MemberState::Here, 0, "tcp:127.0.0.1:7701"),
            node(2, MemberState::Joined, 56_001, "tcp:127.0.0.1:7702"),
            node(9, MemberState::Lost, 70_000, ""),
        ];
        Nodes { own: 1, epoch: 3, registry: ListedRegistry::default(), nodes }
    }

    #[test]
    fn the_table_tells_state_age_and_distance() {
        let wanted = "node  address             state    for  there and back\n   \
                         1  tcp:127.0.0.1:7701  here    61 s               -\n   \
                         2  tcp:127.0.0.1:7702  joined  61 s           57 us\n   \
                         9  -                   lost    61 s               -\n\
                      epoch 3, of this node alone: there is no registry\n";
        assert_eq!(table(&seen()), wanted);
    }

    #[test]
    fn the_registry_and_the_rest_of_the_lease_are_told() {
        let with = |kind, lease_ms| {
            let registry = ListedRegistry { kind, members: 3, lease_ms };
            membership(&Nodes { registry, ..seen() })
        };
        let wanted = "epoch 3, registry etcd (3 members), lease for 4.2 s\n";
        assert_eq!(with(ETCD, 4_250), wanted);
        let out = "epoch 3, registry node:7 (3 members), no lease: this node is no member now\n";
        assert_eq!(with(7, 0), out);
    }

    #[test]
    fn programs_get_the_same_as_json() {
        let told = nodes_json(&seen());
        assert_eq!((&told["node"], &told["epoch"]), (&json!(1), &json!(3)));
        assert_eq!(told["nodes"][1]["round_trip_ns"], json!(56_001));
        assert!(told["nodes"][0]["round_trip_ns"].is_null());
        assert_eq!(told["nodes"][2]["state"], "lost");
    }
}

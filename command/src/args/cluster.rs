//! What the command line says of the cluster.

use clap::{Args, Subcommand};

use super::{ControlPlace, Format};

/// What can be done with the nodes of a cluster.
#[derive(Subcommand, Clone, Debug)]
pub enum ClusterCommand {
    /// Show the nodes, their states, and how far they are.
    List(ClusterListArguments),
    /// Have a node joined, now and whenever it is lost (root and the owner of the control plane).
    Join {
        /// Its number.
        node: u64,
        /// Where it listens, as tcp:127.0.0.1:7700; left out where that is known.
        #[arg(long, value_name = "ADDRESS")]
        address: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: ControlPlace,
    },
    /// Have a node left, until it is joined by command (root and the owner of the control plane).
    Leave(ClusterLeaveArguments),
}

/// Which nodes to show.
#[derive(Args, Clone, Debug)]
pub struct ClusterListArguments {
    /// As this node sees it, which is asked, instead of the one whose control plane it is.
    #[arg(long, value_name = "NODE")]
    pub seen_by: Option<u64>,
    #[command(flatten)]
    pub format: Format,
}

/// Which nodes to leave.
#[derive(Args, Clone, Debug)]
pub struct ClusterLeaveArguments {
    /// Its number.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub node: Option<u64>,
    /// Every node.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub format: Format,
}

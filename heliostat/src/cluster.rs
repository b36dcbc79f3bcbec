//! The nodes of a cluster, as the control plane of this one sees them.
//!
//! ```no_run
//! use heliostat::cluster::{self, MemberState};
//! use heliostat::control;
//!
//! control::configure_as_usual("monitor");
//! for node in cluster::nodes()?.nodes {
//!     if node.state == MemberState::Lost {
//!         println!("node {} at {} is lost for {} ms", node.node, node.address, node.since_ms);
//!     }
//! }
//! # Ok::<(), cluster::ClusterError>(())
//! ```
//!
//! Root and the owner of the control plane may have others joined and left; `docs/cluster.md` tells
//! what that means.

pub use heliostat_stub_cluster::*;

//! Nodes of a cluster, as one of them sees the others: its requests, and the states of members.
//!
//! A node's number and address are chosen by whoever sets the cluster up; which life of it is meant
//! says its *incarnation*, larger after each start. `docs/cluster.md` tells the whole.

pub mod address;
pub mod class;
pub mod limits;
pub mod registered;
pub mod reply;
pub mod request;
pub mod state;

pub use address::MemberAddress;
pub use class::Class;
pub use registered::{RegisteredMember, MEMBERS_PREFIX};
pub use reply::{ClusterReply, Listed, ListedNode, ListedRegistry, ETCD, NO_REGISTRY};
pub use request::ClusterRequest;
pub use state::MemberState;

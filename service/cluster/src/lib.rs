//! The cluster service's control side: which nodes are members, in which state, and what is next.
//!
//! A pure state machine: (state, time, event) -> effects. It has no link and no clock; the daemon
//! brings in what the node's thread tells, and gives the node's thread its orders.
//!
//! ```text
//!          due               joined
//! away  --------> joining ----------> joined --it left--> left
//!   ^   back-off     |  ^                |  \--told to--> left: leave; whoever comes is left again
//!   +---not joined---+  |                v
//!                       +-----due------ lost: link ended, silent, broke the protocol
//! left --told to join--> joining
//! ```
//!
//! The list of members is fixed by configuration and by command. A node that is on no list and proves
//! the secret is a *guest*: a member while it is joined, sought by nobody.
//!
//! **The epoch** counts the changes of membership that this node has seen: a node joined, lost or left.
//! What was decided under one epoch about who has what is looked at again when it has moved on, and an
//! answer for an earlier epoch is thrown away (fencing). Each node counts for itself; a registry that
//! all share (etcd) would give one epoch to all.
#![forbid(unsafe_code)]

mod cluster;
mod commands;
mod member;
mod refusal;

pub use cluster::{Cluster, Effect, Ending, Found};
pub use member::{Member, RETRY_NS_MAX, RETRY_NS_MIN};
pub use refusal::{Reason, Refusal};

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod thread_properties;

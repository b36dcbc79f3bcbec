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
//! **The registry**, where there is one, decides who is a member ([`Roll`]): a node that proved the
//! secret waits on its link until the registry names this very life of it, and one that the registry does
//! not name any more is left, even where its link works. [`Registration`] keeps this node named there,
//! under a lease, and says when it has to stop because its lease may have run out.
//!
//! **The epoch** is the registry's revision of the last change of membership, the same on all nodes.
//! Without a registry each node counts the changes that it has seen, for itself. What was decided under
//! one epoch about who has what is looked at again when it has moved on (fencing).
#![forbid(unsafe_code)]

mod cluster;
mod commands;
mod found;
mod member;
mod named;
mod refusal;
mod registration;
mod roll;

pub use cluster::{Cluster, Effect, Ending};
pub use found::Found;
pub use member::{Member, RETRY_NS_MAX, RETRY_NS_MIN};
pub use refusal::{Reason, Refusal};
pub use registration::{Answer, Ask, Registration, Step, Timing};
pub use roll::Roll;

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod registry_properties;
#[cfg(test)]
mod roll_tests;
#[cfg(test)]
mod thread_properties;

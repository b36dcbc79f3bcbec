//! Nodes that find each other by a registry.
//!
//! One program for these files: each would link all of the control plane once more.

#[path = "../support/mod.rs"]
mod support;

mod etcd;
mod node;
mod secure;

/// A process that a test has started: this program again.
#[test]
fn program_process() {
    support::programs::play();
}

//! Memory regions of other nodes but for the calls themselves (memory_remote.rs): moves, replicas, classes, lies.
//!
//! One program for these files: each would link all of the control plane once more.

#[path = "../support/mod.rs"]
mod support;

mod moves;
mod moves_hostile;
mod quality;
mod remote_hostile;
mod remote_many;
mod replicas;
mod replicas_hostile;
mod replicas_rights;

/// A process that a test has started: this program again.
#[test]
fn program_process() {
    support::programs::play();
}

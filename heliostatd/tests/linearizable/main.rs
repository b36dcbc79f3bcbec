//! Histories of real processes have an order in which one at a time could have made them.
//!
//! One program for these files: each would link all of the control plane once more.

#[path = "../support/mod.rs"]
mod support;

mod one_node;
mod two_nodes;

/// A process that a test has started: this program again.
#[test]
fn program_process() {
    match std::env::var_os("LOCKERS") {
        Some(_) => support::lockers::play(),
        None => support::programs::play(),
    }
}

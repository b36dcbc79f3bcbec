//! Memory regions of one node, by all of their paths.
//!
//! One program for these files: each would link all of the control plane once more.

#[path = "../support/mod.rs"]
mod support;

mod asks;
mod hostile;
mod loops;
mod many;
mod moves;
mod operations;
mod paths;
mod rates;
mod regions;

/// A process that a test has started: this program again.
#[test]
fn program_process() {
    support::programs::play();
}

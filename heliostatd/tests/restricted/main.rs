//! What sessions of sealed programs have.
//!
//! One program for these files: each would link all of the control plane once more.

#[path = "../support/mod.rs"]
mod support;

mod delegated;
mod locks;
mod memory;
mod regions;
mod services;
mod sockets;

/// A process that a test has started: this program again.
#[test]
fn program_process() {
    support::programs::play();
}

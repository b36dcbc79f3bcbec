//! Locks, semaphores and barriers, of one node and of others.
//!
//! One program for these files: each would link all of the control plane once more.

#[path = "../support/mod.rs"]
mod support;

mod ends;
mod hostile;
mod quality;
mod remote;
mod remote_ends;
mod remote_hostile;
mod turns;

/// A process that a test has started: this program again.
#[test]
fn program_process() {
    support::lockers::play();
}

//! Clients that lie, and clients that do not answer.
//!
//! One program for these files: each would link all of the control plane once more.

#[path = "../support/mod.rs"]
mod support;

mod descriptors;
mod hanging;
mod held_locks;
mod records;

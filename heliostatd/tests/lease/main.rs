//! Mapped files and the leases that they are read under.
//!
//! One program for these files: each would link all of the control plane once more.

#[path = "../support/mod.rs"]
mod support;

mod files;
mod limits;

//! Operations on files that a server loop does.
//!
//! One program for these files: each would link all of the control plane once more.

#[path = "../support/mod.rs"]
mod support;

mod again;
mod bounds;
mod fetch;
mod hostile;
mod locks;
mod loops;
mod many;
mod metadata;
mod metadata_hostile;
mod names;
mod operations;
mod policy;
mod rates;
mod sectors;
mod stale;
mod threads;
mod user;

//! Single requests and their answers: grants, limits, denials.
//!
//! One program for these files: each would link all of the control plane once more.

#[path = "../support/mod.rs"]
mod support;

mod denials;
mod explain;
mod grants;
mod limits;

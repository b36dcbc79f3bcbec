//! Regions over a test's own bytes, random plays on them, and forked children.
#![allow(dead_code)] // each test binary uses its part

#[path = "../../../posix/tests/support/child.rs"]
pub mod child;
pub mod play;
pub mod region;

//! Foreign memory of regions, for the fuzz target and for the replay test.
#![allow(dead_code)] // each target uses its part

pub mod region;
#[path = "../../../../ring/tests/lane_foreign/step.rs"]
pub mod step;

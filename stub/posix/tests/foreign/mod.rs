//! Foreign records that a stub reads, for the fuzz targets and for the replay test.
#![allow(dead_code)] // each target uses its part

pub mod reply;
pub mod slot;
mod slot_acts;
#[path = "../../../../ring/tests/lane_foreign/step.rs"]
pub mod step;

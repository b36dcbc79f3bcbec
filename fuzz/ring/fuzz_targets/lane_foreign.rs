//! Foreign words and bytes of a lane, struck between and inside the calls of an honest side.
#![no_main]

#[path = "../../../ring/tests/lane_foreign/mod.rs"]
mod lane_foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| lane_foreign::exercise(input));

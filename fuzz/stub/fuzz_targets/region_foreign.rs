//! Foreign tables and pages of pins of snapshot regions, struck between the other side's calls.
#![no_main]

#[path = "../../../stub/snapshot/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::region::exercise(input));

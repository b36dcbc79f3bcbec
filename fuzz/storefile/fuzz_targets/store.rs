//! Stores: any bytes are a store that can be opened, repaired and changed, or an error.
#![no_main]

#[path = "../../../storefile/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::exercise(input));

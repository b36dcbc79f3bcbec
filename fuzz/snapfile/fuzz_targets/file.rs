//! Snapshot files: any bytes are a file that can be read, or an error.
#![no_main]

#[path = "../../../snapfile/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::exercise(input));

//! Cached site lists: any bytes are a sound list or none.
#![no_main]

#[path = "../../../interpose/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::exercise(input));

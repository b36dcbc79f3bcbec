//! Bytes of strangers and messages of joined nodes: read or refused, and nothing is left of them.
#![no_main]

#[path = "../../../backend/transport/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::exercise(input));

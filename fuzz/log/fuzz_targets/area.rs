//! Logs on devices: any bytes are an area that opens and can be appended to, or an error.
#![no_main]

#[path = "../../../backend/log/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::exercise(input));

//! Foreign words of a channel's slots, struck between the steps of both sides.
#![no_main]

#[path = "../../../stub/posix/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::slot::exercise(input));

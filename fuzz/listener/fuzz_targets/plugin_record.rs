//! Records of a listener's plug-in: `cargo +nightly fuzz run plugin_record` in `fuzz/listener`.
#![no_main]

#[path = "../../../server/listener/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::exercise(input));

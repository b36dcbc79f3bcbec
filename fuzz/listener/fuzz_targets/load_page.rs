//! Pages of a listener's workers: `cargo +nightly fuzz run load_page` in `fuzz/listener`.
#![no_main]

#[path = "../../../service/listener/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::exercise(input));

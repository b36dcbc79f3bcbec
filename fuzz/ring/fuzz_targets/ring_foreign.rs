//! Foreign bytes of a ring: `cargo +nightly fuzz run ring_foreign` in `fuzz/ring`.
#![no_main]

#[path = "../../../ring/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::exercise(input));

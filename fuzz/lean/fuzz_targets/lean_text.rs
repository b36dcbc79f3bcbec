//! What HELIOSTAT_LEAN may say: `cargo +nightly fuzz run lean_text` in `fuzz/lean`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| heliostat_fuzz_lean::text(input));

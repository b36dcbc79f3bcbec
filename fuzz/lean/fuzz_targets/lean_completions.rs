//! Completions as a host may write them: `cargo +nightly fuzz run lean_completions` in `fuzz/lean`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| heliostat_fuzz_lean::completions(input));

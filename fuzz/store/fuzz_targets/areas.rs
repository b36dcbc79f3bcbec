//! Operations on areas: whatever a session writes into its ring, and whatever happens meanwhile, it reads
//! and writes its own areas alone.
#![no_main]

#[path = "../../../server/store/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::exercise(input));

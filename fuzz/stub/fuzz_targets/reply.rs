//! Replies of the control plane: any bytes are a reply that a stub can use, or an error.
#![no_main]

#[path = "../../../stub/posix/tests/foreign/mod.rs"]
mod foreign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| foreign::reply::exercise(input));

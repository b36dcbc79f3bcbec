//! Addresses, control messages, open_how, paths, questions for names and process names of sealed
//! programs: any bytes are one of these or an error, and nothing reaches beyond them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| heliostat_supervisor::foreign::read(bytes));

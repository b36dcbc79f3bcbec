//! The C functions that the targets call.

mod foreign {
    extern "C" {
        pub fn lean_fuzz_completions(input: *const u8, bytes: usize);
        pub fn lean_fuzz_text(input: *const u8, bytes: usize);
    }
}

/// What a host may write into a worker's rings.
pub fn completions(input: &[u8]) {
    // SAFETY: so many bytes are there, and only read while it runs.
    unsafe { foreign::lean_fuzz_completions(input.as_ptr(), input.len()) }
}

/// What HELIOSTAT_LEAN may say.
pub fn text(input: &[u8]) {
    // SAFETY: so many bytes are there; no more than that is read of them.
    unsafe { foreign::lean_fuzz_text(input.as_ptr(), input.len()) }
}
